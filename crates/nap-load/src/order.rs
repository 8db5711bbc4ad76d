//! [`Order`] and [`TimeTold`]: who was served before whom, and how good the told times were.
//!
//! Both compare visits; a visit is a post from its first try to its page. The k-th visit to arrive could have
//! been served when the k-th visit was served, whichever that was: by then as many had been served as had
//! arrived up to and including it.

use nap_core::micros::Micros;
use serde::Serialize;

use crate::stats::percentile;
use crate::tally::Served;

/// Only visits further apart than this are compared.
const APART: Micros = Micros::from_secs(2);

/// Pairs of visits that began more than [`APART`] apart.
#[derive(Debug, PartialEq, Serialize)]
pub struct Order {
    pub pairs: u64,
    /// The later visit was served first.
    pub wrong: u64,
    /// wrong / pairs; null if there are no pairs.
    pub wrong_share: Option<f64>,
}

/// The tickets sold at a visit's first refusal: their start compared with when it could have been served.
#[derive(Debug, PartialEq, Serialize)]
pub struct TimeTold {
    pub count: usize,
    /// Median; above zero: the told time was late. Null if there are none.
    pub median_s: Option<f64>,
    /// Median error in either direction.
    pub median_error_s: Option<f64>,
    /// The same as a share of the wait until it could have been served.
    pub median_error_share: Option<f64>,
}

impl Order {
    /// From visits by begin and end, in n log n: sorted by begin, with a count of the ends so far.
    pub fn of(visits: impl Iterator<Item = (Micros, Micros)>) -> Self {
        let mut visits: Vec<_> = visits.collect();
        visits.sort_unstable();
        let mut ends: Vec<Micros> = visits.iter().map(|(_, done)| *done).collect();
        ends.sort_unstable();
        let rank = |done: Micros| ends.partition_point(|end| *end <= done);
        let mut before = Counts::new(ends.len());
        let mut earlier = visits.iter().peekable();
        let (mut pairs, mut wrong, mut entered) = (0, 0, 0);
        for (began, done) in &visits {
            while let Some((_, end)) = earlier.next_if(|(first, _)| *first + APART < *began) {
                before.add(rank(*end));
                entered += 1;
            }
            pairs += entered;
            wrong += entered - before.upto(rank(*done));
        }
        Order {
            pairs,
            wrong,
            wrong_share: (pairs > 0).then(|| wrong as f64 / pairs as f64),
        }
    }
}

impl TimeTold {
    pub fn of(served: &[Served]) -> Self {
        let mut arrivals: Vec<&Served> = served.iter().collect();
        arrivals.sort_by_key(|post| (post.began(), post.done));
        let mut ends: Vec<Micros> = served.iter().map(|post| post.done).collect();
        ends.sort_unstable();
        let (mut told, mut errors, mut shares) = (Vec::new(), Vec::new(), Vec::new());
        for (post, could) in arrivals.into_iter().zip(ends) {
            let Some(start) = post.told else { continue };
            let late = start.as_secs_f64() - could.as_secs_f64();
            told.push(late);
            errors.push(late.abs());
            let wait = (could - post.began()).as_secs_f64();
            shares.extend((wait > 0.0).then(|| late.abs() / wait));
        }
        TimeTold {
            count: told.len(),
            median_s: median(told),
            median_error_s: median(errors),
            median_error_share: median(shares),
        }
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    (!values.is_empty()).then(|| percentile(&values, 0.5))
}

/// How many entries have a rank up to a given one, from 1 on (Fenwick, "A new data structure for cumulative
/// frequency tables", 1994).
struct Counts(Vec<u64>);

impl Counts {
    fn new(ranks: usize) -> Self {
        Counts(vec![0; ranks + 1])
    }

    fn add(&mut self, mut rank: usize) {
        while let Some(count) = self.0.get_mut(rank) {
            *count += 1;
            rank += rank & rank.wrapping_neg();
        }
    }

    fn upto(&self, mut rank: usize) -> u64 {
        let mut sum = 0;
        while rank > 0 {
            sum += self.0[rank];
            rank &= rank - 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ticket::Group;
    use nap_rng::Rng;

    fn post(began: u64, done: u64, told: Option<u64>) -> Served {
        let secs = Micros::from_secs;
        Served {
            client: 0,
            done: secs(done),
            response: secs(1),
            total: secs(done - began),
            tries: 1,
            group: Group::Newcomer,
            told: told.map(secs),
        }
    }

    fn order(visits: &[(u64, u64)]) -> (u64, u64) {
        let secs = Micros::from_secs;
        let visits = visits
            .iter()
            .map(|(began, done)| (secs(*began), secs(*done)));
        let order = Order::of(visits);
        (order.pairs, order.wrong)
    }

    #[test]
    fn only_visits_further_apart_are_compared() {
        for (visits, want) in [
            (&[][..], (0, 0)),
            (&[(0, 9), (2, 5)], (0, 0)),
            (&[(0, 9), (3, 5)], (1, 1)),
            (&[(3, 5), (0, 9)], (1, 1)),
            (&[(0, 5), (3, 9)], (1, 0)),
            (&[(0, 5), (3, 5)], (1, 0)),
            (&[(0, 9), (1, 8), (4, 7), (9, 10)], (5, 2)),
        ] {
            assert_eq!(order(visits), want, "{visits:?}");
        }
        assert_eq!(Order::of(std::iter::empty()).wrong_share, None);
    }

    #[test]
    fn it_is_what_counting_each_pair_gives() {
        let mut rng = Rng::new(7, 0);
        let visits: Vec<(u64, u64)> = (0..300)
            .map(|_| {
                let began = (rng.unit() * 40.0) as u64;
                (began, began + (rng.unit() * 20.0) as u64)
            })
            .collect();
        let all = || {
            visits
                .iter()
                .flat_map(|a| visits.iter().map(move |b| (a, b)))
        };
        let apart = all().filter(|(a, b)| a.0 + 2 < b.0);
        let wrong = apart.clone().filter(|(a, b)| a.1 > b.1);
        assert_eq!(order(&visits), (apart.count() as u64, wrong.count() as u64));
    }

    #[test]
    fn the_time_told_is_held_against_the_rank() {
        // The third to come was served first; they could have been served when the third was: at 8.
        let served = [
            post(0, 4, None),
            post(1, 8, Some(7)),
            post(2, 3, Some(12)),
            post(3, 13, Some(13)),
        ];
        let told = TimeTold::of(&served);
        // Could be served at 3, 4, 8, 13. Told 3 s late of 3 s, 4 s late of 6 s, and the right time.
        assert_eq!(
            (told.count, told.median_s, told.median_error_s),
            (3, Some(3.0), Some(3.0))
        );
        assert_eq!(told.median_error_share, Some(4.0 / 6.0));
        assert_eq!(TimeTold::of(&[]).median_error_s, None);
    }
}

//! [`Setup`]: clients that poll one event as they are told, in virtual time, against a server that
//! takes a while for each poll.
//!
//! The event is the one that httpd has; the server's time is shared by the polls that have a worker,
//! and somebody else may take part of it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use nap_core::micros::Micros;
use nap_core::rng::Rng;
use nap_core::telepoll::{Asks, Terms};

/// Clients, what they poll, and who serves them.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The event's.
    pub terms: Terms,
    /// How many poll.
    pub clients: u32,
    /// They begin at random within so many seconds ...
    pub begin_s: f64,
    /// ... unless it is said when.
    pub begin_at_s: Vec<f64>,
    /// Mean delay of the network, each way, seconds.
    pub delay_s: f64,
    /// They wait up to this share longer than told, as the ticket page does.
    pub longer: f64,
    /// What a poll takes the server, seconds.
    pub service_s: f64,
    /// So many are served at a time; of the others the server knows nothing.
    pub workers: u32,
    /// From and until when somebody else takes this share of the server.
    pub hog: Option<(f64, f64, f64)>,
    /// They wait with tickets, of which so many begin a second, and poll as the ticket page does.
    pub tickets_per_s: Option<f64>,
    /// Everything random comes from it.
    pub seed: u64,
    /// How long it is watched, seconds.
    pub for_s: u32,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Polled {
    /// Polls that reached the server, a number a second.
    pub asked: Vec<u32>,
    /// Answers, a number a second.
    pub answered: Vec<u32>,
    /// T0 at the end of each second, in seconds.
    pub unit_s: Vec<f64>,
    /// Of few clients each access: when, whose, what it was told, R or Q.
    pub accesses: Vec<Access>,
    /// The longest that an answer took, seconds, in each second.
    pub slowest_s: Vec<f64>,
}

/// One access.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Access {
    /// When it came, seconds.
    pub at_s: f64,
    /// Who.
    pub client: u32,
    /// Tw, seconds.
    pub wait_s: f64,
    /// R, or Q.
    pub ahead: i64,
}

/// Accesses are written down one by one of at most so many clients.
const FEW: u32 = 100;
/// Before it there is time for what a first period needs: it begins at a whole number of them.
const EPOCH_PERIODS: u64 = 1000;

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            terms: Terms::new(Micros::from_secs(10), 500.0),
            clients: 1000,
            begin_s: 5.0,
            begin_at_s: Vec::new(),
            delay_s: 0.0,
            longer: 0.0,
            service_s: 0.0,
            workers: 128,
            hog: None,
            tickets_per_s: None,
            seed: 1,
            for_s: 600,
        }
    }
}

/// A poll that has a worker.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Begun {
    /// When the client sent it.
    asked_us: u64,
    /// When the worker took it: what the server knows.
    at_us: u64,
    /// What the client will wait after his answer; None: he does not come again.
    next_us: Option<u64>,
}

impl Setup {
    /// Runs it.
    pub fn run(&self) -> Polled {
        let asks = Asks::default();
        let event = &asks.event;
        event.set(&self.terms);
        let mut holds = vec![false; self.clients as usize];
        let mut out = 0;
        let mut rng = Rng::new(self.seed, 0);
        let epoch_us = self.terms.base.0.saturating_mul(EPOCH_PERIODS);
        let seconds = self.for_s as usize;
        let mut polled = Polled {
            asked: vec![0; seconds],
            answered: vec![0; seconds],
            unit_s: vec![0.0; seconds],
            slowest_s: vec![0.0; seconds],
            accesses: Vec::new(),
        };
        let micros = |s: f64| Micros::from_secs_f64(s).0;
        let mut begin_us: Vec<u64> = (0..self.clients)
            .map(|client| {
                let given = self.begin_at_s.get(client as usize).copied();
                micros(given.unwrap_or_else(|| rng.unit() * self.begin_s))
            })
            .collect();
        if self.tickets_per_s.is_some() {
            // Tickets are sold in the order of their times.
            begin_us.sort_unstable();
        }
        let ask = |(at_us, client)| Reverse((at_us, client, None));
        // An answer belongs to the access that began it.
        let mut due: BinaryHeap<Reverse<(u64, u32, Option<Begun>)>> =
            begin_us.into_iter().zip(0..).map(ask).collect();
        let mut queue = VecDeque::new();
        let (mut busy, mut free_us) = (0, 0);
        let end_us = micros(f64::from(self.for_s));
        while let Some(Reverse((now_us, client, begun))) = due.pop() {
            if now_us >= end_us {
                break;
            }
            let second = (now_us / 1_000_000) as usize;
            let now = Micros(epoch_us + now_us);
            match begun {
                None => {
                    polled.asked[second] += 1;
                    queue.push_back((now_us, client));
                }
                Some(begun) => {
                    busy -= 1;
                    polled.answered[second] += 1;
                    event.answered(now, Micros(now_us - begun.at_us));
                    let took_s = (now_us - begun.asked_us) as f64 / 1e6;
                    let slowest = &mut polled.slowest_s[(begun.asked_us / 1_000_000) as usize];
                    *slowest = slowest.max(took_s);
                    if let Some(next_us) = begun.next_us {
                        let delay = match self.delay_s > 0.0 {
                            true => rng.exponential(self.delay_s) + rng.exponential(self.delay_s),
                            false => 0.0,
                        };
                        due.push(ask((now_us + next_us + micros(delay), client)));
                    }
                }
            }
            if busy == self.workers {
                continue;
            }
            let Some((asked_us, client)) = queue.pop_front() else {
                continue;
            };
            busy += 1;
            // All who are served share it, and want the same of it: they end in their order.
            let from_us = now_us.max(free_us);
            free_us = from_us + micros(self.takes_s(from_us as f64 / 1e6));
            let start_us =
                (self.tickets_per_s).map(|rate| micros(self.begin_s + f64::from(client) / rate));
            let left = start_us.map(|start| Micros(start.saturating_sub(now_us)));
            let told = match left {
                // His time has come: he is not asked to ask again.
                Some(Micros(0)) => {
                    out -= u32::from(std::mem::take(&mut holds[client as usize]));
                    None
                }
                Some(left) if holds[client as usize] => asks
                    .next(client.into(), now, left, out)
                    .map(|wait| (wait, 0)),
                Some(left) => {
                    holds[client as usize] = true;
                    out += 1;
                    asks.begin(client.into(), now, left, out)
                        .map(|wait| (wait, 0))
                }
                None => event.poll(now).map(|poll| (poll.wait, poll.ahead)),
            };
            polled.unit_s[second] = event
                .level(now)
                .map_or(0.0, |level| level.t0_ns as f64 / 1e9);
            if let Some((wait, ahead)) = told
                && self.clients <= FEW
            {
                polled.accesses.push(Access {
                    at_s: now_us as f64 / 1e6,
                    client,
                    wait_s: wait.as_secs_f64(),
                    ahead,
                });
            }
            let next_us = told.map(|(wait, _)| {
                let longer = Micros((wait.0 as f64 * (1.0 + rng.unit() * self.longer)) as u64);
                // The page asks at its start at the latest.
                left.map_or(longer, |left| longer.min(left)).0
            });
            let begun = Begun {
                asked_us,
                at_us: now_us,
                next_us,
            };
            due.push(Reverse((free_us, client, Some(begun))));
        }
        polled
    }

    fn takes_s(&self, now_s: f64) -> f64 {
        match self.hog {
            Some((from, until, share)) if (from..until).contains(&now_s) => {
                self.service_s / (1.0 - share)
            }
            _ => self.service_s,
        }
    }
}

impl Polled {
    /// The most polls a second in any window of so many seconds, from a second on.
    pub fn most(&self, window_s: usize, from_s: usize) -> f64 {
        let all = self.asked.get(from_s..).unwrap_or(&[]);
        let most = all
            .windows(window_s)
            .map(|window| window.iter().sum::<u32>())
            .max();
        f64::from(most.unwrap_or(0)) / window_s as f64
    }

    /// Polls a second in the mean, in seconds from and until.
    pub fn mean(&self, from_s: usize, until_s: usize) -> f64 {
        let all = self.asked.get(from_s..until_s).unwrap_or(&[]);
        f64::from(all.iter().sum::<u32>()) / all.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nap_core::telepoll::{Form, Mode};

    /// 1/T0 is so much less than the rate.
    const MARGIN: f64 = 1.1;

    /// No window of five seconds and no second has more than they may, after the first period.
    fn is_level(setup: &Setup, unit_s: f64) {
        let polled = setup.run();
        let from = (setup.begin_s + setup.terms.base.as_secs_f64()).ceil() as usize;
        let (five, one) = (polled.most(5, from), polled.most(1, from));
        assert!(five <= 1.15 / unit_s, "{five} in five seconds, {setup:?}");
        let second = 1.0 / unit_s + 4.0 * (1.0 / unit_s).sqrt();
        assert!(one <= second, "{one} of {second} in a second, {setup:?}");
    }

    #[test]
    fn a_crowd_polls_no_faster_than_it_may_however_large_it_is() {
        for clients in [500, 5_000, 20_000] {
            for (delay_s, longer) in [(0.0, 0.0), (0.05, 0.05)] {
                let setup = Setup {
                    clients,
                    delay_s,
                    longer,
                    for_s: 240,
                    ..Setup::default()
                };
                is_level(&setup, setup.terms.floor_ns as f64 / 1e9);
            }
        }
    }

    #[test]
    fn ticket_pages_poll_no_faster_than_they_may() {
        for (clients, tickets_per_s) in [(5_000, 8.0), (100_000, 40.0), (100_000, 300.0)] {
            let setup = Setup {
                clients,
                delay_s: 0.05,
                tickets_per_s: Some(tickets_per_s),
                for_s: 900,
                ..Setup::default()
            };
            is_level(&setup, setup.terms.floor_ns as f64 / 1e9);
        }
    }

    #[test]
    fn patient_clients_stay_in_their_share_of_the_period() {
        for form in [Form::Paper, Form::Smooth] {
            for (clients, delay_s) in [(10, 0.0), (30, 0.05), (100, 0.05)] {
                let setup = Setup {
                    terms: Terms {
                        mode: Mode::Concentrate,
                        form,
                        ..Terms::new(Micros::from_secs(60), 100.0)
                    },
                    clients,
                    begin_s: 130.0,
                    delay_s,
                    for_s: 900,
                    ..Setup::default()
                };
                let polled = setup.run();
                let late = (polled.accesses.iter())
                    .filter(|access| access.at_s >= 360.0)
                    .map(|access| access.at_s % 60.0);
                let last = late.fold(0.0, f64::max);
                // Ta/k, and in whole units the rest of one.
                let unit_s = 60.0 / f64::from(2 * clients);
                assert!(
                    last <= 30.0 + unit_s,
                    "{form:?}: {last} of {clients} clients"
                );
            }
        }
    }

    /// The paper's figure 3.
    #[test]
    fn two_clients_are_spread_over_the_period_in_the_third() {
        let polled = Setup {
            terms: Terms {
                mode: Mode::Relevel,
                slack_ppm: 1_000_000,
                floor_ns: 15_000_000_000,
                ..Terms::new(Micros::from_secs(60), 1.0)
            },
            clients: 2,
            begin_at_s: vec![5.0, 10.0],
            for_s: 240,
            ..Setup::default()
        }
        .run();
        let third: Vec<f64> = (polled.accesses.iter())
            .filter(|access| (120.0..180.0).contains(&access.at_s))
            .map(|access| access.at_s)
            .collect();
        assert_eq!(third.len(), 2, "{:?}", polled.accesses);
        assert!((third[1] - third[0] - 30.0).abs() < 1e-3, "{third:?}");
    }

    /// As with a real httpd: `cargo bench --bench pollers -- only=hog`.
    #[test]
    fn a_hog_lowers_the_rate_to_what_is_served_and_it_is_back_within_three_periods() {
        // Clients, polls a second, service of one in seconds, what the hog leaves.
        for (clients, rate, service_s, left) in [
            (2_000, 500.0, 0.001, 0.1),
            (8_000, 500.0, 0.001, 0.1),
            (1_000, 100.0, 0.004, 0.1),
            (1_000, 100.0, 0.007, 0.25),
            (2_000, 100.0, 0.004, 0.1),
            (500, 100.0, 0.007, 0.2),
        ] {
            let terms = Terms::new(Micros::from_secs(10), rate);
            let period = (f64::from(clients) * MARGIN / rate).max(10.0).ceil() as usize;
            // Who has been told before comes as he was told.
            let end = 100 + (2 * period).max(30);
            let setup = Setup {
                terms,
                clients,
                service_s,
                hog: Some((100.0, end as f64, 1.0 - left)),
                for_s: 300,
                ..Setup::default()
            };
            let polled = setup.run();
            let (before, during) = (polled.mean(60, 100), polled.mean(end - 10, end));
            let what = format!(
                "{setup:?}: {before} before, {during} during it: {:?}",
                &polled.asked[95..]
            );
            assert!(during <= 1.05 * left / service_s, "{what}");
            let after = polled.mean(end + 3 * period, end + 4 * period);
            assert!(after >= 0.9 * before, "{after} after it, {what}");
            // Nor do those who have waited come back all at once.
            let most = polled.most(5, end).max(polled.most(5, 60));
            assert!(most <= 1.3 * rate / MARGIN, "{most} at most, {what}");
        }
    }
}

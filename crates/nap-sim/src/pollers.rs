//! [`PollersSetup`]: clients that poll one event when they are told to, in virtual time.
//!
//! Each poll takes the server a while. The event's code is httpd's; the polls that have a worker share the
//! server's time, and another load may take part of it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use nap_core::micros::Micros;
use nap_core::telepoll::{Asks, PollTerms};
use nap_rng::Rng;

/// Clients, what they poll, and the server.
#[derive(Clone, Debug)]
pub struct PollersSetup {
    /// The event's terms.
    pub terms: PollTerms,
    /// Number of polling clients.
    pub clients: u32,
    /// They begin at random within this many seconds ...
    pub begin_s: f64,
    /// ... unless their times are given.
    pub begin_at_s: Vec<f64>,
    /// Mean network delay each way, in seconds.
    pub delay_s: f64,
    /// They wait up to this share longer than told, as the ticket page does.
    pub longer: f64,
    /// The server's time for a poll, in seconds.
    pub service_s: f64,
    /// Polls served at a time; the server does not know of the others.
    pub workers: u32,
    /// From when until when another load takes this share of the server.
    pub hog: Option<(f64, f64, f64)>,
    /// If set, clients have tickets, of which this many start a second, and poll as the ticket page does.
    pub tickets_per_s: Option<f64>,
    /// The seed of everything random.
    pub seed: u64,
    /// Length of the run, in seconds.
    pub for_s: u32,
}

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub struct Polled {
    /// Polls that reached the server, for each second.
    pub asked: Vec<u32>,
    /// Answers, for each second.
    pub answered: Vec<u32>,
    /// T0 at the end of each second, in seconds.
    pub unit_s: Vec<f64>,
    /// With few clients, each access: when, whose, what it was told, R or Q.
    pub accesses: Vec<PollAccess>,
    /// For each second, the longest that an answer took, in seconds.
    pub slowest_s: Vec<f64>,
}

/// One access.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PollAccess {
    /// When it came, seconds.
    pub at_s: f64,
    /// The client's number.
    pub client: u32,
    /// Tw, seconds.
    pub wait_s: f64,
    /// R, or Q.
    pub ahead: i64,
}

/// Accesses are recorded one by one for at most this many clients.
const FEW: u32 = 100;
/// Whole periods before the start: the first period begins at a whole number of them.
const EPOCH_PERIODS: u64 = 1000;

impl Default for PollersSetup {
    fn default() -> PollersSetup {
        PollersSetup {
            terms: PollTerms::new(Micros::from_secs(10), 500.0),
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
    /// When the worker took it, which is what the server knows.
    at_us: u64,
    /// How long the client waits after the answer; None: it does not come again.
    next_us: Option<u64>,
}

impl PollersSetup {
    /// Runs the simulation.
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
            // Served polls share the server and need the same work: they end in their order.
            let from_us = now_us.max(free_us);
            free_us = from_us + micros(self.takes_s(from_us as f64 / 1e6));
            let start_us =
                (self.tickets_per_s).map(|rate| micros(self.begin_s + f64::from(client) / rate));
            let left = start_us.map(|start| Micros(start.saturating_sub(now_us)));
            let told = match left {
                // The client's time has come: it is not told to ask again.
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
                polled.accesses.push(PollAccess {
                    at_s: now_us as f64 / 1e6,
                    client,
                    wait_s: wait.as_secs_f64(),
                    ahead,
                });
            }
            let next_us = told.map(|(wait, _)| {
                let longer = Micros((wait.0 as f64 * (1.0 + rng.unit() * self.longer)) as u64);
                // The page asks at the ticket's start at the latest.
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
    /// The most polls a second in any window of `window_s` seconds, from `from_s` on.
    pub fn most(&self, window_s: usize, from_s: usize) -> f64 {
        let all = self.asked.get(from_s..).unwrap_or(&[]);
        let most = all
            .windows(window_s)
            .map(|window| window.iter().sum::<u32>())
            .max();
        f64::from(most.unwrap_or(0)) / window_s as f64
    }

    /// Mean polls a second from `from_s` until `until_s`.
    pub fn mean(&self, from_s: usize, until_s: usize) -> f64 {
        let all = self.asked.get(from_s..until_s).unwrap_or(&[]);
        f64::from(all.iter().sum::<u32>()) / all.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nap_core::telepoll::{Form, Mode};

    /// 1/T0 is less than the rate by this factor.
    const MARGIN: f64 = 1.1;

    /// After the first period no five-second window and no second has more polls than allowed.
    fn is_level(setup: &PollersSetup, unit_s: f64) {
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
                let setup = PollersSetup {
                    clients,
                    delay_s,
                    longer,
                    for_s: 240,
                    ..PollersSetup::default()
                };
                is_level(&setup, setup.terms.floor_ns as f64 / 1e9);
            }
        }
    }

    #[test]
    fn ticket_pages_poll_no_faster_than_they_may() {
        for (clients, tickets_per_s) in [(5_000, 8.0), (100_000, 40.0), (100_000, 300.0)] {
            let setup = PollersSetup {
                clients,
                delay_s: 0.05,
                tickets_per_s: Some(tickets_per_s),
                for_s: 900,
                ..PollersSetup::default()
            };
            is_level(&setup, setup.terms.floor_ns as f64 / 1e9);
        }
    }

    #[test]
    fn patient_clients_stay_in_their_share_of_the_period() {
        for form in [Form::Paper, Form::Smooth] {
            for (clients, delay_s) in [(10, 0.0), (30, 0.05), (100, 0.05)] {
                let setup = PollersSetup {
                    terms: PollTerms {
                        mode: Mode::Concentrate,
                        form,
                        ..PollTerms::new(Micros::from_secs(60), 100.0)
                    },
                    clients,
                    begin_s: 130.0,
                    delay_s,
                    for_s: 900,
                    ..PollersSetup::default()
                };
                let polled = setup.run();
                let late = (polled.accesses.iter())
                    .filter(|access| access.at_s >= 360.0)
                    .map(|access| access.at_s % 60.0);
                let last = late.fold(0.0, f64::max);
                // Ta/k, plus up to one unit of rounding.
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
        let polled = PollersSetup {
            terms: PollTerms {
                mode: Mode::Relevel,
                slack_ppm: 1_000_000,
                floor_ns: 15_000_000_000,
                ..PollTerms::new(Micros::from_secs(60), 1.0)
            },
            clients: 2,
            begin_at_s: vec![5.0, 10.0],
            for_s: 240,
            ..PollersSetup::default()
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
        // Clients, polls a second, seconds of service for one, the share that the hog leaves.
        for (clients, rate, service_s, left) in [
            (2_000, 500.0, 0.001, 0.1),
            (8_000, 500.0, 0.001, 0.1),
            (1_000, 100.0, 0.004, 0.1),
            (1_000, 100.0, 0.007, 0.25),
            (2_000, 100.0, 0.004, 0.1),
            (500, 100.0, 0.007, 0.2),
        ] {
            let terms = PollTerms::new(Micros::from_secs(10), rate);
            let period = (f64::from(clients) * MARGIN / rate).max(10.0).ceil() as usize;
            // A client that was told earlier comes as it was told.
            let end = 100 + (2 * period).max(30);
            let setup = PollersSetup {
                terms,
                clients,
                service_s,
                hog: Some((100.0, end as f64, 1.0 - left)),
                for_s: 300,
                ..PollersSetup::default()
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

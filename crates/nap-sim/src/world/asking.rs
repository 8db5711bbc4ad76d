//! Asking: pages ask where their holders stand, as `nap-status` is asked, and holders are called.

use super::{BEGINNING, World};
use crate::events::Event;
use crate::figures::Call;
use nap_core::micros::Micros;
use nap_core::nap::ledger::window_of;
use nap_core::room::arrival::bind_of;
use nap_core::room::verdict::Turn;

impl World {
    /// Schedules the next time a visitor's page asks, or the visitor comes. `begins`: the ticket is new.
    pub(super) fn asks_later(&mut self, n: u32, begins: bool) {
        let Some(visitor) = self.visitors.get(n as usize) else {
            return;
        };
        let remaining = visitor.due - self.now;
        let id = visitor.client.jar.map_or(0, |ticket| ticket.id);
        let permits = self.state.permits();
        let (asks, out) = (&permits.calls.asks, permits.outstanding());
        let next = match begins {
            true => asks.begin(id, self.now, remaining, out),
            false => asks.next(id, self.now, remaining, out),
        };
        let next = next.unwrap_or(remaining);
        let event = match next < remaining {
            true => Event::Ask(n),
            false => Event::Come(n),
        };
        self.events.at(self.now + next, event);
    }

    /// A visitor's page asks where they stand, as `nap-status` is asked.
    pub(super) fn asks(&mut self, n: u32) {
        let Some(visitor) = self.visitors.get_mut(n as usize) else {
            return;
        };
        let (client, now) = (&visitor.client, self.now);
        let Some(ticket) = client.jar.filter(|_| client.finished.is_none()) else {
            // Used up by a second tab: the visitor comes without it.
            return self.events.at(now, Event::Come(n));
        };
        self.figures.asks += 1;
        let bind = bind_of(client.hash[0]);
        let calls = &self.state.permits().calls;
        let (looks, concerns) = (calls.look_is_due(now), calls.concerns(ticket.start));
        let mut turn = Turn::Wait;
        if looks || concerns {
            let (told, wakes) = self.state.at_gate(now, |view| {
                if looks {
                    view.look_round();
                }
                view.asked(&ticket, bind)
            });
            turn = told;
            self.wake(&wakes);
            if let Some(oracle) = &mut self.oracle {
                oracle.asked(&ticket, turn, &self.state, now);
            }
        }
        if turn == Turn::Wait {
            return self.asks_later(n, false);
        }
        let window = window_of(ticket.start, ticket.prime_end, self.setup.terms.bound);
        let in_time = window.0 <= now;
        let deaf = self.manners.chance(self.setup.manners.deaf);
        let reaction = self.manners.below(self.setup.manners.reaction.0 + 1);
        let Some(visitor) = self.visitors.get_mut(n as usize) else {
            return;
        };
        if turn == Turn::Now && !in_time {
            visitor.called = ticket.id;
            self.figures.calls.push(Call {
                at: now - BEGINNING,
                start: ticket.start - BEGINNING,
            });
            if deaf {
                return self.events.at(visitor.due.max(now), Event::Come(n));
            }
        }
        self.events.at(now + Micros(reaction), Event::Come(n));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crowd::Manners;
    use crate::server::{Law, Service};
    use crate::setup::{Arrivals, Setup};
    use nap_core::room::terms::{Choice, Terms, how};
    use nap_core::telepoll::ticket_interval;

    /// The longest time between two questions of holders with a short wait: four times the base interval, and
    /// half as long again.
    const POLL: Micros = Micros::from_secs(18);

    /// Twenty a second can be served; all come within a second, and then nobody. Tickets are sold for three
    /// tenths of that rate.
    fn crowd(asks: f64, seed: u64) -> World {
        let usual = Setup::default();
        let mut world = World::new(
            Setup {
                seed,
                terms: Terms {
                    share: Choice {
                        how: how::FIXED,
                        n: 300_000,
                    },
                    ..usual.terms
                },
                clients: 1500,
                posts: 1,
                arrivals: Arrivals::Within(Micros::from_secs(1)),
                service: Service {
                    mean_s: 0.05,
                    law: Law::Lognormal(0.35),
                },
                manners: Manners {
                    asks,
                    ..Manners::default()
                },
                ..usual
            },
            false,
        );
        while world.step() {}
        world
    }

    /// The share of the server's capacity used between the two times, in seconds.
    fn used(world: &World, from_s: f64, to_s: f64) -> f64 {
        let finished = &world.figures.finished;
        let share = finished.above(from_s) - finished.above(to_s);
        share * finished.n() as f64 / (20.0 * (to_s - from_s))
    }

    #[test]
    fn when_load_stops_early_those_who_wait_use_what_has_become_free() {
        // The first wave is through after five seconds; the first ask comes ten seconds after they came.
        let left_alone = used(&crowd(0.0, 1), 15.0, 35.0);
        assert!(left_alone < 0.4, "{left_alone}");
        for seed in 1..=4 {
            let world = crowd(1.0, seed);
            let used = used(&world, 15.0, 35.0);
            assert!(used >= 0.9, "seed {seed}: {used}");
            let counts = &world.state().gate().counts;
            assert_eq!((counts.broken, counts.deferred_twice), (0, 0));
            let figures = &world.figures;
            assert!(figures.served.max() <= 4.5, "{figures:?}");
            let calls = world.state().permits().calls.counts();
            assert_eq!((calls.called, calls.silent), (calls.came, 0));
            let late = overtaken(&figures.calls);
            let beyond = |most: f64| late.iter().filter(|late| **late > most).count();
            let all = late.len();
            assert!(
                all > 1000 && beyond(2.0) * 100 < all * 3 && beyond(3.5) == 0,
                "seed {seed}: {} of {all}",
                beyond(2.0)
            );
        }
    }

    /// How many of their own polling intervals after the first holder behind them each was called.
    fn overtaken(calls: &[Call]) -> Vec<f64> {
        let mut by_start = calls.to_vec();
        by_start.sort_by_key(|call| std::cmp::Reverse(call.start));
        let mut first = Micros::MAX;
        let late = |call: Call| {
            let behind = first.min(call.at);
            first = behind;
            let interval = ticket_interval(call.start - behind, POLL).max(POLL);
            (call.at - behind).as_secs_f64() / interval.as_secs_f64()
        };
        by_start.into_iter().map(late).collect()
    }
}

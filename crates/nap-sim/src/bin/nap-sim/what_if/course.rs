//! [`Course`]: the run second by second, and drawn.

use nap_sim::plot::{Figure, Panel, Point};
use nap_sim::world::World;

/// What is read once a second. Counts are since the beginning.
#[derive(Clone, Copy, Default)]
struct Moment {
    at_s: f64,
    requests: u64,
    pages: usize,
    tickets: u64,
    without: u64,
    queue: f64,
    limit: f64,
    outstanding: f64,
}

/// The run, one moment a second.
#[derive(Default)]
pub struct Course(Vec<Moment>);

/// Maximum number of points in a line: longer runs are drawn in longer steps.
const POINTS: usize = 240;

impl Course {
    /// Called after each event; records a moment when a second has passed.
    pub fn look(&mut self, world: &World) {
        let at_s = world.elapsed().as_secs_f64();
        if at_s < self.0.len() as f64 {
            return;
        }
        let (gate, f) = (world.state().gate(), &world.figures);
        let moment = Moment {
            at_s,
            requests: f.tries,
            pages: f.served.n(),
            tickets: f.tickets,
            without: f.without,
            queue: f64::from(gate.queue.len()),
            limit: f64::from(gate.limit),
            outstanding: f64::from(world.state().permits().outstanding()),
        };
        // A second in which nothing happened has passed, too.
        while self.0.len() as f64 <= at_s {
            self.0.push(moment);
        }
    }

    /// The run's figure: rates a second, the present state, and what visitors were told.
    pub fn figure(&self, bound_s: f64) -> Figure {
        let step = self.0.len().div_ceil(POINTS).max(1);
        let seen: Vec<Moment> = self.0.iter().copied().step_by(step).collect();
        let rate = |count: fn(&Moment) -> f64| -> Vec<Point> {
            let pairs = seen.windows(2).filter(|pair| pair[1].at_s > pair[0].at_s);
            let of_pair = |pair: &[Moment]| {
                let span = pair[1].at_s - pair[0].at_s;
                (pair[1].at_s, (count(&pair[1]) - count(&pair[0])) / span)
            };
            pairs.map(of_pair).collect()
        };
        let level = |value: fn(&Moment) -> f64| -> Vec<Point> {
            seen.iter()
                .map(|moment| (moment.at_s, value(moment)))
                .collect()
        };
        let t = "seconds of the run";
        Figure {
            name: "what-if".to_owned(),
            alt: "The run: requests, pages and tickets a second; queue and wait limit; tickets out"
                .to_owned(),
            panels: vec![
                Panel::new("A second", t, "a second")
                    .line("requests", rate(|m| m.requests as f64))
                    .line("pages", rate(|m| m.pages as f64))
                    .line("tickets", rate(|m| m.tickets as f64))
                    .line("no ticket", rate(|m| m.without as f64)),
                Panel::new(&format!("Waiting, bound {bound_s} s"), t, "places")
                    .line("in the queue", level(|m| m.queue))
                    .line("wait limit", level(|m| m.limit)),
                Panel::new("Tickets that are out", t, "tickets")
                    .line("tickets", level(|m| m.outstanding)),
            ],
            alike: false,
        }
    }
}

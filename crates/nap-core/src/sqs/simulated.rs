//! Page schedulers on machines that are a formula: jobs of random size share what there is, and the
//! law sees only what a gate counts. Each is compared with the best of fixed limits.

use super::page_scheduler::{Look, Pace, PageScheduler, law};
use super::page_scheduler::{PERIOD, Pacer};
use crate::micros::Micros;

/// Uniform numbers, the same for the same seed (xorshift64*).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
        (bits as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Exponential with mean 1.
    fn wait(&mut self) -> f64 {
        -self.next().ln()
    }
}

/// A page of the simulated site.
#[derive(Clone)]
struct Site {
    /// Mean work of an access, seconds of a processor or of a backend.
    work_s: f64,
    /// How many accesses a second come; infinite: there is always one waiting.
    arrivals: f64,
    /// Its accesses wait for a backend of their own and use no processor.
    elsewhere: bool,
}

/// How fast one of `n` jobs goes; 1 = it has everything to itself.
type Machine = fn(n: f64) -> f64;

/// Two processors, all in each other's way a little (caches, locks): best at five to nine.
const CPU: Machine = |n| 2.0_f64.min(n) / n / (1.0 + 0.002 * (n - 2.0).max(0.0).powi(2));
/// More than four at once do not fit into memory.
const THRASH: Machine = |n| 2.0_f64.min(n) / n / (1.0 + 0.6 * (n - 4.0).max(0.0));
/// A backend that serves twenty at once, each at its own pace.
const BACKEND: Machine = |n| 20.0_f64.min(n) / n;

struct Job {
    page: usize,
    /// Mean of those that began at the same time.
    mean_s: f64,
    left_s: f64,
    began: Micros,
}

/// What is done a second, in seconds of unhindered work, from one time to another.
struct Run {
    pages: Vec<Site>,
    machine: Machine,
    /// From this second on the last page's work is twice as much.
    slower_from: f64,
    schedulers: Vec<PageScheduler>,
    pacer: Pacer,
    limits: Vec<u32>,
    chance: Chance,
}

impl Run {
    fn new(pages: &[Site], machine: Machine, slower_from: f64, seed: u64) -> Run {
        Run {
            pages: pages.to_vec(),
            machine,
            slower_from,
            schedulers: vec![PageScheduler::default(); pages.len()],
            pacer: Pacer::default(),
            limits: vec![1; pages.len()],
            chance: Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
        }
    }

    fn pace(mut self, pace: Pace) -> Run {
        for (page, scheduler) in self.pages.iter().zip(&mut self.schedulers) {
            let own = u32::from(page.elsewhere);
            scheduler.configure(Pace { own, ..pace }, Micros::from_secs(1));
        }
        self.limits = self.schedulers.iter().map(PageScheduler::limit).collect();
        self
    }

    fn fixed(mut self, limits: &[u32]) -> Run {
        self.limits = limits.to_vec();
        self
    }

    /// Work done a second in each of these spans.
    fn work(&mut self, spans: &[(f64, f64)]) -> Vec<f64> {
        let n = self.pages.len();
        let mut done = vec![0.0; spans.len()];
        let mut jobs: Vec<Job> = Vec::new();
        let mut queued = vec![0_u32; n];
        let (mut finished, mut passed) = (vec![0_u32; n], vec![0_u32; n]);
        let mut residence = vec![0.0_f64; n];
        let mut due: Vec<f64> = self.pages.iter().map(|_| 0.0).collect();
        let (mut now, mut look_at) = (1.0_f64, 1.0);
        let end = spans.iter().fold(0.0_f64, |end, span| end.max(span.1));
        while now < end {
            let time = Micros::from_secs_f64(now);
            for page in 0..n {
                let arrivals = self.pages[page].arrivals;
                while arrivals.is_finite() && due[page] <= now {
                    due[page] = due[page].max(now - 1.0) + self.chance.wait() / arrivals;
                    let running = jobs.iter().filter(|job| job.page == page).count() as u32;
                    passed[page] += u32::from(queued[page] == 0 && running < self.limits[page]);
                    queued[page] = (queued[page] + 1).min(1000);
                }
                loop {
                    let running = jobs.iter().filter(|job| job.page == page).count() as u32;
                    if running >= self.limits[page] || (arrivals.is_finite() && queued[page] == 0) {
                        break;
                    }
                    queued[page] = queued[page].saturating_sub(1);
                    let last = page == n - 1 && now >= self.slower_from;
                    let mean = self.pages[page].work_s * if last { 2.0 } else { 1.0 };
                    jobs.push(Job {
                        page,
                        mean_s: mean,
                        left_s: mean * self.chance.wait(),
                        began: time,
                    });
                }
            }
            let elsewhere = |job: &Job| self.pages[job.page].elsewhere;
            let away = jobs.iter().filter(|job| elsewhere(job)).count() as f64;
            let here = jobs.len() as f64 - away;
            let speed = |job: &Job| match elsewhere(job) {
                true => BACKEND(away),
                false => (self.machine)(here),
            };
            let first = jobs
                .iter()
                .map(|job| job.left_s / speed(job))
                .fold(f64::MAX, f64::min);
            let arrival = due
                .iter()
                .zip(&self.pages)
                .filter(|(_, page)| page.arrivals.is_finite());
            let arrival = arrival.map(|(due, _)| *due).fold(f64::MAX, f64::min);
            let step = first.min(look_at - now).min(arrival - now).max(1e-6);
            let speeds: Vec<f64> = jobs.iter().map(speed).collect();
            for (job, speed) in jobs.iter_mut().zip(speeds) {
                job.left_s -= step * speed;
            }
            now += step;
            let time = Micros::from_secs_f64(now);
            jobs.retain(|job| {
                if job.left_s > 1e-9 {
                    return true;
                }
                finished[job.page] += 1;
                let took = (time - job.began).as_secs_f64();
                let mean = &mut residence[job.page];
                *mean = if *mean == 0.0 {
                    took
                } else {
                    *mean + 0.02 * (took - *mean)
                };
                for (done, span) in done.iter_mut().zip(spans) {
                    if span.0 <= now && now < span.1 {
                        *done += job.mean_s / (span.1 - span.0);
                    }
                }
                false
            });
            if now >= look_at {
                look_at += PERIOD.as_secs_f64();
                let seen = |page: usize| {
                    let arrivals = self.pages[page].arrivals;
                    Some(Look {
                        by_hand: None,
                        finished: finished[page],
                        passed: passed[page],
                        running: jobs.iter().filter(|job| job.page == page).count() as u32,
                        waiting: if arrivals.is_finite() {
                            queued[page]
                        } else {
                            1
                        },
                        residence_s: residence[page],
                    })
                };
                let limits = &mut self.limits;
                let set = |page: usize, limit| limits[page] = limit;
                self.pacer.look(&mut self.schedulers, time, seen, set);
            }
        }
        done
    }
}

const AUTO: Pace = Pace {
    law: law::AUTO,
    own: 0,
    start: 2,
    lo: 1,
    hi: 64,
    history: 0,
};

/// A minute each, sixty seconds after a cold start and after the last page became half as fast.
const SPANS: [(f64, f64); 2] = [(61.0, 120.0), (181.0, 240.0)];
const SLOWER: f64 = 120.0;
/// How many runs the median is of: with 15 it is off by 0.03 at times.
const SEEDS: u64 = 31;

/// The best of fixed limits in each span: 1, 2, 4, ... 32; with several pages, each 1, 2, 4, 8.
fn best(pages: &[Site], machine: Machine) -> (Vec<f64>, Vec<Vec<u32>>) {
    let (slower, spans) = (SLOWER, &SPANS);
    let limits = match pages.len() {
        1 => vec![1, 2, 4, 8, 16, 32],
        _ => vec![1, 2, 4, 8],
    };
    let mut best = (vec![0.0; spans.len()], vec![Vec::new(); spans.len()]);
    let n = limits.len();
    for i in 0..n.pow(pages.len() as u32) {
        let of = |page: usize| limits[i / n.pow(page as u32) % n];
        let fixed: Vec<u32> = (0..pages.len()).map(of).collect();
        let run = |seed| {
            Run::new(pages, machine, slower, seed)
                .fixed(&fixed)
                .work(spans)
        };
        let runs: Vec<Vec<f64>> = (1..=3).map(run).collect();
        for span in 0..spans.len() {
            let done = median(runs.iter().map(|run| run[span]));
            if done > best.0[span] {
                best.0[span] = done;
                best.1[span] = fixed.clone();
            }
        }
    }
    best
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The median over seeds of the share of the best that `pace` reaches, in each span.
fn reached(pages: &[Site], machine: Machine, pace: Pace) -> Vec<f64> {
    let (slower, spans) = (SLOWER, &SPANS);
    let (best, at) = best(pages, machine);
    let runs: Vec<(Vec<f64>, Vec<u32>)> = (1..=SEEDS)
        .map(|seed| {
            let mut run = Run::new(pages, machine, slower, seed).pace(pace);
            (run.work(spans), run.limits)
        })
        .collect();
    let ends: Vec<_> = runs.iter().map(|run| run.1.clone()).collect();
    let part = |span: usize| median(runs.iter().map(|run| run.0[span] / best[span]));
    let reached: Vec<f64> = (0..spans.len()).map(part).collect();
    eprintln!("    {reached:.3?} of {best:.2?} at {at:?}; ends at {ends:?}");
    reached
}

fn page(work_s: f64) -> Site {
    Site {
        work_s,
        arrivals: f64::INFINITY,
        elsewhere: false,
    }
}

#[test]
fn a_page_that_computes_gets_its_best_limit() {
    let reached = reached(&[page(0.02)], CPU, AUTO);
    assert!(reached.iter().all(|part| *part >= 0.95), "{reached:?}");
}

#[test]
fn a_page_that_thrashes_gets_its_best_limit() {
    for work_s in [0.02, 0.1] {
        let reached = reached(&[page(work_s)], THRASH, AUTO);
        assert!(reached.iter().all(|part| *part >= 0.95), "{reached:?}");
    }
}

#[test]
fn a_page_that_waits_for_a_backend_gets_its_best_limit() {
    let backend = Site {
        elsewhere: true,
        ..page(0.2)
    };
    let reached = reached(&[backend], CPU, AUTO);
    assert!(reached.iter().all(|part| *part >= 0.95), "{reached:?}");
}

#[test]
fn a_light_and_a_heavy_page_get_their_best_limits() {
    let light = Site {
        arrivals: 40.0,
        ..page(0.015)
    };
    for pages in [[light, page(0.2)], [page(0.01), page(0.1)]] {
        let reached = reached(&pages, CPU, AUTO);
        assert!(reached.iter().all(|part| *part >= 0.95), "{reached:?}");
    }
}

#[test]
fn the_papers_law_comes_near_on_a_page_that_thrashes() {
    let pace = Pace {
        law: law::PAPER,
        ..AUTO
    };
    let reached = reached(&[page(0.02)], THRASH, pace);
    assert!(reached.iter().all(|part| *part >= 0.8), "{reached:?}");
}

//! The constants of [`Laws`], one at a time.

use nap_core::micros::Micros;
use nap_core::nap::laws::{CallLaw, GuardLaw, LateLaw, Laws, SaleLaw, StepLaw};
use nap_core::room::terms::{Choice, how};
use nap_sim::crowd::Manners;
use nap_sim::report::{Report, Table, number, percent};
use nap_sim::sessions::Shop;
use nap_sim::setup::{Arrivals, Setup, Verb};
use nap_sim::world::World;

use super::{FULL, TuneLab, seconds};
use crate::paper::sqs::shop;

const CHOSEN: Laws = Laws::CHOSEN;

/// A constant and the values tried for it, the chosen value among them.
type Tried = (&'static str, Vec<(String, Laws)>);

/// These values of one constant.
fn tried<T: Copy, const N: usize>(
    name: &'static str,
    values: [T; N],
    show: impl Fn(T) -> String,
    put: impl Fn(T) -> Laws,
) -> Tried {
    let each = values.map(|value| (show(value), put(value)));
    (name, each.into())
}

/// Rows for each constant's values, the chosen ones in bold.
fn rows<const N: usize>(table: &mut Table, all: Vec<Tried>, run: impl Fn(&Laws) -> [String; N]) {
    for (name, values) in all {
        for (value, laws) in values {
            let row = match laws == CHOSEN {
                true => format!("**{name} {value}**"),
                false => format!("{name} {value}"),
            };
            table.row(&row, run(&laws));
        }
    }
}

fn ppm(share: u32) -> String {
    number(f64::from(share) / 1e6, 2)
}

/// The chapter on all constants.
pub fn laws(lab: &TuneLab) -> Report {
    let mut report = Report::new("One constant at a time");
    report.text(
        "Each constant of `crates/nap-core/src/nap/laws.rs` is put to other values while the rest stay as they are; what httpd runs \
         with is in bold.",
    );
    report.table(guard(lab));
    report.table(sale(lab));
    report.table(late(lab));
    report.table(call(lab));
    report.table(start(lab));
    report.table(cold(lab));
    report.text(
        "**Kept, all of them.** *The guard*: with half the p95 one page in twenty is over the bound where the server \
         becomes twice as slow, with twice the p95 none, but half as many again are put off; that half of the bound is the \
         most was not put to the test, for residence is far shorter here. *The sale*: where \
         the speed is known none of its constants costs a page; they are for where it is not: a crowd that comes once, to \
         a cold server. *The late pool*: who comes late is let in as long as there is room at all, so hardly anybody \
         is booked again, whatever its shares. *The early call*: it must not end at once when there is no room (250 ms: a third of the server \
         idles), nor call slower than the server serves, nor without a short queue. How many places are left and how \
         far X is doubted made next to no difference to these crowds: they stand as they were reasoned. *Session starts*: more \
         than a tenth at first builds longer queues, and nobody ends sooner; the later step is not \
         reached where the pages' limits are known first, as here.",
    );
    report.text(
        "*Slots*: a larger margin shortens the worst total by a second or two and leaves nothing for what was measured \
         wrong. What stands out is the server that stands still for a second while the crowd comes, as one does whose \
         processors are busy with something else: tickets are sold by what has been seen, so the last are told a \
         time nearly two minutes ahead, and the server idles until they come, all of which is kept to. No margin and \
         no length of the first slots changes that. Pages that ask do: the early call brings back most of it (56 pages a second instead of 17). Clients that do not ask (`nap-load`, programs that only read Retry-After) wait it out.",
    );
    report
}

fn guard(lab: &TuneLab) -> Table {
    let columns = [
        "as fast: over the bound",
        "put off",
        "pages/s",
        "2 times slower: over",
        "put off",
        "5 times slower: over",
        "put off twice",
        "max s",
    ];
    let title = "The deadline guard: so many p95 of residence, at most this share of the bound (600 visitors, \
                 10 pages, slower after 20 s)";
    let mut table = Table::new(title, &lab.command, &columns);
    let put = |guard| Laws { guard, ..CHOSEN };
    let all = vec![
        tried(
            "p95 times",
            [0.0, 0.5, 1.0, 2.0, 4.0],
            |n| number(n, 1),
            |residences| {
                put(GuardLaw {
                    residences,
                    ..CHOSEN.guard
                })
            },
        ),
        tried(
            "of the bound",
            [0.125, 0.25, 0.5, 0.75],
            |n| number(n, 3),
            |most| {
                put(GuardLaw {
                    most,
                    ..CHOSEN.guard
                })
            },
        ),
    ];
    rows(&mut table, all, |laws| {
        let world = |slower: f64| {
            TuneLab::ran(Setup {
                seed: lab.seed,
                posts: 10,
                shift: Some((seconds(20), 1.0 / slower)),
                laws: *laws,
                ..Setup::default()
            })
        };
        let [same, twice, five] = [1.0, 2.0, 5.0].map(world);
        let over = |world: &World| percent(world.figures.served.above(4.0));
        let off = |world: &World| {
            let counts = &world.state().gate().counts;
            (counts.guard_fired + counts.deferred).to_string()
        };
        [
            over(&same),
            off(&same),
            number(same.figures.throughput(), 1),
            over(&twice),
            off(&twice),
            over(&five),
            five.state().gate().counts.deferred_twice.to_string(),
            number(five.figures.served.max(), 2),
        ]
    });
    table
}

fn sale(lab: &TuneLab) -> Table {
    let columns = [
        "crowd: response, mean s",
        "ticket wait, mean s",
        "mean total, s",
        "worst total, s",
        "overload: used",
        "ticket wait, mean s",
        "worst total, s",
    ];
    let title = "The sale: how much of the bound holders come before the server has time, the workers that may wait for it, \
                 the queue that newcomers keep up, how much of the bound a decision is held, what is sold beyond the first X";
    let mut table = Table::new(title, &lab.command, &columns);
    let put = |sale| Laws { sale, ..CHOSEN };
    let of = CHOSEN.sale;
    let all = vec![
        tried(
            "lead",
            [0.0, 0.08, 1.0 / 6.0, 0.25, 0.4],
            |n| number(n, 2),
            |lead| put(SaleLaw { lead, ..of }),
        ),
        tried(
            "workers",
            [0.1, 0.25, 0.5, 1.0],
            |n| number(n, 2),
            |workers| put(SaleLaw { workers, ..of }),
        ),
        tried(
            "low",
            [0.0, 0.1, 0.25, 0.5, 1.0],
            |n| number(n, 2),
            |low| put(SaleLaw { low, ..of }),
        ),
        tried(
            "hold",
            [0.0, 0.1, 0.25, 0.5],
            |n| number(n, 2),
            |hold| put(SaleLaw { hold, ..of }),
        ),
        tried(
            "warming",
            [0.0, 0.03, 0.06, 0.12],
            |n| number(n, 2),
            |warming| put(SaleLaw { warming, ..of }),
        ),
    ];
    rows(&mut table, all, |laws| {
        let crowd = TuneLab::ran(Setup {
            seed: lab.seed,
            posts: 10,
            laws: *laws,
            ..Setup::default()
        });
        let many = TuneLab::ran(Setup {
            laws: *laws,
            ..lab.overload(Manners::default())
        });
        [
            number(crowd.figures.served.mean(), 2),
            number(crowd.figures.ticket_wait.mean(), 1),
            number(crowd.figures.total.mean(), 2),
            number(crowd.figures.total.max(), 0),
            percent(TuneLab::used(&many)),
            number(many.figures.ticket_wait.mean(), 1),
            number(many.figures.total.max(), 0),
        ]
    });
    table
}

fn late(lab: &TuneLab) -> Table {
    let columns = [
        "5 % late: mean total, s",
        "worst total, s",
        "50 % late: used",
        "mean total, s",
        "worst total, s",
        "broken",
    ];
    let title =
        "The late pool: its share at first, its least, its most (the crowd of \"The late pool\")";
    let mut table = Table::new(title, &lab.command, &columns);
    let put = |late| Laws { late, ..CHOSEN };
    let of = CHOSEN.late;
    let all = vec![
        tried(
            "at first",
            [50_000, 100_000, 200_000, 400_000],
            ppm,
            |first_ppm| put(LateLaw { first_ppm, ..of }),
        ),
        tried("least", [0, 20_000, 50_000, 100_000], ppm, |min_ppm| {
            put(LateLaw { min_ppm, ..of })
        }),
        tried(
            "most",
            [100_000, 250_000, 500_000, 800_000],
            ppm,
            |max_ppm| put(LateLaw { max_ppm, ..of }),
        ),
    ];
    rows(&mut table, all, |laws| {
        let world = |late: f64| {
            let manners = Manners {
                late,
                ..Manners::default()
            };
            TuneLab::ran(Setup {
                laws: *laws,
                ..lab.overload(manners)
            })
        };
        let [few, many] = [0.05, 0.5].map(world);
        [
            number(few.figures.total.mean(), 1),
            number(few.figures.total.max(), 0),
            percent(TuneLab::used(&many)),
            number(many.figures.total.mean(), 1),
            number(many.figures.total.max(), 0),
            (few.state().gate().counts.broken + many.state().gate().counts.broken).to_string(),
        ]
    });
    table
}

fn call(lab: &TuneLab) -> Table {
    let columns = [
        "3000, all ask: done, s",
        "used from 10 to 40 s",
        "max response, s",
        "put off",
        "600, half ask: done, s",
        "mean total, s",
        "broken",
    ];
    let title = "The early call (the crowd of \"The early call\", and 600 of whom half ask)";
    let mut table = Table::new(title, &lab.command, &columns);
    let put = |call| Laws { call, ..CHOSEN };
    let of = CHOSEN.call;
    let ms = |ms: u64| format!("{ms} ms");
    let all = vec![
        tried("room for", [0, 250, 500, 1000, 2000], ms, |ms| {
            let room = Micros::from_millis(ms);
            put(CallLaw { room, ..of })
        }),
        tried("no more after", [250, 500, 1000, 3000], ms, |ms| {
            let lapse = Micros::from_millis(ms);
            put(CallLaw { lapse, ..of })
        }),
        tried(
            "places left",
            [0, 2, 10, 50],
            |n| n.to_string(),
            |reserve| put(CallLaw { reserve, ..of }),
        ),
        tried(
            "pace",
            [0.75, 1.0, 1.25, 1.5, 2.0],
            |n| number(n, 2),
            |pace| put(CallLaw { pace, ..of }),
        ),
        tried(
            "backlog, s",
            [0.0, 0.25, 0.5, 1.0, 2.0],
            |n| number(n, 2),
            |backlog_s| put(CallLaw { backlog_s, ..of }),
        ),
        tried(
            "X at most 2^",
            [0, 2, 4, 6],
            |n| n.to_string(),
            |eager_max| put(CallLaw { eager_max, ..of }),
        ),
    ];
    rows(&mut table, all, |laws| {
        let world = |clients, asks| {
            let mut setup = Setup {
                seed: lab.seed,
                clients,
                posts: 1,
                arrivals: Arrivals::Within(seconds(1)),
                manners: Manners {
                    asks,
                    ..Manners::default()
                },
                laws: *laws,
                ..Setup::default()
            };
            setup.terms.share = Choice {
                how: how::FIXED,
                n: 300_000,
            };
            TuneLab::ran(setup)
        };
        let (all, half) = (world(3000, 1.0), world(600, 0.5));
        let finished = &all.figures.finished;
        let share = finished.above(10.0) - finished.above(40.0);
        let counts = &all.state().gate().counts;
        [
            number(all.figures.span.as_secs_f64(), 0),
            percent(share * finished.n() as f64 / (FULL * 30.0)),
            number(all.figures.served.max(), 2),
            (counts.guard_fired + counts.deferred).to_string(),
            number(half.figures.span.as_secs_f64(), 0),
            number(half.figures.total.mean(), 2),
            (counts.broken + half.state().gate().counts.broken).to_string(),
        ]
    });
    table
}

fn start(lab: &TuneLab) -> Table {
    let columns = [
        "sessions/s, 25 clients",
        "100 clients",
        "400 clients",
        "failed half way, of 400",
        "longest page queue, of 400",
        "last session of 400, s",
    ];
    let title = "Session starts: what a step adds of the rate that was fed forward (the shop of \"Feed-forward \
                 session start\")";
    let mut table = Table::new(title, &lab.command, &columns);
    let put = |step| Laws { step, ..CHOSEN };
    let of = CHOSEN.step;
    let all = vec![
        tried(
            "step",
            [0.01, 0.02, 0.05, 0.1, 0.2],
            |n| number(n, 2),
            |step| put(StepLaw { step, ..of }),
        ),
        tried(
            "first step",
            [0.02, 0.05, 0.1, 0.2, 0.4],
            |n| number(n, 2),
            |first| put(StepLaw { first, ..of }),
        ),
    ];
    rows(&mut table, all, |laws| {
        let runs = [25, 100, 400].map(|clients| {
            let mut site = shop(clients, lab.seed).site();
            site.laws = *laws;
            Shop::visited(site)
        });
        let [few, some, many] = runs
            .each_ref()
            .map(|run| number(run.sessions_per_s().unwrap_or(f64::NAN), 2));
        let last = &runs[2];
        let queues = last.course.iter().map(|second| second.queue);
        [
            few,
            some,
            many,
            last.mid_session.to_string(),
            number(queues.fold(0.0, f64::max), 0),
            number(last.done_s.unwrap_or(f64::NAN), 0),
        ]
    });
    table
}

/// What is sold in the first second of a crowd, before the server's speed is known or while it is
/// underestimated.
fn cold(lab: &TuneLab) -> Table {
    let columns = [
        "crowd: mean total, s",
        "worst total, s",
        "pages/s",
        "server stands still, nobody asks: longest told, s",
        "pages/s",
        "all ask: pages/s",
        "worst total, s",
        "overload: used",
        "worst total, s",
    ];
    let title = "Slots: margin on their capacity, and how many a period has (600 visitors \
                 with 3 pages; the same where the server stands still from 0.2 s to 1.2 s)";
    let mut table = Table::new(title, &lab.command, &columns);
    let all = vec![
        tried(
            "margin",
            [0.7, 0.8, 0.9, 1.0],
            |n| number(n, 1),
            |eta| Laws { eta, ..CHOSEN },
        ),
        tried(
            "slots a period",
            [1, 4, 8, 16, 40],
            |n| n.to_string(),
            |short_slots| Laws {
                short_slots,
                ..CHOSEN
            },
        ),
    ];
    rows(&mut table, all, |laws| {
        let world = |still: bool, asks: f64| {
            let stop = |at, speed| (Micros::from_millis(at), Verb::Speed(speed));
            TuneLab::ran(Setup {
                seed: lab.seed,
                posts: 3,
                manners: Manners {
                    asks,
                    ..Manners::default()
                },
                verbs: match still {
                    true => vec![stop(200, 0.0), stop(1200, 1.0)],
                    false => Vec::new(),
                },
                laws: *laws,
                ..Setup::default()
            })
        };
        let (crowd, silent, asking) = (world(false, 0.0), world(true, 0.0), world(true, 1.0));
        let many = TuneLab::ran(Setup {
            laws: *laws,
            ..lab.overload(Manners::default())
        });
        [
            number(crowd.figures.total.mean(), 2),
            number(crowd.figures.total.max(), 0),
            number(crowd.figures.throughput(), 1),
            number(silent.figures.ticket_wait.max(), 0),
            number(silent.figures.throughput(), 1),
            number(asking.figures.throughput(), 1),
            number(asking.figures.total.max(), 0),
            percent(TuneLab::used(&many)),
            number(many.figures.total.max(), 0),
        ]
    });
    table
}

//! The charts of a gate: who waits, throughput, response times as in the paper's figure 6, tickets by
//! slot, and the Run Ready limit over time, if the module finds it, as in figure 10 of SQS's paper.

use super::chart::{Chart, ChartLine, Mark, Scale, Sign, Tick, short, x_tick};
use super::minutes::{Minutes, held};
use super::report::{GateLine, SlotLine, sum};
use super::sessions::SessionsLine;
use super::time_of_day;
use nap_core::micros::Micros;

/// Slots drawn: this many that have begun,
const SLOTS_BEGUN: usize = 18;
/// and this many in all.
const SLOTS: usize = 36;

/// All of them; `id` is unique to the gate.
pub(super) fn of(gate: &GateLine, id: &str) -> Vec<Chart> {
    let mut charts = vec![
        queue(gate, format!("{id}-queue")),
        throughput(gate, format!("{id}-throughput")),
        responses(gate, format!("{id}-responses")),
        tickets(gate, format!("{id}-tickets")),
    ];
    if gate.run_ready.law != "fixed" {
        charts.push(run_ready(gate, format!("{id}-run-ready")));
    }
    charts
}

/// A room's session interval and the mean queue of its pages, as in the SQS paper's figure 9.
pub(super) fn of_sessions(
    sessions: &SessionsLine,
    minutes: Option<&Minutes>,
    id: &str,
) -> Vec<Chart> {
    let xs = minutes.map(minutes_along).unwrap_or_default();
    let intervals = held(&sessions.minutes.interval_s, 0.0);
    let queues = held(&sessions.minutes.page_queue, 0.0);
    let top = |values: &[f64], least: f64| values.iter().copied().fold(least, f64::max);
    let (longest, fullest) = (top(&intervals, sessions.interval_s), top(&queues, 0.0));
    let (seconds, places) = (Scale::to(longest, 0.001), Scale::to(fullest, 0.5));
    vec![
        Chart {
            id: format!("{id}-interval"),
            title: "Session interval",
            said: format!(
                "A session may start every {} s, at most every {} s in these five minutes.",
                short(sessions.interval_s),
                short(longest)
            ),
            keys: vec![Sign::Line("limit").means("seconds between two starts")],
            ys: seconds.ys(" s"),
            xs: xs.clone(),
            lines: vec![seconds.curve("limit", &intervals, false)],
            ..Chart::default()
        },
        Chart {
            id: format!("{id}-page-queue"),
            title: "Mean page queue",
            said: format!(
                "{} wait at a page in the mean now, at most {} in these five minutes.",
                short(queues.last().copied().unwrap_or(0.0)),
                short(fullest)
            ),
            keys: vec![Sign::Line("queue").means("mean length of the page queues")],
            ys: places.ys(""),
            xs,
            lines: vec![places.curve("queue", &queues, true)],
            empty: (fullest == 0.0).then_some("no page had a queue"),
            ..Chart::default()
        },
    ]
}

fn most(numbers: &[u32]) -> u32 {
    numbers.iter().copied().max().unwrap_or(0)
}

/// The time of day at each full minute.
fn minutes_along(minutes: &Minutes) -> Vec<Tick> {
    let n = minutes.queue.len().max(2) as u64;
    let begun = minutes.start.unix.secs_floor() % 60;
    let first = (60 - begun) % 60;
    (first..n)
        .step_by(60)
        .map(|second| {
            let percent = 100.0 * second as f64 / (n - 1) as f64;
            let time = minutes.start.after(Micros::from_secs(second)).time();
            let label = time.as_str().get(..5).unwrap_or("").to_owned();
            x_tick(percent, label)
        })
        .collect()
}

fn queue(gate: &GateLine, id: String) -> Chart {
    let minutes = &gate.recent;
    let (longest, highest) = (most(&minutes.queue), most(&minutes.limit));
    // A limit far above the queue would flatten it: such a limit is told in words, and its values from
    // before the server's speed was known are cut off.
    let limit = gate.wait.limit;
    let near = limit <= longest.max(10).saturating_mul(6);
    let top = match near {
        true => longest.max(highest.min(longest.max(limit).saturating_mul(2))),
        false => longest,
    };
    let scale = Scale::to(f64::from(top), 1.0);
    let mut lines = vec![scale.line("queue", &minutes.queue, true)];
    let mut keys = vec![Sign::Line("queue").means("most waiting in a second")];
    if near {
        lines.push(scale.line("limit", &minutes.limit, false));
        let cut = if f64::from(highest) > scale.top {
            "wait limit (cut at the top)"
        } else {
            "wait limit"
        };
        keys.push(Sign::Line("limit").means(cut));
    }
    Chart {
        id,
        title: "Queue and wait limit",
        said: match (gate.wait.queue, longest) {
            (0, 0) => format!(
                "Nobody waited in these five minutes; the limit is {}.",
                gate.wait.limit
            ),
            (now, _) => format!(
                "{now} wait now, at most {longest} in these five minutes; the limit is {}.",
                gate.wait.limit
            ),
        },
        keys,
        ys: scale.ys(""),
        xs: minutes_along(minutes),
        lines,
        empty: (longest == 0).then_some("nobody waited"),
        ..Chart::default()
    }
}

fn run_ready(gate: &GateLine, id: String) -> Chart {
    let (limits, running) = (&gate.run_ready.limit_recent, &gate.recent.running);
    let least = limits.iter().copied().min().unwrap_or(0);
    let highest = most(limits);
    let scale = Scale::to(f64::from(highest.max(most(running))), 1.0);
    Chart {
        id,
        title: "Run Ready limit over time",
        said: format!(
            "The limit is {}; in these five minutes it was {least} to {highest}.",
            gate.run_ready.limit
        ),
        keys: vec![
            Sign::Line("served").means("running"),
            Sign::Line("limit").means("Run Ready limit"),
        ],
        ys: scale.ys(""),
        xs: minutes_along(&gate.recent),
        lines: vec![
            scale.line("served", running, true),
            scale.line("limit", limits, false),
        ],
        ..Chart::default()
    }
}

fn throughput(gate: &GateLine, id: String) -> Chart {
    let minutes = &gate.recent;
    let (served, refused) = (most(&minutes.finished), most(&minutes.refused));
    let scale = Scale::to(f64::from(served.max(refused)), 1.0);
    Chart {
        id,
        title: "Throughput",
        said: match served.max(refused) {
            0 => "Nobody came in these five minutes.".to_owned(),
            _ => format!(
                "{:.1} served and {:.1} refused a second now; at most {served} and {refused} in \
                 one second.",
                Minutes::rate_now(&minutes.finished),
                Minutes::rate_now(&minutes.refused)
            ),
        },
        keys: vec![
            Sign::Line("served").means("served a second"),
            Sign::Line("refused").means("refused a second"),
        ],
        ys: scale.ys("/s"),
        xs: minutes_along(minutes),
        lines: vec![
            scale.line("served", &minutes.finished, true),
            scale.line("refused", &minutes.refused, false),
        ],
        empty: (served.max(refused) == 0).then_some("nobody came"),
        ..Chart::default()
    }
}

fn responses(gate: &GateLine, id: String) -> Chart {
    let answers = &gate.answers;
    let bound = gate.settings.bound_s.min(1e6);
    let slowest = answers.response_s.iter().copied().fold(bound, f64::max);
    let (up, along) = (
        Scale::to(slowest, 0.1),
        Scale::to(f64::from(most(&answers.queue)), 1.0),
    );
    let marks = answers
        .queue
        .iter()
        .zip(&answers.response_s)
        .zip(&answers.how);
    let marks = marks.map(|((&queue, &response), &name)| Mark {
        name,
        x: short(100.0 * along.part(f64::from(queue))),
        y: up.y(response),
    });
    let through = |from: f64, to: f64| {
        let y = |value: f64| short(100.0 * (1.0 - up.part(value)));
        format!("0,{} 100,{}", y(from), y(to))
    };
    let mut lines = vec![ChartLine {
        name: "bound",
        points: through(bound, bound),
        area: None,
    }];
    let mut keys = ["passed", "waited", "ticket"]
        .into_iter()
        .zip(["let in at once", "waited", "came with a ticket"])
        .map(|(name, said)| Sign::Mark(name).means(said))
        .collect::<Vec<_>>();
    keys.push(Sign::Line("bound").means(format!("bound {} s", short(bound))));
    let speed = &gate.speed;
    if let (Some(intercept), Some(slope)) = (speed.line_intercept_s, speed.line_slope_s) {
        // The line ends where it leaves the field, or it would bend there.
        let to = match intercept + slope * along.top {
            end if end > up.top && slope > 0.0 => (up.top - intercept).max(0.0) / slope,
            _ => along.top,
        };
        let y = |at: f64| short(100.0 * (1.0 - up.part(intercept + slope * at)));
        lines.push(ChartLine {
            name: "fit",
            points: format!("0,{} {},{}", y(0.0), short(100.0 * along.part(to)), y(to)),
            area: None,
        });
        keys.push(Sign::Line("fit").means("expected"));
    }
    let n = answers.response_s.len();
    let said = match (answers.median_s, answers.p95_s) {
        (Some(median), Some(p95)) => format!(
            "Of the last {n} accesses half were answered within {median:.2} s, 95 in 100 within \
             {p95:.2} s."
        ),
        _ => "No access has been answered in these five minutes.".to_owned(),
    };
    Chart {
        id,
        title: "Response time by queue met",
        said,
        keys,
        ys: up.ys(" s"),
        xs: along.xs(),
        along: "accesses that waited on entering",
        lines,
        marks: marks.collect(),
        empty: (n == 0).then_some("no answers yet"),
        ..Chart::default()
    }
}

/// The slots to show: some that have begun, and what comes after them.
pub(super) fn slots_shown(slots: &[SlotLine]) -> &[SlotLine] {
    let begun = slots.iter().take_while(|slot| slot.begun).count();
    let from = begun
        .saturating_sub(SLOTS_BEGUN)
        .min(slots.len().saturating_sub(SLOTS));
    let shown = slots.get(from..).unwrap_or(&[]);
    shown.get(..SLOTS).unwrap_or(shown)
}

fn tickets(gate: &GateLine, id: String) -> Chart {
    let slots = slots_shown(&gate.slots);
    let highest = slots
        .iter()
        .map(|slot| slot.places.max(slot.sold.saturating_add(slot.sold_late)));
    let scale = Scale::to(f64::from(highest.max().unwrap_or(0)), 1.0);
    let width = 100.0 / slots.len().max(8) as f64;
    let mut bars = Vec::with_capacity(slots.len() * 6);
    let mut xs = Vec::new();
    let every = slots.len().div_ceil(5).max(1);
    for (i, slot) in slots.iter().enumerate() {
        let x = width * i as f64;
        let parts = [
            ("redeemed", slot.redeemed),
            ("late", slot.late),
            ("deferred", slot.deferred),
            ("broken", slot.broken),
            ("open", slot.open),
        ];
        let mut from = 0.0;
        for (name, n) in parts.into_iter().filter(|(_, n)| *n > 0) {
            let to = from + f64::from(n);
            bars.push(scale.bar(name, x + width * 0.12, width * 0.76, from, to));
            from = to;
        }
        let places = f64::from(slot.places);
        bars.push(scale.cap("places", x + width * 0.02, width * 0.96, places));
        if i % every == 0 {
            let time = time_of_day(&slot.start).get(..8).unwrap_or("").to_owned();
            xs.push(x_tick(x + width / 2.0, time));
        }
    }
    let begun = slots.iter().filter(|slot| slot.begun).count();
    let mut lines = Vec::new();
    let mut keys = vec![
        Sign::Bar("redeemed").means("redeemed in time or early"),
        Sign::Bar("open").means("not presented yet"),
        Sign::Bar("late").means("late"),
        Sign::Bar("deferred").means("put off"),
        Sign::Bar("broken").means("broken"),
        Sign::Line("places").means("places"),
    ];
    if begun > 0 {
        let x = short(width * begun as f64);
        lines.push(ChartLine {
            name: "now",
            points: format!("{x},0 {x},100"),
            area: None,
        });
        keys.push(Sign::Line("now").means("now"));
    }
    Chart {
        id,
        title: "Tickets by slot",
        said: match slots.len() {
            0 => "No slot is open: nobody has been refused lately.".to_owned(),
            n => format!(
                "Slots shown: {n}. Tickets sold: {}; of these {} redeemed, {} late, {} put off, {} broken, \
                 {} not presented yet.",
                sum(slots, |slot| slot.sold.saturating_add(slot.sold_late)),
                sum(slots, |slot| slot.redeemed),
                sum(slots, |slot| slot.late),
                sum(slots, |slot| slot.deferred),
                sum(slots, |slot| slot.broken),
                sum(slots, |slot| slot.open)
            ),
        },
        keys,
        ys: scale.ys(""),
        xs,
        along: "start of the slot",
        lines,
        bars,
        empty: slots.is_empty().then_some("no tickets are out"),
        ..Chart::default()
    }
}

//! The first rate of session starts, fed forward from the cost of sessions.

use nap_core::micros::Micros;
use nap_sim::report::{Report, Table, number};
use nap_sim::sessions::Shop;

use super::TuneLab;
use crate::paper::sqs::shop;

/// Share of the processors that the first rate may use.
pub fn fed_forward(lab: &TuneLab) -> Report {
    let mut report = Report::new("Feed-forward session start");
    report.text(
        "The SQS paper's shop (papers.md: 60 s of patience, 3 s to think), mod_nap by default. The first \
         sessions' mean work is fed forward: all processors for sessions of \
         that work, and steps from there. Here the share is swept by telling the law of more or fewer processors than \
         there are.",
    );
    let columns = [
        "sessions/s, 25 clients",
        "100 clients",
        "400 clients",
        "failed half way, of 400",
        "longest page queue, of 400",
        "last session of 400, s",
    ];
    let mut table = Table::new("Share of two processors", &lab.command, &columns);
    for cores in [1, 2, 3, 4, 8] {
        let runs = [25, 100, 400].map(|clients| {
            let mut setup = shop(clients, lab.seed);
            setup.starts.cores = cores;
            setup.length = Micros::from_secs(2000);
            Shop::run(setup)
        });
        let rates = runs
            .each_ref()
            .map(|run| number(run.sessions_per_s().unwrap_or(f64::NAN), 2));
        let last = &runs[2];
        let queue = last
            .course
            .iter()
            .map(|second| second.queue)
            .fold(0.0, f64::max);
        let more = [
            last.mid_session.to_string(),
            number(queue, 0),
            number(last.done_s.unwrap_or(f64::NAN), 0),
        ];
        let share = number(0.5 * f64::from(cores), 2);
        table.row(&share, rates.into_iter().chain(more));
    }
    report.table(table);
    report.text(
        "**Kept: all processors** (half of them at first). A session's work is taken for its residence, which is \
         longer than its time on a processor, so the rate asks for less than there is. More starts sooner, and longer \
         queues build at the search before the law has seen them: what starts now is there 12 s later. None broke \
         off here, nor with 30 s of patience (papers.md).",
    );
    report
}

//! The deadline guard, the share of tickets, the early call.

use nap_core::room::terms::{Choice, how};
use nap_sim::crowd::Manners;
use nap_sim::report::{Report, Table, number, percent};
use nap_sim::setup::{Arrivals, Setup};

use super::{TuneLab, seconds};

/// The guard, when the server slows down under a full queue.
pub fn guard(lab: &TuneLab) -> Report {
    let mut report = Report::new("The deadline guard");
    report.text(
        "600 visitors with ten pages each; after 20 s the server does everything so many times slower. \
         Without the guard the wait limit alone has to answer, from accesses that are over: too late for \
         those who wait already. Over the bound: pages that took longer than 4 s from the request on.",
    );
    let columns = [
        "over the bound",
        "p99 s",
        "max s",
        "put off by it",
        "put off twice",
        "pages/s",
        "worst total, s",
    ];
    let mut table = Table::new("Server slower after 20 s", &lab.command, &columns);
    for slower in [1.0, 2.0, 5.0, 10.0] {
        for (name, unguarded) in [("without", true), ("with", false)] {
            let world = TuneLab::ran(Setup {
                seed: lab.seed,
                posts: 10,
                shift: Some((seconds(20), 1.0 / slower)),
                unguarded,
                ..Setup::default()
            });
            let (counts, figures) = (&world.state().gate().counts, &world.figures);
            let cells = [
                percent(figures.served.above(4.0)),
                number(figures.served.quantile(0.99), 2),
                number(figures.served.max(), 2),
                (counts.guard_fired + counts.deferred).to_string(),
                counts.deferred_twice.to_string(),
                number(figures.throughput(), 1),
                number(figures.total.max(), 0),
            ];
            table.row(&format!("{slower:.0} times, {name}"), cells);
        }
    }
    report.table(table);
    report.text(
        "**Kept: a wait ends S_guard = min(bound/2, p95 of residence) before the bound.** What is left over \
         the bound is the accesses that ran already when the server slowed down. It does not make the \
         server faster: those it puts off wait elsewhere, and the unluckiest total is longer. Where the \
         server becomes five times slower within a moment some are put off a second time, for what was \
         promised at the old speed; at twice as slow nobody is.",
    );
    report
}

/// phi, the share of X that is sold as tickets.
pub fn share(lab: &TuneLab) -> Report {
    let mut report = Report::new("The share that is sold as tickets (phi)");
    report.text(
        "A flash crowd of 600 with ten pages each, as in the paper, and half as many again as can be served \
         for a minute. auto sells all that the server can do; who comes without a ticket has what is left.",
    );
    let columns = [
        "crowd: response, mean s",
        "ticket wait, mean s",
        "mean total, s",
        "worst total, s",
        "tickets a page",
        "overload: used",
        "ticket wait, mean s",
        "worst total, s",
    ];
    let mut table = Table::new("By phi", &lab.command, &columns);
    for phi in [0.1, 0.3, 0.5, 0.7, 0.9, 0.0] {
        let choice = match phi {
            0.0 => Choice::default(),
            phi => Choice {
                how: how::FIXED,
                n: (phi * 1e6) as u32,
            },
        };
        let mut crowd = Setup {
            seed: lab.seed,
            posts: 10,
            ..Setup::default()
        };
        let mut overload = lab.overload(Manners::default());
        crowd.terms.share = choice;
        overload.terms.share = choice;
        let (crowd, overload) = (TuneLab::ran(crowd), TuneLab::ran(overload));
        let (few, many) = (&crowd.figures, &overload.figures);
        let cells = [
            number(few.served.mean(), 2),
            number(few.ticket_wait.mean(), 1),
            number(few.total.mean(), 2),
            number(few.total.max(), 0),
            number(few.tickets as f64 / few.served.n().max(1) as f64, 2),
            percent(TuneLab::used(&overload)),
            number(many.ticket_wait.mean(), 1),
            number(many.total.max(), 0),
        ];
        let name = if phi == 0.0 {
            "auto".to_owned()
        } else {
            number(phi, 1)
        };
        table.row(&name, cells);
    }
    report.table(table);
    report.text(
        "**Kept: auto, all of it.** The server is as busy with each. A small share makes few tickets, and \
         those long: some are served at once, others wait for minutes. With all of it each is served when they \
         would have been in a plain queue: the worst total is what the server needs for those \
         before them. More see a ticket first, and hardly anybody waits on a connection.",
    );
    report
}

/// The early call.
pub fn calls(lab: &TuneLab) -> Report {
    let mut report = Report::new("The early call");
    report.text(
        "3,000 come within a second for one page each, and then nobody: what the server does from then on \
         is up to those who hold tickets for later. Tickets are sold for three tenths of what can be \
         served. Done: when the last had their page; 44 s is what the server needs for all.",
    );
    let columns = [
        "done, s",
        "used from 10 to 40 s",
        "questions a ticket",
        "called",
        "max response, s",
        "broken",
    ];
    let mut table = Table::new("By interval and by pages that ask", &lab.command, &columns);
    for (poll, asks) in [
        (3, 0.0),
        (3, 0.25),
        (3, 0.5),
        (2, 1.0),
        (3, 1.0),
        (5, 1.0),
        (10, 1.0),
        (20, 1.0),
        (40, 1.0),
    ] {
        let mut setup = Setup {
            seed: lab.seed,
            clients: 3000,
            posts: 1,
            arrivals: Arrivals::Within(seconds(1)),
            manners: Manners {
                asks,
                ..Manners::default()
            },
            ..Setup::default()
        };
        setup.terms.poll = seconds(poll);
        setup.terms.share = Choice {
            how: how::FIXED,
            n: 300_000,
        };
        let world = TuneLab::ran(setup);
        let (counts, figures) = (&world.state().gate().counts, &world.figures);
        let finished = &figures.finished;
        let share = finished.above(10.0) - finished.above(40.0);
        let cells = [
            number(figures.span.as_secs_f64(), 0),
            percent(share * finished.n() as f64 / (super::FULL * 30.0)),
            number(figures.asks as f64 / figures.tickets.max(1) as f64, 1),
            figures.calls.len().to_string(),
            number(figures.served.max(), 2),
            counts.broken.to_string(),
        ];
        table.row(
            &format!("NapPoll {poll}s, {:.0} % ask", 100.0 * asks),
            cells,
        );
    }
    report.table(table);
    report.text(
        "**Kept: NapPoll 3 s** (10 s at first). With nobody asking the server idles until the tickets' times. \
         From 20 s on holders ask too rarely for what becomes free. A crowd of some hundreds, a shop's \
         sessions say, leaves turns unused with 10 s already; a large one asks no oftener than `rate=` \
         whatever the base. No call breaks a promise, however many ask. When few pages ask, the last to have \
         tickets are those who do not, and the end comes no sooner.",
    );
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use nap_core::micros::Micros;

    #[test]
    fn the_guard_keeps_the_bound_where_the_limit_alone_does_not() {
        let over = [true, false].map(|unguarded| {
            let world = TuneLab::ran(Setup {
                posts: 10,
                shift: Some((Micros::from_secs(20), 0.2)),
                unguarded,
                ..Setup::default()
            });
            (world.figures.served.above(4.0), world.figures.served.max())
        });
        assert!(over[1].0 < 0.2 * over[0].0, "{over:?}");
        assert!(over[1].1 < 0.5 * over[0].1, "{over:?}");
    }
}

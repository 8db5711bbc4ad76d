//! Prime window, lifetime and late pool, compared with how people come back.

use nap_core::micros::Micros;
use nap_sim::crowd::Manners;
use nap_sim::report::{Report, Table, number, percent};
use nap_sim::world::World;

use super::{TuneLab, seconds};

/// How holders come back.
fn ways() -> [(&'static str, Manners); 4] {
    let by_hand = |median, sigma| Manners {
        by_hand: Some((median, sigma)),
        ..Manners::default()
    };
    [
        ("by the page", Manners::default()),
        (
            "by a hidden tab",
            Manners {
                reaction: seconds(60),
                ..Manners::default()
            },
        ),
        ("by hand, 20 s", by_hand(20.0, 1.0)),
        ("by hand, 3 min", by_hand(180.0, 1.0)),
    ]
}

const SPANS: [u64; 8] = [5, 10, 30, 60, 120, 300, 900, 1800];

/// The prime window and the lifetime.
pub fn windows(lab: &TuneLab) -> Report {
    let mut report = Report::new("How long a ticket is good");
    report.text(
        "For a minute half as many again come as can be served. Holders come back by their page within \
         200 ms of their time, from a hidden tab within a minute (browsers slow its timers), or by hand: \
         lognormal of that median with sigma 1, so that one in forty takes seven times as long.",
    );
    let names = ways().map(|(name, _)| name);
    let mut columns: Vec<String> = names.iter().map(|name| format!("in it: {name}")).collect();
    columns.extend(names.iter().map(|name| format!("used: {name}")));
    columns.push("ticket wait, by the page, s".to_owned());
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let title = "Prime window (lifetime 300 s, or the window): tickets presented in it, and what was \
                 used of the server while visitors came";
    let mut table = Table::new(title, &lab.command, &columns);
    for prime in SPANS {
        let worlds = ways().map(|(_, manners)| {
            let mut setup = lab.overload(manners);
            setup.terms.prime = seconds(prime);
            setup.terms.lifetime = seconds(prime.max(300));
            TuneLab::ran(setup)
        });
        let inside = worlds.iter().map(|world| percent(in_prime(world)));
        let used = worlds.iter().map(|world| percent(TuneLab::used(world)));
        let wait = number(worlds[0].figures.ticket_wait.mean(), 1);
        table.row(&span(prime), inside.chain(used).chain([wait]));
    }
    report.table(table);
    let mut columns: Vec<String> = names.iter().map(|name| format!("lapsed: {name}")).collect();
    columns.extend(names.iter().map(|name| format!("worst total, s: {name}")));
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let title = "Lifetime (prime window 5 s): tickets whose holders came after their end";
    let mut table = Table::new(title, &lab.command, &columns);
    for lifetime in SPANS {
        let worlds = ways().map(|(_, manners)| {
            let mut setup = lab.overload(manners);
            setup.terms.lifetime = seconds(lifetime);
            TuneLab::ran(setup)
        });
        let lapsed = worlds.iter().map(|world| percent(lapsed(world)));
        let worst = worlds.iter().map(|w| number(w.figures.total.max(), 0));
        table.row(&span(lifetime), lapsed.chain(worst));
    }
    report.table(table);
    report.text(
        "**Kept: a prime window as long as the bound bears, lifetime 5 min.** A page that brings its holder back \
         needs no more. A longer window takes nothing from the server, for newcomers use what holders \
         leave, but all from those who are to be told a time: each place is promised for the whole window, so tickets \
         reach ahead four minutes with a window of two, and more than an hour with one of half an hour. \
         Visitors who come by hand or from a hidden tab mostly miss 5 s, and lose little: the tail books them \
         again ahead of newcomers, and worst totals stay those of their own delay. The lifetime costs \
         nothing at all, the tail holds no place; 5 min take in all who come within a minute or two. \
         Where no page of ours brings visitors back (mail, programs) `NapTicketLifetime` should be ten \
         times their median delay: after three minutes in the median a quarter is too late for 5 min.",
    );
    report
}

fn span(s: u64) -> String {
    match s {
        s if s >= 300 => format!("{} min", s / 60),
        s => format!("{s} s"),
    }
}

/// The share of presented tickets that came in their prime window.
fn in_prime(world: &World) -> f64 {
    let counts = &world.state().gate().counts;
    let early = counts.redeemed_early as f64;
    let presented = counts.presented as f64 + early;
    presented / (presented + counts.late as f64 + counts.expired as f64)
}

/// The share of tickets with a known fate that lapsed.
fn lapsed(world: &World) -> f64 {
    let counts = &world.state().gate().counts;
    let used = counts.presented + counts.redeemed_early + counts.late;
    counts.expired as f64 / (used + counts.expired).max(1) as f64
}

/// The late pool.
pub fn late_pool(lab: &TuneLab) -> Report {
    let mut report = Report::new("The late pool");
    report.text(
        "The same crowd; so many present their tickets up to 30 s after the prime window. They \
         are let in while there is room; of each slot as many places are kept for them as were booked again, up to 50 %.",
    );
    let columns = [
        "presented late",
        "used",
        "mean total, s",
        "worst total, s",
        "ticket wait, mean s",
        "tries a page",
        "broken",
    ];
    let mut table = Table::new(
        "By the share of holders who come late",
        &lab.command,
        &columns,
    );
    for share in [0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8] {
        let manners = Manners {
            late: share,
            lateness: Micros::from_secs(30),
            ..Manners::default()
        };
        let world = TuneLab::ran(lab.overload(manners));
        let (counts, figures) = (&world.state().gate().counts, &world.figures);
        let cells = [
            counts.late.to_string(),
            percent(TuneLab::used(&world)),
            number(figures.total.mean(), 1),
            number(figures.total.max(), 0),
            number(figures.ticket_wait.mean(), 1),
            number(figures.tries_per_post(), 2),
            counts.broken.to_string(),
        ];
        table.row(&percent(share), cells);
    }
    report.table(table);
    report.text(
        "**Kept: none at first, up to 50 % by what is measured.** The server stays as busy however many are \
         late, for what nobody has bought when its slot comes is a newcomer's, and no ticket is broken. \
         The worst total is a late one's: up to 30 s of lateness, and one more booking. It grows no \
         more when half are late, so the pool is large enough.",
    );
    report
}

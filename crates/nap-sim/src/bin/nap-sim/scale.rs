//! `nap-sim scale`: flash crowds of more and more visitors. It shows how the work of the room and of the
//! simulator grows, and what happens to a crowd far beyond any machine.
//!
//! The times are this program's own and differ from run to run; everything else stays the same.

use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use nap_core::micros::Micros;
use nap_sim::fleet::Fleet;
use nap_sim::fleet::setup::{Balancer, FleetSetup, Returns};
use nap_sim::report::{Report, Table, number, percent};
use nap_sim::server::Service;
use nap_sim::setup::{Arrivals, Setup};
use nap_sim::world::World;

/// The crowds.
#[derive(Args)]
pub struct ScaleOptions {
    /// A fleet of so many nodes over a store, and one crowd, instead of growing ones
    #[arg(long, value_parser = clap::value_parser!(u8).range(2..=255))]
    nodes: Option<u8>,
    /// With --nodes: visitors come to one node after the other, as behind HAProxy's roundrobin, and not by chance
    #[arg(long, requires = "nodes")]
    round_robin: bool,
    /// With --nodes: fail, too, where many are put off or out of order, nodes' waits differ (with --round-robin their means as
    /// well) or the store has much to do, by what a hundred nodes and a million visitors within a minute may come to
    #[arg(long, requires = "nodes")]
    judge: bool,
    /// Visitors of the largest crowd; each smaller crowd has a tenth of the next
    #[arg(long, alias = "visitors", default_value_t = 1_000_000)]
    most: u32,
    /// Seconds within which all visitors come
    #[arg(long, default_value_t = 1.0)]
    within: f64,
    /// Processor time of a page, milliseconds
    #[arg(long, default_value_t = 14.8)]
    service_ms: f64,
    /// The seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The smallest crowd.
const LEAST: u32 = 1000;

pub fn run(options: &ScaleOptions) -> ExitCode {
    if let Some(nodes) = options.nodes {
        return fleet(nodes, options);
    }
    let command = format!(
        "nap-sim scale --most {} --within {} --service-ms {} --seed {}",
        options.most, options.within, options.service_ms, options.seed
    );
    let columns = [
        "events",
        "events/s",
        "seconds",
        "most tickets out",
        "refusals without a ticket",
        "visitors told \"no ticket\"",
        "mean wait, h",
        "broken",
    ];
    let mut table = Table::new(
        "A page for each of N visitors who come at once",
        &command,
        &columns,
    );
    let sizes = std::iter::successors(Some(options.most), |n| Some(n / 10).filter(|n| *n >= LEAST));
    let mut sizes: Vec<u32> = sizes.collect();
    sizes.reverse();
    for clients in sizes {
        table.row(&format!("{clients}"), crowd(clients, options));
    }
    let mut report = Report::new("Scale");
    report.table(table);
    print!("{}", report.markdown(None));
    ExitCode::SUCCESS
}

fn fleet(nodes: u8, options: &ScaleOptions) -> ExitCode {
    let begun = Instant::now();
    let mut fleet = Fleet::new(crowd_of(nodes, options));
    let (mut most, mut most_marked, mut second) = (0, 0, 0);
    let (mut commands, mut marked) = (0, 0);
    while fleet.step() {
        let now = fleet.elapsed().0 / 1_000_000;
        if now != second {
            let store = fleet.store();
            most = most.max((store.commands - commands) / (now - second));
            most_marked = most_marked.max((store.marked - marked) / (now - second));
            (second, commands, marked) = (now, store.commands, store.marked);
        }
    }
    let counts = &fleet.counts;
    let waits: Vec<f64> = (counts.waits.values())
        .map(|(n, sum)| sum / (*n).max(1) as f64)
        .collect();
    let mean = waits.iter().sum::<f64>() / waits.len().max(1) as f64;
    let (off, off_then) = fleet.waits_off();
    let order = fleet.order(Micros::MAX);
    let out_of_order = order.wrong as f64 / order.pairs.max(1) as f64;
    let elapsed = fleet.elapsed().as_secs_f64();
    println!(
        "{} visitors within {} s at {nodes} nodes, {:.0} s: {} pages, {} tickets; of {} prime tickets presented ({} at another \
         node) {} broken, {} put off, {} answered after the bound; {} refusals without a ticket. Mean waits of tickets: {mean:.1} s, \
         nodes' up to {:.2} % off, {:.2} % against what all sold in the same half second; {} later visitors of those a second or more apart had the earlier ticket. The store did {:.0} \
         commands a second, {most} in the busiest, and wrote {:.0} marks a second, {most_marked} in the busiest; {} asked, {} leases, for which {} waited, {} of them in vain. {} events in {:.0} s{}.",
        options.most,
        options.within,
        elapsed,
        counts.served,
        counts.tickets,
        counts.presented,
        counts.abroad,
        counts.broken,
        counts.deferred,
        counts.slow,
        counts.without,
        100.0 * off,
        100.0 * off_then,
        percent(out_of_order),
        fleet.store().commands as f64 / elapsed,
        fleet.store().marked as f64 / elapsed,
        counts.asked,
        fleet.store().leases,
        counts.starved,
        counts.unleased,
        fleet.happened,
        begun.elapsed().as_secs_f64(),
        fleet
            .oracle
            .failure
            .as_ref()
            .map_or(String::new(), |why| format!("; FAILED: {why}")),
    );
    let put_off = counts.deferred as f64 / counts.presented.max(1) as f64;
    let kept = counts.broken == 0 && fleet.oracle.failure.is_none();
    let judged = [
        (
            put_off <= PUT_OFF,
            format!("{put_off:.4} of the tickets were put off, {PUT_OFF} is the most"),
        ),
        (
            off_then <= OFF,
            format!(
                "the waits of a node are {off_then:.4} off what all sold then, {OFF} is the most"
            ),
        ),
        (
            out_of_order <= DISORDER,
            format!(
                "{out_of_order:.4} of the later visitors had the earlier ticket, {DISORDER} is the most"
            ),
        ),
        (
            most <= COMMANDS,
            format!("the store did {most} commands in a second, {COMMANDS} is the most"),
        ),
    ];
    let in_turn = (
        off <= OFF_IN_TURN || !options.round_robin,
        format!("the mean waits of nodes are up to {off:.4} off, {OFF_IN_TURN} is the most"),
    );
    let judged = judged
        .into_iter()
        .chain([in_turn])
        .filter(|_| options.judge);
    let mut claims = vec![(kept, "a promise was broken".to_owned())];
    claims.extend(judged);
    let broken = claims.iter().filter(|(holds, _)| !holds);
    let broken: Vec<&str> = broken.map(|(_, sentence)| sentence.as_str()).collect();
    for sentence in &broken {
        println!("Does not hold: {sentence}.");
    }
    match broken[..] {
        [] => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Tickets that may be put off, of those presented.
const PUT_OFF: f64 = 0.001;
/// How far the mean wait of a node may be off what all nodes sold in the same half second.
const OFF: f64 = 0.005;
/// How far it may be off the mean of all nodes, where visitors come to one after the other. Where they come by chance, some node's
/// come later than others', and wait longer by that alone: of a hundred nodes with ten thousand each one is some 2 % off.
const OFF_IN_TURN: f64 = 0.02;
/// Later visitors, a second or more apart, who may have the earlier ticket.
const DISORDER: f64 = 0.001;
/// What the store may have to do in its busiest second.
const COMMANDS: u64 = 10_000;

/// Each node is a small server: one processor, ten at once.
fn crowd_of(nodes: u8, options: &ScaleOptions) -> FleetSetup {
    let base = Setup::default();
    FleetSetup {
        seed: options.seed,
        nodes,
        terms: base.terms,
        workers: base.workers,
        cores: 1.0,
        service: Service {
            mean_s: options.service_ms / 1e3,
            ..base.service
        },
        clients: options.most,
        posts: 1,
        arrivals: Arrivals::Within(Micros::from_secs_f64(options.within)),
        manners: base.manners,
        returns: Returns::Usual,
        balancer: match options.round_robin {
            true => Balancer::RoundRobin,
            false => Balancer::Random,
        },
        delay: Micros::from_millis(1),
        apart: Micros::from_secs(10),
        spare: true,
        leased: true,
        shared: None,
        one_application: false,
        forget: Micros::from_secs(30),
        faults: Vec::new(),
        flaw: None,
    }
}

fn crowd(clients: u32, options: &ScaleOptions) -> [String; 8] {
    let mut setup = Setup {
        seed: options.seed,
        clients,
        posts: 1,
        arrivals: Arrivals::Within(Micros::from_secs_f64(options.within)),
        ..Setup::default()
    };
    setup.service.mean_s = options.service_ms / 1e3;
    let begun = Instant::now();
    let mut world = World::new(setup, false);
    let mut most = 0;
    while world.step() {
        most = most.max(world.state().permits().outstanding());
    }
    let took = begun.elapsed().as_secs_f64();
    let f = &world.figures;
    let told = world.told_no_ticket();
    [
        world.happened.to_string(),
        number(world.happened as f64 / took, 0),
        number(took, 2),
        most.to_string(),
        percent(f.without as f64 / f.tries.max(1) as f64),
        percent(told as f64 / f64::from(clients)),
        number(f.total.mean() / 3600.0, 2),
        f.broken.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five hundred a second is what pages may ask, and the rate of visitors who hold no ticket.
    #[test]
    fn who_is_told_that_there_is_no_ticket_comes_no_oftener_than_pages_ask() {
        let mut setup = Setup {
            clients: 20_000,
            posts: 1,
            ..Setup::default()
        };
        setup.terms.horizon = Micros::from_secs(20);
        let mut world = World::new(setup, false);
        while world.step() {}
        let f = &world.figures;
        assert!(world.told_no_ticket() > 15_000 && f.served.n() == 20_000);
        let most = 20_000.0 + 550.0 * f.span.as_secs_f64();
        assert!((f.tries as f64) < most, "{} {most}", f.tries);
    }
}

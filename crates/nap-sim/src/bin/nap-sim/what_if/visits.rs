//! `--pages`: visitors who want different pages of a room, each page with its gate (`NapPage`), and with
//! sessions if the room has them (`NapSession`).

use nap_core::micros::Micros;
use nap_core::nap::laws::Laws;
use nap_rng::Rng;
use nap_sim::plot::{Figure, Panel, Point};
use nap_sim::report::{Report, Table, number, percent};
use nap_sim::server::{Curve, Law, Service};
use nap_sim::sessions::{
    Coming, Keeping, Kind, Order, Patience, Second, Shop, ShopFaults, ShopOutcome, Site, Think,
};
use serde_json::{Value, json};

use super::conf::{Configured, GateConf};
use super::script::CrowdScript;
use super::{WhatIfOptions, json};

/// Nobody comes back after this time.
const LENGTH: Micros = Micros::from_secs(24 * 3600);
/// Points of a line, at most.
const POINTS: usize = 240;

/// A word of `--pages`: `GATE:MS[:CV][*TIMES|@SHARE]`.
#[derive(Clone, PartialEq, Debug)]
pub struct PageSpec {
    gate: String,
    ms: f64,
    cv: Option<f64>,
    /// Fetched this many times in a row,
    times: u32,
    /// or as this share of all pages.
    share: Option<f64>,
}

impl PageSpec {
    pub fn parse(text: &str) -> Result<PageSpec, String> {
        const MEANT: &str = "GATE:MS, GATE:MS:CV, with *TIMES or @SHARE behind it";
        let (rest, times, share) = match (text.split_once('*'), text.split_once('@')) {
            (Some((rest, times)), None) => (rest, super::words::count(times)?, None),
            (None, Some((rest, share))) => (rest, 1, Some(super::a_share(share)?)),
            (None, None) => (text, 1, None),
            _ => return Err(format!("{MEANT}: not both")),
        };
        if times > 1000 {
            return Err(format!("*{times}: at most 1000 times"));
        }
        let mut parts = rest.split(':');
        let gate = parts.next().filter(|gate| !gate.is_empty()).ok_or(MEANT)?;
        let ms = super::above_zero(parts.next().ok_or(MEANT)?)?;
        let cv = parts.next().map(super::from_zero).transpose()?;
        match parts.next() {
            None => Ok(PageSpec {
                gate: gate.to_owned(),
                ms,
                cv,
                times,
                share,
            }),
            Some(_) => Err(MEANT.to_owned()),
        }
    }

    /// Its name in a table.
    fn title(&self) -> String {
        format!("{}, {} ms", self.gate, self.ms)
    }
}

/// What is simulated, and the names of its kinds of pages.
pub struct Visits {
    site: Site,
    names: Vec<String>,
    bound_s: f64,
}

/// An error if a room with pages or sessions lacks `--pages`: it needs them to be simulated.
pub fn wanted(configured: &Configured) -> Result<(), String> {
    let (own, pages) = (&configured.gates[0].name, &configured.gates[1..]);
    if pages.is_empty() && configured.sessions.is_none() {
        return Ok(());
    }
    let pages: Vec<&str> = pages.iter().map(|page| page.name.as_str()).collect();
    let has = match (pages.is_empty(), configured.sessions.is_some()) {
        (true, _) => "NapSession".to_owned(),
        (false, sessions) => {
            let and = if sessions { " and NapSession" } else { "" };
            format!("NapPage {}{and}", pages.join(", "))
        }
    };
    let example = pages.first().copied().unwrap_or(own);
    Err(format!(
        "room {own} has {has}: --pages says which pages a visit has and what they take, as --pages \
         {own}:30*4,{example}:400"
    ))
}

impl WhatIfOptions {
    /// The site of `--pages`.
    pub(super) fn visits(
        &self,
        specs: &[PageSpec],
        mut configured: Configured,
    ) -> Result<Visits, String> {
        let order = self.order(specs)?;
        for gate in &mut configured.gates {
            self.over(&mut gate.terms);
        }
        if let Some(limit) = self.limit {
            let own = &mut configured.gates[0];
            own.terms.run_ready = limit;
            own.pace = nap_sim::sessions::fixed(limit);
        }
        let mut sessions = configured.sessions;
        if let Some(sessions) = &mut sessions {
            // The session gate's queue and Re Access are not a page's.
            let lobby = sessions.lobby;
            self.over(&mut sessions.lobby);
            sessions.lobby.wait_limit = lobby.wait_limit;
            sessions.lobby.re_access = lobby.re_access;
        }
        let selling = sessions.map_or(configured.gates[0].terms, |sessions| sessions.lobby);
        let mut site = Site {
            seed: self.seed,
            coming: Coming::Within(self.clients as usize, Micros::from_secs_f64(self.within)),
            once: true,
            think: Think::Fixed(self.think),
            patience: Patience::Goes(match self.patience {
                0.0 => Micros::MAX,
                mean => Micros::from_secs_f64(mean),
            }),
            way: match self.uncontrolled {
                true => Keeping::Open,
                false => Keeping::Room { deaf: false },
            },
            laws: Laws::CHOSEN,
            gates: configured
                .gates
                .iter()
                .map(|gate| (gate.terms, gate.pace))
                .collect(),
            sessions,
            debts: None,
            workers: Some(self.workers(configured.workers)),
            kinds: Vec::new(),
            order,
            processors: self.cores,
            curve: Curve::new(self.curve.clone()).map_err(|why| format!("--curve: {why}"))?,
            contention: 0.0,
            asks: self.asks,
            reaction_s: self.reaction,
            length: LENGTH,
            silence: Micros::MAX,
            faults: ShopFaults::default(),
        };
        let mut names = Vec::new();
        for spec in specs {
            let kind = self.kind(spec, &configured.gates)?;
            for _ in 0..spec.times {
                site.kinds.push(kind);
                names.push(spec.title());
            }
        }
        if let Order::Listed = site.order {
            names = (1..)
                .zip(&names)
                .map(|(n, name)| format!("{n}: {name}"))
                .collect();
        }
        if let Some(coming) = self.coming(&site.order)? {
            site.coming = coming;
        }
        Ok(Visits {
            site,
            names,
            bound_s: selling.bound.as_secs_f64(),
        })
    }

    fn kind(&self, spec: &PageSpec, gates: &[GateConf]) -> Result<Kind, String> {
        // A page may have its room's name: then the page is meant.
        let Some(gate) = gates.iter().rposition(|gate| gate.name == spec.gate) else {
            let known: Vec<&str> = gates.iter().map(|gate| gate.name.as_str()).collect();
            return Err(format!(
                "--pages {}: there is no such gate; known: {} (the room's own), {}",
                spec.gate,
                known[0],
                known[1..].join(", ")
            ));
        };
        Ok(Kind {
            gate: gate as u32,
            service: Service {
                mean_s: spec.ms / 1e3,
                law: match spec.cv.unwrap_or(self.cv) {
                    0.0 => Law::Fixed,
                    cv => Law::Lognormal(cv),
                },
            },
            heavy: false,
        })
    }

    fn order(&self, specs: &[PageSpec]) -> Result<Order, String> {
        let shares: Vec<f64> = specs.iter().filter_map(|spec| spec.share).collect();
        if shares.is_empty() {
            return match self.posts {
                None => Ok(Order::Listed),
                Some(_) => {
                    Err("--posts goes with shares (@): --pages lists a visit's pages".into())
                }
            };
        }
        if shares.len() < specs.len() {
            return Err("--pages: either each page has a share (@) or none has".to_owned());
        }
        let sum: f64 = shares.iter().sum();
        if (sum - 1.0).abs() > 1e-6 {
            return Err(format!("--pages: the shares add up to {sum}, not to 1"));
        }
        match (self.posts, &self.script) {
            (Some(posts), _) => Ok(Order::Drawn(posts, shares)),
            (None, Some(_)) => Ok(Order::Drawn(1, shares)),
            (None, None) => {
                Err("--pages with shares (@): --posts says how many a visit has".into())
            }
        }
    }

    /// When visitors come; None: all within a span.
    fn coming(&self, order: &Order) -> Result<Option<Coming>, String> {
        // Separate randomness: what pages take has another.
        let mut rng = Rng::new(self.seed, 1);
        if let Some(rate) = self.rate {
            let posts = self.posts.unwrap_or(1);
            let mut at_s = 0.0;
            let times = (0..self.clients).map(|_| {
                at_s += rng.exponential(1.0 / rate);
                (Micros::from_secs_f64(at_s), posts)
            });
            return Ok(Some(Coming::At(times.collect())));
        }
        let Some(file) = &self.script else {
            return Ok(None);
        };
        let script = CrowdScript::read(file, &mut rng)?;
        let not = |what: &str| {
            let file = file.display();
            Err(format!(
                "{file}: {what} is not simulated together with --pages"
            ))
        };
        if !script.verbs.is_empty() {
            return not("kill, restart, slower, dead or sleep");
        }
        if script.visits.iter().any(|visit| visit.work_s.is_some()) {
            return not("log");
        }
        if *order == Order::Listed && script.visits.iter().any(|visit| visit.posts != 1) {
            return not(
                "posts: without shares (@) a visit's pages are those of --pages, and posts",
            );
        }
        let visits = script.visits.iter();
        Ok(Some(Coming::At(
            visits.map(|visit| (visit.at, visit.posts)).collect(),
        )))
    }
}

impl Visits {
    /// Runs it, and prints the results.
    pub fn simulate(self, options: &WhatIfOptions) -> Result<(), String> {
        let outcome = Shop::visited(self.site.clone());
        if let Some(file) = &options.json {
            return json::put(&self.json(&outcome), file);
        }
        let report = self.report(&outcome, &super::command());
        match &options.out {
            None => print!("{}", report.markdown(None)),
            Some(folder) => super::write(&report, folder)?,
        }
        Ok(())
    }

    /// How many visitors came.
    fn came(&self) -> usize {
        match &self.site.coming {
            Coming::Within(clients, _) => *clients,
            Coming::At(times) => times.len(),
        }
    }

    fn report(&self, outcome: &ShopOutcome, command: &str) -> Report {
        let mut report = Report::new("What if");
        report.table(self.pages(outcome, command));
        let mut visits = Table::new(
            "Visits, seconds",
            command,
            &["n", "mean", "median", "p99", "longest"],
        );
        for (name, seconds) in [
            ("first request to the last page", &outcome.took_s),
            ("refusal to the time on the ticket", &outcome.told_s),
        ] {
            let of = Sorted::of(seconds);
            let cells = [
                of.mean(),
                of.quantile(0.5),
                of.quantile(0.99),
                of.quantile(1.0),
            ];
            let n = std::iter::once(seconds.len().to_string());
            visits.row(name, n.chain(cells.map(|s| number(s, 2))));
        }
        report.table(visits);
        let came = self.came() as f64;
        let mut counts = Table::new("What became of them", command, &["", "share"]);
        let (gone_first, half_way) = self.gone(outcome);
        for (name, n, of) in [
            ("visitors", came, f64::NAN),
            ("had all their pages", outcome.sessions as f64, came),
            ("went before their first page", gone_first as f64, came),
            ("failed half way", half_way as f64, came),
            ("requests", outcome.requests as f64, f64::NAN),
            ("tickets", outcome.tickets as f64, f64::NAN),
            (
                "told that there is no ticket",
                outcome.untold as f64,
                outcome.requests as f64,
            ),
            ("members refused", outcome.members_refused as f64, f64::NAN),
            ("prime tickets not let in", outcome.broken as f64, f64::NAN),
        ] {
            counts.row(name, [number(n, 0), percent(n / of)]);
        }
        report.table(counts);
        report.text(&match outcome.sessions_per_s() {
            Some(rate) => format!(
                "{rate:.2} visits a second over {:.1} s.",
                outcome.done_s.unwrap_or_default()
            ),
            None => "It had not ended after a day.".to_owned(),
        });
        report.figure(self.figure(outcome), command);
        report
    }

    /// Visitors who left before their first page, and those lost midway.
    fn gone(&self, outcome: &ShopOutcome) -> (u64, u64) {
        (
            outcome.gone.saturating_sub(outcome.mid_session),
            outcome.mid_session,
        )
    }

    fn pages(&self, outcome: &ShopOutcome, command: &str) -> Table {
        let over = format!("over {} s", self.bound_s);
        let mut pages = Table::new(
            "Pages, seconds from the request to the page; with the waits of their tickets",
            command,
            &[
                "n",
                "mean",
                "p99",
                "longest",
                &over,
                "with tickets, mean",
                "longest",
                "given up",
            ],
        );
        for (at, name) in self.names.iter().enumerate() {
            let (one, all) = (
                Sorted::of(&outcome.response_s[at]),
                Sorted::of(&outcome.total_s[at]),
            );
            pages.row(
                name,
                [
                    outcome.response_s[at].len().to_string(),
                    number(one.mean(), 2),
                    number(one.quantile(0.99), 2),
                    number(one.quantile(1.0), 2),
                    percent(one.above(self.bound_s)),
                    number(all.mean(), 2),
                    number(all.quantile(1.0), 2),
                    outcome.broken_off[at].to_string(),
                ],
            );
        }
        pages
    }

    fn figure(&self, outcome: &ShopOutcome) -> Figure {
        let t = "seconds of the run";
        let step = outcome.course.len().div_ceil(POINTS).max(1);
        let over = |value: &dyn Fn(&Second) -> f64| -> Vec<Point> {
            let seen = outcome.course.iter().step_by(step);
            seen.map(|second| (second.at, value(second))).collect()
        };
        let sold = match self.site.sessions {
            Some(_) => "To start a session",
            None => "In all pages' queues",
        };
        let mut panels = vec![
            Panel::new(sold, t, "visitors")
                .line("waiting", over(&|second| f64::from(second.waiting[0])))
                .line("tickets out", over(&|second| f64::from(second.waiting[1]))),
            Panel::new("Mean queue of a page", t, "visitors")
                .line("queue", over(&|second| second.queue)),
        ];
        if self.site.sessions.is_some() {
            panels.push(
                Panel::new("Session interval", t, "s")
                    .line("interval", over(&|second| second.interval)),
            );
        }
        Figure {
            name: "what-if".to_owned(),
            alt: "The run: who waits, tickets out, queues of the pages, the session interval"
                .to_owned(),
            panels,
            alike: false,
        }
    }

    /// The results as JSON, under the names of `nap-load sessions`.
    fn json(&self, outcome: &ShopOutcome) -> Value {
        let page = |(name, (one, all)): (&String, (&Vec<f64>, &Vec<f64>))| json!({ "page": name, "response": Sorted::of(one).json(), "total": Sorted::of(all).json() });
        let times = outcome.response_s.iter().zip(&outcome.total_s);
        let (gone_first, half_way) = self.gone(outcome);
        json!({
            "throughput": { "whole": outcome.sessions_per_s() },
            "sessions": { "completed": outcome.sessions, "gone_first": gone_first },
            "mid_session_failures": half_way,
            "completion": Sorted::of(&outcome.took_s).json(),
            "pages": self.names.iter().zip(times).map(page).collect::<Vec<Value>>(),
            "requests": outcome.requests,
            "tickets": { "issued": outcome.tickets },
            "wait_told": Sorted::of(&outcome.told_s).json(),
            "refusals": { "without_ticket": outcome.untold },
            "promises": { "broken": outcome.broken, "members_refused": outcome.members_refused },
        })
    }
}

/// Seconds in ascending order.
struct Sorted(Vec<f64>);

impl Sorted {
    fn of(seconds: &[f64]) -> Sorted {
        let mut sorted = seconds.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        Sorted(sorted)
    }

    fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    /// By nearest rank.
    fn quantile(&self, p: f64) -> f64 {
        let rank = (p * self.0.len() as f64 - 1e-9).ceil().max(1.0) as usize;
        self.0.get(rank - 1).copied().unwrap_or(0.0)
    }

    fn above(&self, x: f64) -> f64 {
        let above = self.0.len() - self.0.partition_point(|y| *y <= x);
        above as f64 / self.0.len().max(1) as f64
    }

    fn json(&self) -> Value {
        json!({
            "count": self.0.len(),
            "mean": self.mean(),
            "median": self.quantile(0.5),
            "p95": self.quantile(0.95),
            "p99": self.quantile(0.99),
            "max": self.quantile(1.0),
        })
    }
}

#[cfg(test)]
mod tests;

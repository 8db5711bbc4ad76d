//! `/bwshare-info` and `/bwshare-trace`: what all clients owe together, and a row for each.

use std::fmt::Display;
use std::net::{IpAddr, Ipv6Addr};

use askama::Template;

use super::line::line;
use super::report::Clock;
use crate::wall::Wall;
use nap_core::bwshare::SECOND_NS;
use nap_core::bwshare::limits::{Debt, DebtAnswer, Lane, Limits, Rule, as_set};
use nap_core::bwshare::service::Service;
use nap_core::bwshare::table::DebtCounts;
use nap_core::bwshare::till::limit::Limit;
use nap_core::bwshare::till::reading::{DebtRow, Totals};
use nap_core::bwshare::till::{Books, Till};
use nap_core::bwshare::trace::TraceRow;
use nap_core::micros::Micros;

/// Rows of a page of the trace.
const PAGE: usize = 100;

/// A form of either page: its media type and itself.
pub type Rendering = (&'static str, String);

line! {
    /// One set of limits; `shares`: the share of requests that is to be inside each horizon.
    pub struct LimitLine of(host: &str, scope: u32, limits: &Limits, shares: [f64; 3]) {
        /// The virtual host it holds for; empty: the server.
        host: String = host.to_owned(),
        #[serde(skip)]
        scope: u32 = scope,
        rule: &'static str = match limits.rule {
            Rule::Exact => "exact",
            Rule::Literal => "literal",
        },
        files_max: f64 = as_set(limits.files.max()),
        files_per_s: f64 = as_set(limits.files.rate()),
        bytes_max: f64 = as_set(limits.bytes.max()),
        bytes_per_s: f64 = as_set(limits.bytes.rate()),
        refused_charge: f64 = limits.refused,
        /// `BwShareLink`; None: the horizons are not steered.
        link_bytes_per_s: Option<f64> = None,
        horizons: Vec<HorizonLine> = (limits.horizons.lanes().iter().zip(shares))
            .map(|(lane, wanted)| HorizonLine::of(lane, limits.horizons.windows(), wanted))
            .collect(),
    }
}

line! {
    /// A limit over a horizon.
    pub struct HorizonLine of(lane: &Lane, windows: f64, wanted_share: f64) {
        bytes_per_s: f64 = as_set(windows * lane.rate()),
        period_s: f64 = as_set(lane.max() / lane.rate()),
        wanted_share: f64 = wanted_share,
        /// What the rate is steered to, bytes a second.
        steered_to: f64 = bytes_per_s,
        /// The share of the last hour's tests at which the line was enough; None: none was made.
        achieved_share: Option<f64> = None,
    }
}

line! {
    /// What all clients owe together.
    #[derive(Template)]
    #[template(path = "bwshare-info.html")]
    pub struct DebtReport of(totals: &Totals, limits: Vec<LimitLine>, wall: Wall) {
        version: &'static str = env!("CARGO_PKG_VERSION"),
        time: String = wall.stamp().to_string(),
        limits: Vec<LimitLine> = limits,
        requests: u64 = totals.counts.requests,
        bytes: u64 = totals.counts.bytes,
        refused: Vec<(&'static str, u64)> =
            (Debt::ALL.iter().zip(totals.counts.refused)).map(|((_, name), n)| (*name, n)).collect(),
        refused_in_all: u64 = totals.counts.refused.into_iter().fold(0, u64::saturating_add),
        would_be_refused: u64 = totals.counts.dry,
        excused: u64 = totals.counts.excused,
        clients_in_debt: usize = totals.in_debt,
        clients_capacity: usize = totals.clients,
        debts_lost: u64 = totals.counts.evicted,
        trace_rows: usize = totals.rows,
        trace_rows_missed: u64 = totals.hidden,
        /// Of the requests inside all longer horizons, the share inside this one; shortest first.
        horizon_shares: Vec<Option<f64>> = horizon_shares(&totals.counts, &limits),
    }
}

fn horizon_shares(counts: &DebtCounts, limits: &[LimitLine]) -> Vec<Option<f64>> {
    let horizons = limits.iter().map(|line| line.horizons.len()).max();
    let shares = counts.eligible.iter().zip(counts.entitled);
    shares
        .map(|(&of, n)| (of > 0).then(|| n as f64 / of as f64))
        .take(horizons.unwrap_or(0))
        .collect()
}

line! {
    /// A client of the trace.
    pub(crate) struct TraceLine of(one: &DebtRow, host: String, clock: Clock) {
        client: String = written(&one.row),
        /// What DNS calls it; empty: not asked for, or it has none.
        #[serde(skip_serializing_if = "String::is_empty")]
        name: String = String::new(),
        /// None: it is more than one address.
        #[serde(skip)]
        address: Option<[u8; 16]> = (one.row.bits == 128).then_some(one.row.address),
        host: String = host,
        files: u64 = one.row.files,
        bytes: u64 = one.row.bytes,
        file_debt: f64 = rounded(one.owing.files),
        file_debt_max: f64 = rounded(one.max[0]),
        byte_debt: f64 = rounded(one.owing.bytes),
        byte_debt_max: f64 = rounded(one.max[1]),
        #[serde(skip)]
        last_ns: u64 = one.row.last_ns,
        #[serde(skip)]
        first_ns: u64 = one.row.first_ns,
        // A client that came once has no average over time: its bytes in that second.
        bytes_per_s: f64 = rounded(bytes as f64 / seconds(last_ns.saturating_sub(first_ns)).max(1.0)),
        refused: u64 = one.row.refused,
        over_limit: bool = one.owing.answer != DebtAnswer::Pass,
        /// Why it is refused; empty: it is not.
        reason: &'static str = one.owing.answer.debt().map_or("", Debt::name),
        wait_s: f64 = seconds(one.owing.answer.wait_ns()),
        first_seen: String = clock.stamp(micros(first_ns)),
        last_seen: String = clock.stamp(micros(last_ns)),
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / SECOND_NS as f64
}

fn micros(ns: u64) -> Micros {
    Micros(ns / 1000)
}

/// What a column of the CSV form shows of a client.
type Cell = fn(&TraceLine) -> &dyn Display;

/// The columns by name. No field can hold a comma or a quote.
const CSV: [(&str, Cell); 16] = [
    ("client", |line| &line.client),
    ("host", |line| &line.host),
    ("files", |line| &line.files),
    ("bytes", |line| &line.bytes),
    ("file_debt", |line| &line.file_debt),
    ("file_debt_max", |line| &line.file_debt_max),
    ("byte_debt", |line| &line.byte_debt),
    ("byte_debt_max", |line| &line.byte_debt_max),
    ("bytes_per_s", |line| &line.bytes_per_s),
    ("refused", |line| &line.refused),
    ("over_limit", |line| &line.over_limit),
    ("wait_s", |line| &line.wait_s),
    ("first_seen", |line| &line.first_seen),
    ("last_seen", |line| &line.last_seen),
    ("name", |line| &line.name),
    ("reason", |line| &line.reason),
];

/// What the administrator wants to see of the trace.
#[derive(Clone, Debug)]
pub(crate) struct TraceQuery {
    form: TraceForm,
    sort: &'static Column,
    /// Only clients whose address contains this.
    filter: String,
    /// From 1.
    page: usize,
    /// Are names to be looked up?
    names: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TraceForm {
    Html,
    Json,
    Csv,
}

/// A column of the trace that it can be sorted by, the largest first.
#[derive(Debug)]
struct Column {
    /// In the query.
    name: &'static str,
    title: &'static str,
    value: fn(&TraceLine) -> f64,
}

static COLUMNS: [Column; 9] = [
    Column::new("wait", "Has to wait", |line| line.wait_s),
    Column::new("files", "Files", |line| line.files as f64),
    Column::new("bytes", "Bytes", |line| line.bytes as f64),
    Column::new("file_debt", "File debt", |line| line.file_debt),
    Column::new("byte_debt", "Byte debt", |line| line.byte_debt),
    Column::new("bandwidth", "A second", |line| line.bytes_per_s),
    Column::new("refused", "Refused", |line| line.refused as f64),
    Column::new("first", "First seen", |line| line.first_ns as f64),
    Column::new("last", "Last seen", |line| line.last_ns as f64),
];

impl Column {
    const fn new(name: &'static str, title: &'static str, value: fn(&TraceLine) -> f64) -> Column {
        Column { name, title, value }
    }
}

line! {
    /// A row for each client; `lines`: of all that the query wants.
    #[derive(Template)]
    #[template(path = "bwshare-trace.html")]
    pub(crate) struct TraceReport of(lines: Vec<TraceLine>, wall: Wall, query: TraceQuery) {
        version: &'static str = env!("CARGO_PKG_VERSION"),
        time: String = wall.stamp().to_string(),
        clients: usize = lines.len(),
        over_limit: usize = lines.iter().filter(|line| line.over_limit).count(),
        page: usize = query.page.min(pages_of(clients)),
        pages: usize = pages_of(clients),
        rows: Vec<TraceLine> = match query.form {
            TraceForm::Html => lines.into_iter().skip((page - 1) * PAGE).take(PAGE).collect(),
            _ => lines,
        },
        #[serde(skip)]
        query: TraceQuery = query,
    }
}

fn pages_of(clients: usize) -> usize {
    clients.div_ceil(PAGE).max(1)
}

const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";

impl LimitLine {
    /// All limits in force.
    pub fn all(till: &Till<impl Books>, now_ns: u64) -> Vec<LimitLine> {
        let line = |limit: &Limit| {
            let mut line = LimitLine::of(&limit.host, limit.scope, &limit.limits[0], limit.shares);
            if let Some((link, service)) = till.served(limit, now_ns) {
                line.serve(link, &service);
            }
            line
        };
        till.limits.iter().map(line).collect()
    }

    /// ... steered by a line of so many bytes a second, and how well they are served.
    pub fn serve(&mut self, link: f64, service: &Service) {
        self.link_bytes_per_s = Some(link);
        let lines = self.horizons.iter_mut().zip(service.factors()).enumerate();
        for (i, (line, factor)) in lines {
            line.steered_to = line.bytes_per_s * factor;
            line.achieved_share = service.share(i);
        }
    }
}

impl DebtReport {
    fn share_of_requests(&self, horizon: &usize) -> String {
        percent(&self.horizon_shares.get(*horizon).copied().flatten())
    }

    /// As the query wants it: a page or JSON.
    pub(crate) fn render(&self, query: &TraceQuery) -> Rendering {
        match query.form {
            TraceForm::Html => (HTML, Template::render(self).unwrap_or_default()),
            _ => (JSON, serde_json::to_string(self).unwrap_or_default()),
        }
    }
}

impl TraceQuery {
    /// From the URL's query: `json`, `csv`, `sort=`, `client=`, `page=`; what is unknown is ignored.
    pub fn parse(args: &str) -> TraceQuery {
        let mut query = TraceQuery {
            form: TraceForm::Html,
            sort: &COLUMNS[0],
            filter: String::new(),
            page: 1,
            names: false,
        };
        for (name, value) in form_urlencoded::parse(args.as_bytes()) {
            match name.as_ref() {
                "json" => query.form = TraceForm::Json,
                "names" => query.names = true,
                "csv" => query.form = TraceForm::Csv,
                "client" => query.filter = value.trim().to_ascii_lowercase(),
                "page" => query.page = value.parse().unwrap_or(1).max(1),
                "sort" => {
                    let known = COLUMNS.iter().find(|column| column.name == value);
                    query.sort = known.unwrap_or(query.sort);
                }
                _ => {}
            }
        }
        query
    }

    /// The same query with names.
    fn named(&self) -> String {
        let named = TraceQuery {
            names: true,
            ..self.clone()
        };
        named.link(self.sort.name, self.page)
    }

    /// The same query for another page, sorted by another column.
    fn link(&self, sort: &str, page: usize) -> String {
        let mut to = form_urlencoded::Serializer::new(String::new());
        to.append_pair("sort", sort);
        if !self.filter.is_empty() {
            to.append_pair("client", &self.filter);
        }
        if page > 1 {
            to.append_pair("page", &page.to_string());
        }
        if self.names {
            to.append_key_only("names");
        }
        format!("?{}", to.finish())
    }
}

impl TraceReport {
    /// The rows a query wants.
    pub fn of_rows(
        rows: Vec<DebtRow>,
        limits: Vec<LimitLine>,
        wall: Wall,
        query: TraceQuery,
    ) -> TraceReport {
        let host = |row: &TraceRow| {
            let own = limits.iter().find(|line| line.scope == row.scope);
            own.map_or(String::new(), |line| line.host.clone())
        };
        let line = |row: &DebtRow| {
            let now = micros(row.now_ns);
            TraceLine::of(row, host(&row.row), Clock { now, wall })
        };
        let mut lines: Vec<_> = (rows.iter().map(line))
            .filter(|line| line.client.contains(&query.filter))
            .collect();
        lines.sort_by(|a, b| {
            let value = query.sort.value;
            value(b)
                .total_cmp(&value(a))
                .then(b.last_ns.cmp(&a.last_ns))
        });
        TraceReport::of(lines, wall, query)
    }

    /// The time of a stamp, with its date if that is not today's.
    fn when<'s>(&self, stamp: &'s str) -> &'s str {
        let today = stamp.get(..10) == self.time.get(..10);
        stamp
            .get(if today { 11..19 } else { 0..19 })
            .unwrap_or(stamp)
    }

    fn has_hosts(&self) -> bool {
        self.rows.iter().any(|line| !line.host.is_empty())
    }

    /// Look up the names of the rows there are, if the query wants them.
    pub fn name(&mut self, mut name_of: impl FnMut([u8; 16]) -> Option<String>) {
        for line in self.rows.iter_mut().filter(|_| self.query.names) {
            line.name = line.address.and_then(&mut name_of).unwrap_or_default();
        }
    }

    /// As the query wants it; JSON and CSV have all rows.
    pub fn render(&self) -> Rendering {
        match self.query.form {
            TraceForm::Html => (HTML, Template::render(self).unwrap_or_default()),
            TraceForm::Json => (JSON, serde_json::to_string(self).unwrap_or_default()),
            TraceForm::Csv => ("text/csv; charset=utf-8", self.csv()),
        }
    }

    fn csv(&self) -> String {
        let cells = |line| CSV.map(|(_, cell)| cell(line).to_string()).join(",");
        let lines = self.rows.iter().map(cells);
        let head = CSV.map(|(name, _)| name).join(",");
        let text = std::iter::once(head).chain(lines).map(|line| line + "\r\n");
        text.collect()
    }
}

/// `192.0.2.1`, `192.0.2.0/24`, `2001:db8:1:2::/64`.
fn written(row: &TraceRow) -> String {
    let address = Ipv6Addr::from(row.address);
    let (address, bits, all) = match address.to_ipv4_mapped() {
        Some(v4) => (IpAddr::V4(v4), row.bits.saturating_sub(96), 32),
        None => (IpAddr::V6(address), row.bits, 128),
    };
    match bits < all {
        true => format!("{address}/{bits}"),
        false => address.to_string(),
    }
}

/// A number of bytes with a unit, for people.
fn size(bytes: &f64) -> String {
    match *bytes {
        b if b < 1e3 => format!("{b:.0} B"),
        b if b < 1e6 => format!("{:.1} kB", b / 1e3),
        b if b < 1e9 => format!("{:.1} MB", b / 1e6),
        b => format!("{:.1} GB", b / 1e9),
    }
}

fn size_of_all(bytes: &u64) -> String {
    size(&(*bytes as f64))
}

fn percent(share: &Option<f64>) -> String {
    share.map_or("–".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

fn rounded(x: f64) -> f64 {
    (x * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests;

//! `nap-load pollers`: clients who poll as they are told, and the rate at which they come.
//!
//! Each asks again when the answer says: after `TelePoll-Interval`, otherwise `Retry-After`. With `--status`
//! they hold tickets: the URL refuses each one, which then asks that path where it stands, as the ticket page
//! does, and comes when told to. Each poll has its own connection, as polls are further apart than a server
//! keeps one open.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

use clap::{CommandFactory, Parser, error::ErrorKind};
use nap_core::micros::Micros;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use crate::args::{positive_time, time};
use crate::clock::{Clock, span};
use crate::output::{self, Findings};
use crate::page::attribute;
use crate::plan::Target;
use crate::wire::connect;

/// Clients who poll a URL as they are told, and the rate at which they come (TelePolling).
///
/// A levelled URL:   nap-load pollers -c 2000 http://127.0.0.1:8080/score
/// Ticket holders:   nap-load pollers -c 2000 --status /nap-ticket/status http://127.0.0.1:8080/shop
#[derive(Parser, Debug)]
#[command(
    name = "nap-load pollers",
    version,
    max_term_width = 100,
    verbatim_doc_comment
)]
struct PollersArgs {
    /// What to poll: http://host[:port]/path[?query]
    url: String,
    /// Number of clients
    #[arg(short, long, value_name = "N", default_value_t = 2000,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: u32,
    /// Time over which their first polls are spread evenly
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    begin: Micros,
    /// How long clients poll
    #[arg(long, value_name = "TIME", default_value = "2min", value_parser = positive_time)]
    duration: Micros,
    /// Time from which rates are judged: after the first period
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = time)]
    skip: Micros,
    /// Clients hold tickets of the URL, and ask this path where they stand
    #[arg(long, value_name = "PATH")]
    status: Option<String>,
    /// Send polls as POST with this body
    #[arg(long, value_name = "TEXT", conflicts_with = "status")]
    post: Option<String>,
    /// Give up a poll after this time
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = positive_time)]
    timeout: Micros,
    /// Wait after a poll that failed, or whose answer gives no time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = positive_time)]
    retry: Micros,
    /// Allow a target that is not this machine
    #[arg(long)]
    allow_remote: bool,
    /// Write the report as JSON (- for stdout instead of the table)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write one row per request: its time, client, kind, status, seconds until its answer, seconds it was
    /// told to wait, seconds until its ticket begins
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// Everything after the program's name, `pollers` first.
pub fn main(words: impl Iterator<Item = OsString>) -> ExitCode {
    let args = PollersArgs::parse_from(words);
    match Target::parse(&args.url, args.allow_remote) {
        Ok(target) => {
            let (json, csv) = (args.json.clone(), args.csv.clone());
            output::end(output::write(json, csv, |rows| run(args, target, rows)))
        }
        Err(error) => PollersArgs::command()
            .error(ErrorKind::ValueValidation, error)
            .exit(),
    }
}

struct PollersWorld {
    args: PollersArgs,
    target: Target,
    clock: Clock,
    book: RefCell<PollersBook>,
}

fn run(
    args: PollersArgs,
    target: Target,
    csv: Option<Box<dyn Write>>,
) -> io::Result<(PollersReport, io::Result<()>)> {
    crate::on_runtime(async |signals| {
        let world = Rc::new(PollersWorld {
            args,
            target,
            clock: Clock::begin(),
            book: RefCell::new(PollersBook::new(csv)),
        });
        let mut clients = JoinSet::new();
        let n = u64::from(world.args.clients);
        for number in 0..world.args.clients {
            let start = Micros(world.args.begin.0.saturating_mul(u64::from(number)) / n);
            clients.spawn_local(live(world.clone(), number, start));
        }
        tokio::select! {
            () = async { while clients.join_next().await.is_some() {} } => {}
            () = tokio::time::sleep(span(world.args.duration)) => {}
            () = crate::interrupted(signals) => {}
        }
        let ended = world.clock.now();
        // Clients that still wait are dropped.
        clients.shutdown().await;
        let mut book = world.book.replace(PollersBook::new(None));
        let written = book.flush();
        (PollersReport::new(&world.args, &book, ended), written)
    })
}

/// What a request was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A poll of the URL, or of a ticket's standing.
    Poll,
    /// The page itself, with or without a ticket.
    Page,
}

/// An answer.
struct PollReply {
    status: u16,
    head: String,
    body: String,
}

impl PollReply {
    fn header(&self, name: &str) -> Option<&str> {
        let line = |line: &'_ str| -> Option<(usize, bool)> {
            let (key, _) = line.split_once(':')?;
            Some((key.len() + 1, key.eq_ignore_ascii_case(name)))
        };
        self.head.lines().find_map(|one| match line(one) {
            Some((value, true)) => Some(one[value..].trim()),
            _ => None,
        })
    }

    /// How long the answer says to wait.
    fn wait(&self) -> Option<Micros> {
        let told = self
            .header("TelePoll-Interval")
            .or(self.header("Retry-After"))?;
        seconds(told.parse().ok()?)
    }

    /// When a ticket's page asks first.
    fn first_ask(&self) -> Option<Micros> {
        let ms = attribute(&self.body, "data-ask-ms")?;
        seconds(ms.parse::<f64>().ok()? / 1000.0)
    }
}

fn seconds(s: f64) -> Option<Micros> {
    (0.0..=30.0 * 86400.0)
        .contains(&s)
        .then(|| Micros::from_secs_f64(s))
}

async fn live(world: Rc<PollersWorld>, number: u32, start: Micros) {
    pause(&world, start).await;
    match world.args.status.is_some() {
        true => hold(&world, number).await,
        false => poll(&world, number).await,
    }
}

async fn poll(world: &PollersWorld, number: u32) {
    let path = world.target.uri(false).to_string();
    let (method, body) = match &world.args.post {
        Some(text) => ("POST", text.as_str()),
        None => ("GET", ""),
    };
    loop {
        let asked = world.clock.now();
        let reply = ask(world, number, method, &path, "", body).await;
        let told = reply.as_ref().and_then(PollReply::wait);
        let heard = world.note(number, Kind::Poll, asked, reply.as_ref(), told, None);
        pause(world, heard + told.unwrap_or(world.args.retry)).await;
    }
}

/// Waits for the page with a ticket, as the ticket page does.
async fn hold(world: &PollersWorld, number: u32) {
    let page = world.target.uri(false).to_string();
    let status = world.args.status.clone().unwrap_or_default();
    let mut ticket = String::new();
    loop {
        let asked = world.clock.now();
        let reply = ask(world, number, "GET", &page, &ticket, "").await;
        let told = reply
            .as_ref()
            .and_then(|reply| reply.first_ask().or(reply.wait()));
        let heard = world.note(number, Kind::Page, asked, reply.as_ref(), told, None);
        let Some(reply) = reply else {
            pause(world, heard + world.args.retry).await;
            continue;
        };
        if reply.status < 400 {
            return;
        }
        if let Some(new) = reply.header("Nap-Ticket") {
            ticket = new.to_owned();
        }
        pause(world, heard + told.unwrap_or(world.args.retry)).await;
        while !ticket.is_empty() && !is_to_come(world, number, &status, &ticket).await {}
    }
}

/// Asks once, and waits as long as it is told to; true: the client is to come.
async fn is_to_come(world: &PollersWorld, number: u32, status: &str, ticket: &str) -> bool {
    let asked = world.clock.now();
    let reply = ask(world, number, "GET", status, ticket, "").await;
    let json = reply
        .as_ref()
        .and_then(|reply| serde_json::from_str::<serde_json::Value>(&reply.body).ok());
    let span_of = |name: &str| seconds(json.as_ref()?.get(name)?.as_f64()?);
    let (told, from) = (span_of("ask"), span_of("from"));
    let heard = world.note(number, Kind::Poll, asked, reply.as_ref(), told, from);
    match (&json, told) {
        (None, _) => pause(world, heard + world.args.retry).await,
        (Some(_), Some(told)) => pause(world, heard + told).await,
        (Some(_), None) => return true,
    }
    false
}

/// Waits until a point of the run.
async fn pause(world: &PollersWorld, until: Micros) {
    let left = until - world.clock.now();
    if left > Micros::ZERO {
        tokio::time::sleep(span(left)).await;
        let late = world.clock.now() - until;
        let mut book = world.book.borrow_mut();
        book.late = book.late.max(late);
    }
}

/// Sends a request; None: no answer.
async fn ask(
    world: &PollersWorld,
    number: u32,
    method: &str,
    path: &str,
    ticket: &str,
    body: &str,
) -> Option<PollReply> {
    let host = world.target.whole.authority().map_or("", |a| a.as_str());
    let mut request =
        format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: nap-load-pollers\r\n");
    if !ticket.is_empty() {
        let _ = write!(request, "Nap-Ticket: {ticket}\r\n");
    }
    if !body.is_empty() {
        let _ = write!(
            request,
            "Content-Type: text/plain\r\nContent-Length: {}\r\n",
            body.len()
        );
    }
    let _ = write!(request, "Connection: close\r\n\r\n{body}");
    // Tickets are limited for each client, so each has its own address.
    let own = [
        127,
        1 + (number >> 16) as u8,
        (number >> 8) as u8,
        number as u8,
    ];
    let source = world.target.address.ip().is_loopback() && world.target.address.is_ipv4();
    let source = (source && own[3] != 0).then(|| Ipv4Addr::from(own));
    let exchange = async {
        let mut stream = connect(world.target.address, source, None).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::with_capacity(4096);
        stream.read_to_end(&mut answer).await?;
        Ok::<_, io::Error>(answer)
    };
    let answer = tokio::time::timeout(span(world.args.timeout), exchange).await;
    let text = String::from_utf8(answer.ok()?.ok()?).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some(PollReply {
        status: head.get(9..12)?.parse().ok()?,
        head: head.to_owned(),
        body: body.to_owned(),
    })
}

impl PollersWorld {
    /// Records a request, and returns when its answer came.
    fn note(
        &self,
        client: u32,
        kind: Kind,
        asked: Micros,
        reply: Option<&PollReply>,
        told: Option<Micros>,
        from: Option<Micros>,
    ) -> Micros {
        let heard = self.clock.now();
        let status = reply.map_or(0, |reply| reply.status);
        let mut book = self.book.borrow_mut();
        *book.statuses.entry((kind, status)).or_default() += 1;
        if kind == Kind::Poll {
            book.polls.push(asked);
        }
        if kind == Kind::Page && (200..400).contains(&status) {
            book.served.push(heard);
        }
        book.slowest = book.slowest.max(heard - asked);
        book.row(format_args!(
            "{:.6},{client},{},{status},{:.6},{},{}\n",
            asked.as_secs_f64(),
            kind.name(),
            (heard - asked).as_secs_f64(),
            told.map_or(String::new(), |told| told.as_secs_f64().to_string()),
            from.map_or(String::new(), |from| from.as_secs_f64().to_string()),
        ));
        heard
    }
}

impl Kind {
    fn name(self) -> &'static str {
        ["poll", "page"][self as usize]
    }
}

/// What the clients saw.
struct PollersBook {
    polls: Vec<Micros>,
    served: Vec<Micros>,
    statuses: BTreeMap<(Kind, u16), u64>,
    slowest: Micros,
    late: Micros,
    csv: Option<Box<dyn Write>>,
    written: io::Result<()>,
}

impl PollersBook {
    fn new(csv: Option<Box<dyn Write>>) -> PollersBook {
        let mut book = PollersBook {
            polls: Vec::new(),
            served: Vec::new(),
            statuses: BTreeMap::new(),
            slowest: Micros::ZERO,
            late: Micros::ZERO,
            csv,
            written: Ok(()),
        };
        book.row(format_args!("at,client,what,status,took,told,from\n"));
        book
    }

    fn row(&mut self, row: std::fmt::Arguments<'_>) {
        if let (Some(csv), Ok(())) = (&mut self.csv, &self.written) {
            self.written = csv.write_fmt(row);
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        std::mem::replace(&mut self.written, Ok(()))?;
        self.csv.as_mut().map_or(Ok(()), |csv| csv.flush())
    }
}

/// The run in numbers.
#[derive(Debug, Serialize)]
struct PollersReport {
    clients: u32,
    seconds: f64,
    polls: usize,
    /// Polls in each second of the run.
    each_second: Vec<u32>,
    /// Mean of the whole seconds from `skip` on.
    mean: f64,
    /// The most in any whole second, and the most a second in any five from such a second on.
    most_in_1s: f64,
    most_in_5s: f64,
    /// Clients that have had their page.
    served: usize,
    /// The same in each second of the run.
    served_each_second: Vec<u32>,
    /// Number of answers, by what was asked for; status 0 is no answer.
    answers: BTreeMap<String, u64>,
    /// The longest that an answer took, and how late we woke ourselves, in seconds.
    slowest: f64,
    woke_late: f64,
}

impl PollersReport {
    fn new(args: &PollersArgs, book: &PollersBook, ended: Micros) -> PollersReport {
        let each_second = seconds_of(&book.polls, ended);
        let judged = each_second
            .get(args.skip.secs_ceil() as usize..)
            .unwrap_or(&[]);
        PollersReport {
            clients: args.clients,
            seconds: ended.as_secs_f64(),
            polls: book.polls.len(),
            mean: judged.iter().sum::<u32>() as f64 / judged.len().max(1) as f64,
            most_in_1s: most(judged, 1),
            most_in_5s: most(judged, 5),
            each_second,
            served: book.served.len(),
            served_each_second: seconds_of(&book.served, ended),
            answers: (book.statuses.iter())
                .map(|((kind, status), n)| (format!("{} {status}", kind.name()), *n))
                .collect(),
            slowest: book.slowest.as_secs_f64(),
            woke_late: book.late.as_secs_f64(),
        }
    }
}

/// How many times fall in each whole second.
fn seconds_of(times: &[Micros], ended: Micros) -> Vec<u32> {
    let mut each = vec![0; ended.secs_floor() as usize];
    for at in times {
        if let Some(second) = each.get_mut(at.secs_floor() as usize) {
            *second += 1;
        }
    }
    each
}

/// The most in this many seconds, as a number a second.
fn most(each_second: &[u32], seconds: usize) -> f64 {
    let sums = each_second
        .windows(seconds)
        .map(|window| window.iter().sum::<u32>());
    f64::from(sums.max().unwrap_or(0)) / seconds as f64
}

impl Findings for PollersReport {
    fn table(&self) -> String {
        let mut text = String::from("second  polls  in 5 s, a second  served\n");
        for (second, polls) in self.each_second.iter().enumerate() {
            let five = self.each_second.get(second..second + 5);
            let _ = writeln!(
                text,
                "{second:6} {polls:6} {:>17} {:7}",
                five.map_or(String::new(), |five| format!("{:.1}", most(five, 5))),
                self.served_each_second.get(second).copied().unwrap_or(0)
            );
        }
        let _ = writeln!(
            text,
            "\n{} clients, {} polls in {:.0} s; a second {:.1} in the mean, at most {:.0} in one and \
             {:.1} in five\n{} served; slowest answer {:.3} s, woke {:.3} s late at most\n{:?}",
            self.clients,
            self.polls,
            self.seconds,
            self.mean,
            self.most_in_1s,
            self.most_in_5s,
            self.served,
            self.slowest,
            self.woke_late,
            self.answers,
        );
        text
    }

    fn fruitful(&self) -> bool {
        let good = |answer: &str| answer.ends_with(" 200") || answer.ends_with(" 204");
        self.answers.keys().any(|answer| good(answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        PollersArgs::command().debug_assert();
    }

    #[test]
    fn an_answer_says_when_to_ask_again() {
        let reply = |head: &str, body: &str| PollReply {
            status: 200,
            head: format!("HTTP/1.1 200 OK\r\n{head}"),
            body: body.to_owned(),
        };
        let wait = |head| reply(head, "").wait();
        assert_eq!(wait("retry-after: 3"), Some(Micros::from_secs(3)));
        assert_eq!(
            wait("Retry-After: 3\r\nTelePoll-Interval: 2.250"),
            Some(Micros::from_millis(2250))
        );
        assert_eq!(wait("Retry-After: later"), None);
        let page = reply("", "<main id=\"nap\" data-ask-ms=\"1500\">");
        assert_eq!(page.first_ask(), Some(Micros::from_millis(1500)));
    }

    #[test]
    fn a_rate_is_of_whole_seconds() {
        let times = [0, 100, 1_100, 1_200, 1_300, 5_900, 6_100].map(Micros::from_millis);
        let each = seconds_of(&times, Micros::from_millis(6_500));
        assert_eq!(each, [2, 3, 0, 0, 0, 1]);
        assert_eq!((most(&each, 1), most(&each, 5)), (3.0, 1.0));
        assert_eq!(most(&[], 5), 0.0);
    }
}

//! [`SessionsBook`]: what became of sessions and of each page's tries.
//!
//! The run shows where tries fail: before the session began, at its first page, or within it. The crowd's
//! [`Tally`](crate::tally::Tally) says how good tickets of the first page were.

use std::io::{self, Write};

use nap_core::micros::Micros;
use serde::Serialize;

use crate::ticket::{Group, Reason, Ticket};
use crate::wire::Fault;

/// One try, after its answer.
pub struct SessionsTry<'a> {
    pub client: u32,
    /// Number of the client's session, from 0.
    pub session: u32,
    /// Index of the page.
    pub page: usize,
    /// Number of the try within the session, from 1.
    pub number: u32,
    /// When it began, a point of the run.
    pub at: Micros,
    /// Time until its answer was read, connecting included.
    pub response: Micros,
    pub group: Group,
    /// 0: no answer.
    pub status: u16,
    pub fate: Fate,
    /// The ticket held after the answer.
    pub ticket: Option<&'a Ticket>,
}

/// The result of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Served,
    /// Refused with a ticket.
    Ticket(Reason),
    /// Refused without one.
    Refused(Reason),
    /// The client's patience was over.
    Timeout,
    /// No answer, or one that was an error (5xx).
    Error(Option<Fault>),
    /// The application does not know the session, or not the page (4xx).
    Lost,
}

impl Fate {
    fn name(self) -> &'static str {
        match self {
            Fate::Served => "served",
            Fate::Ticket(reason) | Fate::Refused(reason) => reason.name(),
            Fate::Timeout => Fault::Timeout.name(),
            Fate::Error(Some(fault)) => fault.name(),
            Fate::Error(None) => "error",
            Fate::Lost => "lost",
        }
    }
}

/// How tries of one page failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Failures {
    /// Refused with a ticket.
    pub tickets: u64,
    /// Refused without one.
    pub refused: u64,
    pub timeouts: u64,
    pub errors: u64,
    /// The application no longer knew the session.
    pub lost: u64,
}

impl Failures {
    pub fn sum(&self) -> u64 {
        self.tickets + self.refused + self.timeouts + self.errors + self.lost
    }
}

/// One page's tries.
#[derive(Default)]
pub struct PageBook {
    pub tries: u64,
    /// Response times of the served tries, in seconds.
    pub served: Vec<f64>,
    pub failures: Failures,
}

/// A session that came to its end.
pub struct Completion {
    /// When, a point of the run.
    pub done: Micros,
    /// Time since its first try at page 1.
    pub took: Micros,
    /// How often it went back.
    pub restarts: u32,
}

/// The record of a run.
pub struct SessionsBook {
    pub pages: Vec<PageBook>,
    pub started: u64,
    pub completed: Vec<Completion>,
    /// Given up: the first page does not exist (4xx).
    pub failed: u64,
    csv: Option<Box<dyn Write>>,
    /// The first error in writing the CSV; later rows are not tried.
    csv_error: Option<io::Error>,
}

impl SessionsBook {
    pub fn new(pages: usize, mut csv: Option<Box<dyn Write>>) -> Self {
        let head = "t,client,session,page,try,status,reason,response_s,group,ticket,from";
        let csv_error = csv.as_mut().and_then(|csv| writeln!(csv, "{head}").err());
        SessionsBook {
            pages: std::iter::repeat_with(PageBook::default)
                .take(pages)
                .collect(),
            started: 0,
            completed: Vec::new(),
            failed: 0,
            csv,
            csv_error,
        }
    }

    /// Record a try.
    pub fn enter(&mut self, a: &SessionsTry<'_>) {
        if let Some(page) = self.pages.get_mut(a.page) {
            page.tries += 1;
            let failures = &mut page.failures;
            match a.fate {
                Fate::Served => page.served.push(a.response.as_secs_f64()),
                Fate::Ticket(_) => failures.tickets += 1,
                Fate::Refused(_) => failures.refused += 1,
                Fate::Timeout => failures.timeouts += 1,
                Fate::Error(_) => failures.errors += 1,
                Fate::Lost => failures.lost += 1,
            }
        }
        if self.csv_error.is_none() {
            self.csv_error = self.write_row(a).err();
        }
    }

    fn write_row(&mut self, a: &SessionsTry<'_>) -> io::Result<()> {
        let Some(csv) = &mut self.csv else {
            return Ok(());
        };
        write!(
            csv,
            "{:.6},{},{},{},{},{},{},{:.6},{},",
            a.at.as_secs_f64(),
            a.client,
            a.session,
            a.page + 1,
            a.number,
            a.status,
            a.fate.name(),
            a.response.as_secs_f64(),
            a.group.name(),
        )?;
        match a.ticket {
            Some(ticket) => writeln!(csv, "{},{:.3}", ticket.id, ticket.window.from.as_secs_f64()),
            None => writeln!(csv, ","),
        }
    }

    /// Write out what is still buffered.
    pub fn flush(&mut self) -> io::Result<()> {
        match (self.csv_error.take(), &mut self.csv) {
            (Some(error), _) => Err(error),
            (None, Some(csv)) => csv.flush(),
            (None, None) => Ok(()),
        }
    }
}

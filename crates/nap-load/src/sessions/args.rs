//! [`SessionsArgs`]: the command line of `nap-load sessions` as typed. [`super::plan::Plan`] is the same after
//! checking.

use clap::{Parser, ValueEnum};
use nap_core::micros::Micros;

use crate::args::{Common, positive_time, time};

/// Clients who go through the pages of a session, with think time and a browser's patience. The report says
/// how many sessions come to their end, how long they take, and where they fail (the SQS paper's section 4).
///
/// A client that gets no answer in time, or an error, goes back to the second page. A client refused with a
/// ticket comes when the ticket says.
///
/// A shop's seven pages:  nap-load sessions -c 100 http://127.0.0.1:8080 /shop/login /shop/new
///     '/shop/list?category={number}' '/shop/article?article={number}' '/shop/search?q={number}'
///     'POST:/shop/buy?article={number}' /shop/logout
#[derive(Parser, Debug)]
#[command(
    name = "nap-load sessions",
    version,
    max_term_width = 100,
    verbatim_doc_comment
)]
pub struct SessionsArgs {
    /// The site: http://host[:port]
    pub site: String,
    /// A session's pages, in order: /path[?query], or POST:/path[?form] for a posted one. Each {number}
    /// becomes a number from 0 to 9999, a new one for each request
    #[arg(value_name = "PAGE", required = true, num_args = 2..=100)]
    pub pages: Vec<String>,

    /// Clients at once
    #[arg(short, long, value_name = "N", default_value_t = 100, help_heading = "Load",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub clients: u32,
    /// Sessions of each client, one after the other
    #[arg(short, long, value_name = "M", default_value_t = 1, help_heading = "Load",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub sessions: u32,
    /// Think time before each page but the first, and between two sessions
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = time, help_heading = "Load")]
    pub think: Micros,
    /// Whether all think times are the same, or exponentially distributed around it
    #[arg(long, value_enum, default_value = "fixed", help_heading = "Load")]
    pub think_law: Law,
    /// Spread the clients' first sessions evenly over this time
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = time, help_heading = "Load")]
    pub ramp: Micros,
    /// No new sessions after this; those begun are finished
    #[arg(long, value_name = "TIME", value_parser = positive_time, help_heading = "Load")]
    pub duration: Option<Micros>,

    /// Give up a page after this. With several, TIME,TIME, each session draws one with equal chance
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = positive_time,
          value_delimiter = ',', help_heading = "Visitors")]
    pub timeout: Vec<Micros>,
    /// The page to go back to when a later one failed (the first is 1)
    #[arg(long, value_name = "PAGE", default_value_t = 2, help_heading = "Visitors",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub restart: u32,

    /// Ticket holders ask this path whether they may come earlier, as ticket pages do
    #[arg(long, value_name = "PATH", value_parser = path, help_heading = "Visitors")]
    pub status: Option<String>,

    #[command(flatten)]
    pub common: Common,
}

fn path(text: &str) -> Result<String, String> {
    match text.starts_with('/') {
        true => Ok(text.to_owned()),
        false => Err("a path begins with /".into()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Law {
    Fixed,
    Exponential,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        SessionsArgs::command().debug_assert();
    }
}

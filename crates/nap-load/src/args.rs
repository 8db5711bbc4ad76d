//! [`Args`]: the command line as typed. [`crate::plan::Plan`] is the same after checking.
//!
//! Times take units (`500ms 4s 5min`, a bare number is seconds); shares are 0..1 or a percentage.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use nap_core::micros::Micros;

use crate::slow::Way;

/// Visitors for a site behind mod_nap: a closed crowd or a stream of newcomers, who obey their tickets or
/// not. The report has the numbers of the NAP-Web paper's Tables 1 and 2.
///
/// The paper's crowd:  nap-load -c 600 -n 50 http://127.0.0.1:8080/board
#[derive(Parser, Debug)]
#[command(name = "nap-load", version, max_term_width = 100)]
pub struct Args {
    /// What to visit: http://host[:port]/path[?query]
    pub url: String,

    /// Visitors at once; with --open, the maximum at once (further arrivals are turned away, and counted)
    #[arg(short, long, value_name = "N", help_heading = "Load",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub clients: Option<u32>,
    /// Posts of each visitor, one after the other [default: 10; with --open 1]
    #[arg(short = 'n', long, value_name = "M", help_heading = "Load",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub posts: Option<u32>,
    /// Think time between two posts, uniform from half to one and a half times this
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = time, help_heading = "Load")]
    pub think: Micros,
    /// Spread the visitors' first posts evenly over this time
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = time, help_heading = "Load")]
    pub ramp: Micros,
    /// Open arrivals: fresh visitors per second, for --duration
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "Load", conflicts_with = "ramp")]
    pub open: Option<f64>,
    /// How open arrivals are spaced
    #[arg(
        long,
        value_enum,
        default_value = "poisson",
        help_heading = "Load",
        requires = "open"
    )]
    pub arrivals: Arrivals,
    /// Start no new posts (closed) or visitors (open) after this; posts under way are finished [open: 60s]
    #[arg(long, value_name = "TIME", value_parser = positive_time, help_heading = "Load")]
    pub duration: Option<Micros>,

    /// Obey Retry-After alone, not the ticket's time
    #[arg(long, help_heading = "Visitors")]
    pub retry_after: bool,
    /// This share has a page that does what the ticket page's script does: it asks where it stands when it is
    /// told to, and comes when it is called and at its ticket's time
    #[arg(long, value_name = "SHARE", value_parser = share_alone, help_heading = "Visitors",
          conflicts_with = "accept")]
    pub asks: Option<Manner>,
    /// This share (all without SHARE@) retries after TIME, whatever its ticket says
    #[arg(long, value_name = "[SHARE@]TIME", value_parser = impatience, help_heading = "Visitors")]
    pub impatient: Option<Manner>,
    /// This share retries RATE times a second with its cookie, ignoring the ticket
    #[arg(long, value_name = "SHARE@RATE", value_parser = hammering, help_heading = "Visitors")]
    pub hammer: Option<Manner>,
    /// This share never uses a ticket: it goes on to its next post without the cookie, when the ticket's time
    /// begins, or TIME after the refusal
    #[arg(long, value_name = "SHARE[@TIME]", value_parser = share_and_time, help_heading = "Visitors")]
    pub no_show: Option<Manner>,
    /// This share comes in the ticket's tail: within 30 s of its start, or TIME after it
    #[arg(long, value_name = "SHARE[@TIME]", value_parser = share_and_time, help_heading = "Visitors")]
    pub late: Option<Manner>,
    /// This share drops the connection TIME after asking, and goes on to its next post
    #[arg(long, value_name = "SHARE@TIME", value_parser = share_at_time, help_heading = "Visitors")]
    pub abort: Option<Manner>,
    /// Present a ticket again, as often as it takes within TIME, if its answer was lost: the connection broke, or a
    /// proxy had none to give. In time or late, and how long it took, counts from the last sending
    #[arg(long, value_name = "TIME", value_parser = positive_time, help_heading = "Visitors")]
    pub again: Option<Micros>,
    /// N more visitors who read a long answer slowly, again and again
    #[arg(long, value_name = "N@BYTES_PER_S:URL", value_parser = slow_read, help_heading = "Visitors")]
    pub slow_read: Option<Slow>,
    /// N more visitors who send a form slowly, again and again
    #[arg(long, value_name = "N@BYTES_PER_S:URL", value_parser = slow_send, help_heading = "Visitors")]
    pub slow_send: Option<Slow>,
    /// How they send it; with several ways, visitors take turns
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "steady",
        help_heading = "Visitors",
        requires = "slow_send"
    )]
    pub slow_way: Vec<Way>,
    /// Size of this form in bytes
    #[arg(long, value_name = "N", default_value_t = 1_000_000, help_heading = "Visitors",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    pub slow_bytes: u32,

    /// Use GET instead of POST
    #[arg(long, help_heading = "HTTP", conflicts_with_all = ["post_bytes", "form"])]
    pub get: bool,
    /// Size of the posted form
    #[arg(long, value_name = "BYTES", default_value_t = 1024, help_heading = "HTTP",
          value_parser = clap::value_parser!(u32).range(..=16_777_216))]
    pub post_bytes: u32,
    /// Start of the posted form; x fills it up to its size
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "text=",
        help_heading = "HTTP"
    )]
    pub form: String,
    /// How a ticket is presented
    #[arg(long, value_enum, default_value = "cookie", help_heading = "HTTP")]
    pub present: Present,
    /// Which form of the answer to prefer
    #[arg(long, value_enum, default_value = "html", help_heading = "HTTP")]
    pub accept: Accept,
    /// Give up a try after this time
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = positive_time,
          help_heading = "HTTP")]
    pub timeout: Micros,

    /// The header in which a balancer names the node that answers: the report tells what each sold and redeemed
    #[arg(long, value_name = "NAME", help_heading = "HTTP")]
    pub node_header: Option<String>,

    #[command(flatten)]
    pub common: Common,
}

/// The options that all kinds of visits share.
#[derive(clap::Args, Debug)]
pub struct Common {
    /// Hard stop: the run ends here, even if something is still under way
    #[arg(long, value_name = "TIME", default_value = "15min", value_parser = positive_time,
          help_heading = "Load")]
    pub stop: Micros,
    /// Seed of everything random [default: NAP_SEED, otherwise random; printed]
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub seed: Option<u64>,

    /// Wait after a 503 that gives no time, and after an error
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = positive_time,
          help_heading = "Visitors")]
    pub retry: Micros,
    /// Time in which a presented ticket must be answered to count as kept (NapWaitMax)
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = positive_time,
          help_heading = "Visitors")]
    pub bound: Micros,
    /// Where visitors come from: each from its own /24, all from one address, or N from each address
    /// [default: distinct on 127.0.0.0/8, otherwise one]
    #[arg(long, value_name = "distinct|one|N", value_parser = source, help_heading = "Visitors")]
    pub source: Option<Source>,

    /// An additional request header (repeatable)
    #[arg(long, value_name = "NAME: VALUE", help_heading = "HTTP")]
    pub header: Vec<String>,
    /// Use HTTP/2 with prior knowledge
    #[arg(long, help_heading = "HTTP")]
    pub h2c: bool,
    /// Open a new connection for every try
    #[arg(long, help_heading = "HTTP", conflicts_with = "h2c")]
    pub no_keepalive: bool,
    /// Allow a target that is not this machine
    #[arg(long, help_heading = "HTTP")]
    pub allow_remote: bool,

    /// Name of the run, for the report
    #[arg(long, value_name = "TEXT", default_value = "", help_heading = "Output")]
    pub label: String,
    /// Write the report as JSON (- for stdout instead of the table)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,
    /// Write one row per try
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub csv: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Arrivals {
    Poisson,
    Even,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Present {
    Cookie,
    Header,
    Query,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Accept {
    Html,
    Json,
}

/// A share of the visitors, and the time that their manner needs (for hammering ones: the period).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Manner {
    pub share: f64,
    pub time: Option<Micros>,
}

/// Slow readers or senders: how many, how fast, and what they read or send.
#[derive(Clone, Debug, PartialEq)]
pub struct Slow {
    pub visitors: u32,
    /// Bytes per second for each.
    pub rate: u32,
    pub url: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Each visitor has their own address, in their own /24.
    Distinct,
    /// The machine's choice, the same for all.
    One,
    /// This many visitors behind each address.
    Behind(u32),
}

pub fn time(text: &str) -> Result<Micros, String> {
    let split = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.trim().parse().map_err(|_| TIME)?;
    let unit = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "min" | "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("unknown unit {unit:?}: use us, ms, s, min or h")),
    };
    let seconds = number * unit;
    if !(0.0..=30.0 * 86400.0).contains(&seconds) {
        return Err("a time is between 0 and 30 days".to_owned());
    }
    Ok(Micros::from_secs_f64(seconds))
}

const TIME: &str = "a time is a number with a unit, as in 500ms, 4s, 5min";

pub fn positive_time(text: &str) -> Result<Micros, String> {
    match time(text)? {
        Micros::ZERO => Err("must be more than zero".to_owned()),
        some => Ok(some),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= 1e5 => Ok(rate),
        _ => Err("a rate is a number per second, above 0, at most 100000".to_owned()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.parse().map(|p: f64| p / 100.0),
        None => text.parse(),
    };
    match number {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share is between 0 and 1, as in 0.3 or 30%".to_owned()),
    }
}

fn share_alone(text: &str) -> Result<Manner, String> {
    Ok(Manner {
        share: share(text)?,
        time: None,
    })
}

fn share_and_time(text: &str) -> Result<Manner, String> {
    match text.split_once('@') {
        None => share_alone(text),
        Some(_) => share_at_time(text),
    }
}

fn share_at_time(text: &str) -> Result<Manner, String> {
    let (part, after) = text
        .split_once('@')
        .ok_or("needs SHARE@TIME, as in 0.3@2s")?;
    Ok(Manner {
        share: share(part)?,
        time: Some(positive_time(after)?),
    })
}

fn impatience(text: &str) -> Result<Manner, String> {
    match text.contains('@') {
        true => share_at_time(text),
        false => Ok(Manner {
            share: 1.0,
            time: Some(positive_time(text)?),
        }),
    }
}

fn hammering(text: &str) -> Result<Manner, String> {
    let (part, per_second) = text
        .split_once('@')
        .ok_or("needs SHARE@RATE, as in 0.3@10")?;
    let period = Micros::from_secs_f64(1.0 / rate(per_second)?);
    Ok(Manner {
        share: share(part)?,
        time: Some(period),
    })
}

fn slow_read(text: &str) -> Result<Slow, String> {
    let wrong = "needs N@BYTES_PER_S:URL, from 1000 bytes/s up, as in \
                 10@100000:http://127.0.0.1:8080/big";
    slow(text, 1000, wrong)
}

fn slow_send(text: &str) -> Result<Slow, String> {
    slow(
        text,
        1,
        "needs N@BYTES_PER_S:URL, as in 10@600:http://127.0.0.1:8080/form",
    )
}

fn slow(text: &str, least: u32, wrong: &str) -> Result<Slow, String> {
    let (visitors, rest) = text.split_once('@').ok_or(wrong)?;
    let (rate, url) = rest.split_once(':').ok_or(wrong)?;
    let visitors = visitors.parse().map_err(|_| wrong)?;
    let rate = rate
        .parse()
        .ok()
        .filter(|rate| *rate >= least)
        .ok_or(wrong)?;
    Ok(Slow {
        visitors,
        rate,
        url: url.to_owned(),
    })
}

fn source(text: &str) -> Result<Source, String> {
    match text {
        "distinct" => Ok(Source::Distinct),
        "one" => Ok(Source::One),
        n => match n.parse() {
            Ok(n) if n > 0 => Ok(Source::Behind(n)),
            _ => Err("use distinct, one, or how many visitors share an address".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn times_have_units() {
        for (text, want) in [
            ("500ms", 500_000),
            ("4s", 4_000_000),
            ("1.5", 1_500_000),
            ("5min", 300_000_000),
            ("250us", 250),
            ("0", 0),
        ] {
            assert_eq!(time(text), Ok(Micros(want)), "{text}");
        }
        for text in ["", "s", "4 years", "-1s", "nan", "1e99s", "1d"] {
            assert!(time(text).is_err(), "{text}");
        }
        assert!(positive_time("0s").is_err());
    }

    #[test]
    fn manners_are_a_share_and_a_time() {
        let manner = |share, ms: u64| Manner {
            share,
            time: Some(Micros::from_millis(ms)),
        };
        assert_eq!(hammering("0.3@10"), Ok(manner(0.3, 100)));
        assert_eq!(impatience("500ms"), Ok(manner(1.0, 500)));
        assert_eq!(impatience("30%@2s"), Ok(manner(0.3, 2000)));
        assert_eq!(
            share_and_time("0.3"),
            Ok(Manner {
                share: 0.3,
                time: None
            })
        );
        assert_eq!(share_and_time("0.3@3s"), Ok(manner(0.3, 3000)));
        for text in ["0.3", "2@1", "0.3@0", "x@1", "@"] {
            assert!(hammering(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_slow_reader_has_number_rate_and_url() {
        let want = Slow {
            visitors: 10,
            rate: 100_000,
            url: "http://127.0.0.1:8/big".to_owned(),
        };
        assert_eq!(slow_read("10@100000:http://127.0.0.1:8/big"), Ok(want));
        assert!(slow_read("10@http://127.0.0.1/").is_err());
        assert!(slow_read("10@1:http://127.0.0.1/").is_err());
        assert!(slow_send("10@1:http://127.0.0.1/").is_ok());
        assert!(slow_send("10@0:http://127.0.0.1/").is_err());
    }
}

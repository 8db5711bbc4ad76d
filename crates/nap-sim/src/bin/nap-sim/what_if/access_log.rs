//! An access log of httpd as a crowd: common or combined format with the duration at the end of the
//! line (`LogFormat "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\" %D"`).
//!
//! Times in a log are whole seconds: requests in the same second are spread over it. A request's duration is
//! taken as its work, so the log of a day without overload says most.

use std::path::Path;

use nap_core::micros::Micros;
use nap_sim::setup::Visit;

use super::words;

/// What to take from a log.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Seconds in a duration of 1.
    pub unit_s: f64,
    /// Only paths that begin with this.
    pub only: String,
    /// How many times each request comes.
    pub times: u32,
}

/// The unit of durations: %D is in us, %{ms}T in ms, %T in s.
pub fn unit(text: &str) -> Result<f64, String> {
    match text {
        "us" => Ok(1e-6),
        "ms" => Ok(1e-3),
        "s" => Ok(1.0),
        _ => Err(format!("unit \"{text}\"; use us (%D), ms or s (%T)")),
    }
}

/// A log's requests, the first at 0; an error names file, line and reason.
pub fn read(file: &Path, wanted: &Wanted) -> Result<Vec<Visit>, String> {
    let text = std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let text = String::from_utf8_lossy(&text);
    let mut came: Vec<(i64, f64)> = Vec::new();
    for (n, line) in (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let request = parse(line).map_err(|why| format!("{}:{n}: {why}", file.display()))?;
        if request.path.starts_with(&wanted.only) {
            let work_s = request.duration * wanted.unit_s;
            came.extend((0..wanted.times).map(|_| (request.second, work_s)));
        }
    }
    // Lines are in the order in which requests ended.
    came.sort_by_key(|(second, _)| *second);
    let Some(&(first, _)) = came.first() else {
        return Err(format!("{}: no request of it is wanted", file.display()));
    };
    let of_second = came.chunk_by(|(a, _), (b, _)| a == b);
    let visits = of_second.flat_map(|together| {
        let n = together.len() as u64;
        (0..)
            .zip(together)
            .map(move |(k, &(second, work_s))| Visit {
                at: Micros::from_secs((second - first).unsigned_abs()) + Micros(k * 1_000_000 / n),
                posts: 1,
                work_s: Some(work_s),
            })
    });
    Ok(visits.collect())
}

struct Request<'a> {
    /// When the request came, in seconds since 1970.
    second: i64,
    path: &'a str,
    duration: f64,
}

fn parse(line: &str) -> Result<Request<'_>, String> {
    let (_, rest) = line
        .split_once('[')
        .ok_or("no [time]: not common or combined format")?;
    let (time, rest) = rest
        .split_once(']')
        .ok_or("a [ without ]: not common or combined format")?;
    let second = seconds(time)
        .ok_or_else(|| format!("[{time}] is no time; [10/Oct/2000:13:55:36 -0700] is one"))?;
    let request = rest
        .trim_start()
        .strip_prefix('"')
        .ok_or("no \"request\" after the time")?;
    // httpd writes a quote within the request as \".
    let mut escaped = false;
    let end = request.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    let (request, rest) = request.split_at(end.ok_or("the request has no closing \"")?);
    let rest = rest.get(1..).unwrap_or_default();
    let path = request.split(' ').nth(1).unwrap_or_default();
    // Status, bytes, duration; or with referer and agent in between.
    let fields = words::split(rest);
    let duration = match fields.len() {
        3 | 5 => fields.last().and_then(|field| field.parse().ok()),
        _ => None,
    };
    let duration = duration
        .filter(|d: &f64| (0.0..1e12).contains(d))
        .ok_or("no duration at its end; add %D to the LogFormat")?;
    Ok(Request {
        second,
        path,
        duration,
    })
}

/// `10/Oct/2000:13:55:36 -0700` in seconds since 1970.
fn seconds(time: &str) -> Option<i64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let (stamp, zone) = time.split_once(' ')?;
    let parts: Vec<&str> = stamp.split(['/', ':']).collect();
    let [day, month, year, hour, minute, second] = parts[..] else {
        return None;
    };
    let number =
        |text: &str, most: i64| text.parse::<i64>().ok().filter(|n| (0..=most).contains(n));
    let month = MONTHS
        .find(month)
        .filter(|at| month.len() == 3 && at % 3 == 0)? as i64
        / 3
        + 1;
    let day = number(day, 31).filter(|day| *day > 0)?;
    // Days since 1970 (Hinnant's days_from_civil): years begin in March.
    let year = number(year, 9999)? - i64::from(month <= 2);
    let in_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = 365 * year + year / 4 - year / 100 + year / 400 + in_year - 719_468;
    let (sign, zone) = match zone.strip_prefix('-') {
        Some(zone) => (-1, zone),
        None => (1, zone.strip_prefix('+')?),
    };
    let zone = Some(zone)
        .filter(|zone| zone.len() == 4)
        .and_then(|zone| number(zone, 2359))?;
    let ahead = sign * (zone / 100 * 3600 + zone % 100 * 60);
    let [hour, minute, second] = [number(hour, 23)?, number(minute, 59)?, number(second, 60)?];
    Some(days * 86_400 + hour * 3600 + minute * 60 + second - ahead)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMON: &str = "::1 - bob [10/Oct/2000:13:55:36 -0700] \"GET /shop?a=b HTTP/1.1\" 200 23";

    #[test]
    fn both_formats_are_read_with_their_durations() {
        for (tail, duration) in [(" 14800", 14_800.0), (" \"-\" \"A \\\" b\" 0.5", 0.5)] {
            let line = format!("{COMMON}{tail}");
            let request = parse(&line)
                .map_err(|why| panic!("{line}: {why}"))
                .expect("good");
            assert_eq!(request.path, "/shop?a=b");
            assert_eq!((request.second, request.duration), (971_211_336, duration));
        }
        let quoted = COMMON.replace("a=b", "a=\\\"b\\\\") + " 7";
        let request = parse(&quoted)
            .map_err(|why| panic!("{quoted}: {why}"))
            .expect("good");
        assert_eq!((request.path, request.duration), ("/shop?a=\\\"b\\\\", 7.0));
        assert_eq!(seconds("01/Jan/1970:00:00:00 +0000"), Some(0));
        assert_eq!(seconds("29/Feb/2024:23:59:59 +0100"), Some(1_709_247_599));
    }

    #[test]
    fn a_line_that_is_none_is_told_with_its_reason() {
        for (line, why) in [
            (COMMON.to_owned(), "no duration"),
            (format!("{COMMON} -"), "no duration"),
            (format!("{COMMON} -5"), "no duration"),
            ("hello".to_owned(), "no [time]"),
            ("[10/Oct/2000:13:55:36".to_owned(), "a [ without ]"),
            ("[10/Okt/2000:13:55:36 -0700] \"\"".to_owned(), "is no time"),
            ("[10/Oct/2000:25:55:36 -0700] \"\"".to_owned(), "is no time"),
            (
                "[10/Oct/2000:13:55:36 -0700] GET".to_owned(),
                "no \"request\"",
            ),
            (
                "[10/Oct/2000:13:55:36 -0700] \"GET".to_owned(),
                "no closing",
            ),
        ] {
            let told = parse(&line).err().unwrap_or_default();
            assert!(told.contains(why), "{line}: {told}");
        }
    }

    #[test]
    fn a_log_is_a_crowd_in_the_order_of_arrival() {
        let file = std::env::temp_dir().join(format!("nap-log-{}", std::process::id()));
        let line = |second: u32, path: &str, us: u32| {
            format!("h - - [10/Oct/2000:13:55:{second} +0000] \"GET {path} HTTP/1.1\" 200 - {us}\n")
        };
        let text = line(38, "/shop", 20_000) + &line(36, "/shop", 10_000) + &line(36, "/other", 5);
        std::fs::write(&file, &text).expect("a temporary file");
        let wanted = Wanted {
            unit_s: 1e-6,
            only: "/shop".to_owned(),
            times: 2,
        };
        let visits = read(&file, &wanted).expect("it is good");
        let seen: Vec<_> = visits.iter().map(|v| (v.at.0, v.work_s)).collect();
        let [short, long] = [0.01, 0.02].map(Some);
        assert_eq!(
            seen,
            [
                (0, short),
                (500_000, short),
                (2_000_000, long),
                (2_500_000, long)
            ]
        );
        std::fs::write(&file, text + "nonsense\n").expect("a temporary file");
        let told = read(&file, &wanted).expect_err("line 4");
        assert!(told.contains(":4: no [time]"), "{told}");
        std::fs::remove_file(&file).expect("it was ours");
    }
}

//! A line of a script or a configuration as words, and words as numbers.

use nap_core::micros::Micros;

/// The words of a line; a quoted part is one word. A backslash keeps a quote in it.
pub fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut chars = line.trim().chars().peekable();
    while let Some(&first) = chars.peek() {
        if first.is_whitespace() {
            chars.next();
            continue;
        }
        let mut word = String::new();
        if first == '"' || first == '\'' {
            chars.next();
            while let Some(c) = chars.next().filter(|c| *c != first) {
                match (c, chars.peek()) {
                    ('\\', Some(&next)) if next == first => {
                        word.push(next);
                        chars.next();
                    }
                    _ => word.push(c),
                }
            }
        } else {
            while let Some(c) = chars.next_if(|c| !c.is_whitespace()) {
                word.push(c);
            }
        }
        words.push(word);
    }
    words
}

/// `500ms`, `4s`, `5min`, `1h`, as in directives; a number alone is seconds.
pub fn time(text: &str) -> Result<Micros, String> {
    let at = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let unit_s = match unit {
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        _ => -1.0,
    };
    let number: Option<f64> = number.parse().ok().filter(|n: &f64| (0.0..1e9).contains(n));
    match number.map(|n| n * unit_s).filter(|s| *s >= 0.0) {
        Some(seconds) => Ok(Micros::from_secs_f64(seconds)),
        None => Err(format!(
            "\"{text}\" is no time; use a number with ms, s, min or h"
        )),
    }
}

/// A number that is not below zero.
pub fn number(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|n: &f64| (0.0..1e12).contains(n));
    number.ok_or_else(|| format!("\"{text}\" is no number from 0"))
}

/// A whole number from 1.
pub fn count(text: &str) -> Result<u32, String> {
    let count = text
        .parse()
        .ok()
        .filter(|n: &u32| (1..=10_000_000).contains(n));
    count.ok_or_else(|| format!("\"{text}\" is no whole number from 1 to 10000000"))
}

/// A rate a second: `20/s`, or `20`.
pub fn rate(text: &str) -> Result<f64, String> {
    let number = number(text.strip_suffix("/s").unwrap_or(text));
    number.map_err(|_| format!("\"{text}\" is no rate; 20/s is one"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_their_numbers() {
        let words = split(r#"  NapPage  a "b \"c\" d" 'e f'"#);
        assert_eq!(words, ["NapPage", "a", r#"b "c" d"#, "e f"]);
        assert!(split(" \t").is_empty() && split("\"") == [""]);
        for (text, us) in [
            ("500ms", 500_000),
            ("4s", 4_000_000),
            ("1.5", 1_500_000),
            ("2h", 7_200_000_000),
        ] {
            assert_eq!(time(text), Ok(Micros(us)), "{text}");
        }
        for wrong in ["", "s", "4 s", "-1s", "4y", "1e99s", "NaN", "inf"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
        assert_eq!(rate("20/s"), Ok(20.0));
        assert!(rate("20/min").is_err() && count("0").is_err() && number("-1").is_err());
    }
}

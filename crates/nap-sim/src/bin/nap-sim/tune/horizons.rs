//! The steering of mod_bwshare's horizons: does it reach the wanted share of tests?

use nap_core::bwshare::horizons::{HORIZONS, Horizons};
use nap_core::bwshare::service::{Service, ServiceTerms, Steering, TEST_NS};
use nap_rng::Rng;
use nap_sim::report::{Report, Table, number, percent};

use super::TuneLab;

/// The note's rates: bytes a second, and their horizons.
const RATES: [(f64, f64); HORIZONS] = [(125e3, 1.0), (12.5e3, 3600.0), (6.25e3, 28800.0)];
/// The share of tests to be passed.
const WANTED: f64 = 0.9;
/// Number of tests in a day, ten seconds each.
const DAY: u64 = 8640;

/// Clients that come in a test: at night a fifth of the evening's, with noise.
fn clients(test: u64, busiest: f64, rng: &mut Rng) -> u64 {
    let hour = (test % DAY) as f64 / DAY as f64;
    let day = 0.6 - 0.4 * (std::f64::consts::TAU * hour).cos();
    (busiest * day * (0.8 + 0.4 * rng.unit())).round() as u64
}

/// The steering, against links that are too narrow for the evening.
pub fn probabilities(lab: &TuneLab) -> Report {
    let mut report = Report::new("Horizon probabilities");
    report.text(
        "mod_bwshare's three horizons (125 kB/s in a second, 45 MB an hour, 180 MB in 8 h) on a line that \
         carries 100 clients at the full rate. In the evening so many come that are inside their longer \
         limits; at night a fifth. Lowering the hourly rate makes that share of them ineligible. Wanted: \
         90 % of the tests of an hour passed.",
    );
    let columns = [
        "passed, all day: not steered",
        "steered",
        "worst hour: not steered",
        "steered",
        "hourly rate, lowest",
    ];
    let mut table = Table::new(
        "By clients in the evening, third day",
        &lab.command,
        &columns,
    );
    for busiest in [80.0, 100.0, 120.0, 150.0, 200.0] {
        let plain = day(lab.seed, busiest, 0.0, Steering::CHOSEN);
        let steered = day(lab.seed, busiest, WANTED, Steering::CHOSEN);
        let cells = [
            percent(plain.passed),
            percent(steered.passed),
            percent(plain.worst),
            percent(steered.worst),
            number(steered.lowest, 2),
        ];
        table.row(&number(busiest, 0), cells);
    }
    report.table(table);
    report.table(steerings(lab));
    report.text(
        "**Changed: one step in five minutes** (ten at first), x 0.95 down and x 1.01 up, never below a sixteenth. At nearly the same mean rate, though its lowest is lower, the steepest hour of the evening passes more tests: with twice as many steps the rate \
         follows an hour's share sooner. A step a minute, or a larger one down, lowers the rate for more than the \
         day's mean wants. The day's mean is kept up to half as many again as the line bears; \
         the steepest hour of the evening is not, for an hour's share shows it late. A rate is never \
         lowered below that of the next longer horizon, here to a half: beyond, the configured \
         rates are too high for the line, and steering cannot help.",
    );
    report
}

/// One constant at a time.
fn steerings(lab: &TuneLab) -> Table {
    let chosen = Steering::CHOSEN;
    let steps = [6, 60, 120, 360].map(|every| Steering { every, ..chosen });
    let lowers = [0.8, 0.9, 0.98].map(|lower| Steering { lower, ..chosen });
    let raises = [1.002, 1.02, 1.05].map(|raise| Steering { raise, ..chosen });
    let margins = [0.0, 0.05].map(|above| Steering { above, ..chosen });
    let columns = [
        "passed, all day: 120 in the evening",
        "150",
        "worst hour: 120",
        "150",
        "hourly rate, mean: 120",
        "150",
    ];
    let mut table = Table::new(
        "By step (minutes from one to the next; down, up; so far above the wanted share)",
        &lab.command,
        &columns,
    );
    let all = [&[chosen][..], &steps, &lowers, &raises, &margins].concat();
    for steering in all {
        let [few, many] = [120.0, 150.0].map(|busiest| day(lab.seed, busiest, WANTED, steering));
        let Steering {
            every,
            lower,
            raise,
            above,
        } = steering;
        let name = format!("{}; x {lower}, x {raise}; {above}", every / 6);
        let name = match steering == chosen {
            true => format!("**{name}**"),
            false => name,
        };
        let shares = [few.passed, many.passed, few.worst, many.worst].map(percent);
        let rates = [few.rate, many.rate].map(|rate| number(rate, 2));
        table.row(&name, shares.into_iter().chain(rates));
    }
    table
}

/// A day, after two days of settling.
struct Day {
    passed: f64,
    worst: f64,
    lowest: f64,
    rate: f64,
}

fn day(seed: u64, busiest: f64, wanted: f64, steering: Steering) -> Day {
    let limits = Horizons::new(&RATES, 0.5);
    let terms = ServiceTerms {
        horizons: &limits,
        shares: [wanted; HORIZONS],
        link: 100.0 * RATES[0].0,
        steering,
    };
    let mut rng = Rng::new(seed, 6);
    let mut service = Service::default();
    let mut seen = Day {
        passed: 0.0,
        worst: 1.0,
        lowest: 1.0,
        rate: 0.0,
    };
    let mut hours = 0.0;
    for test in 0..3 * DAY {
        let now = (test + DAY) * TEST_NS;
        service.advance(&terms, now);
        let factor = service.factors()[1];
        let come = clients(test, busiest, &mut rng);
        // A client that asks for more than the lowered hourly rate is inside the longest limit only.
        let eligible = (come as f64 * factor).round() as u64;
        for client in 0..come {
            let first = usize::from(client >= eligible);
            service.note(first, &terms, now);
        }
        if test >= 2 * DAY {
            seen.lowest = seen.lowest.min(factor);
            seen.rate += factor / DAY as f64;
            if test % 360 == 359 {
                let share = service.share(0).unwrap_or(1.0);
                seen.passed += share;
                seen.worst = seen.worst.min(share);
                hours += 1.0;
            }
        }
    }
    seen.passed /= f64::max(hours, 1.0);
    seen
}

//! Tests of the two pages.

use super::*;
use nap_core::bwshare::horizons::Horizons;
use nap_core::bwshare::till::reading::Owing;

const WALL: Wall = Wall {
    unix: Micros(1_769_828_400_000_000),
    offset_min: 540,
    change: None,
};

fn limits() -> Vec<LimitLine> {
    let limits = Limits {
        files: Lane::new(30.0, 0.05, true),
        bytes: Lane::new(5e5, 1000.0, false),
        rule: Rule::Exact,
        refused: 0.0,
        horizons: Horizons::new(&[(125_000.0, 1.0), (12_500.0, 3600.0)], 0.5),
    };
    vec![LimitLine::of("", 0, &limits, [0.95, 0.9, 0.0])]
}

fn row(n: u8, wait_s: u64) -> DebtRow {
    let mut address = [0; 16];
    address[10..].copy_from_slice(&[0xff, 0xff, 192, 0, 2, n]);
    DebtRow {
        row: TraceRow {
            address,
            bits: 128,
            scope: 0,
            files: u64::from(n),
            bytes: 1000,
            refused: wait_s,
            first_ns: 10 * SECOND_NS,
            last_ns: 20 * SECOND_NS,
            over_ns: 0,
        },
        owing: Owing {
            files: 30.5,
            bytes: 12.0,
            answer: DebtAnswer::after(wait_s * SECOND_NS, Debt::Network),
        },
        max: [30.0, 5e5],
        now_ns: 30 * SECOND_NS,
    }
}

fn trace(rows: Vec<DebtRow>, query: &str) -> TraceReport {
    TraceReport::of_rows(rows, limits(), WALL, TraceQuery::parse(query))
}

#[test]
fn a_row_tells_all_about_its_client() {
    let report = trace(vec![row(1, 7)], "json");
    let (kind, body) = report.render();
    let json: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(kind, "application/json");
    let row = &json["rows"][0];
    assert_eq!(row["client"], "192.0.2.1");
    assert_eq!(
        (&row["over_limit"], &row["wait_s"]),
        (&true.into(), &7.0.into())
    );
    assert_eq!(row["bytes_per_s"], 100.0);
    assert_eq!(row["file_debt_max"], 30.0);
    assert_eq!(row["last_seen"], "2026-01-31T11:59:50+09:00");
    assert_eq!(
        (&json["clients"], &json["over_limit"]),
        (&1.into(), &1.into())
    );
}

#[test]
fn rows_are_sorted_filtered_and_paged() {
    let all: Vec<_> = (0..250).map(|n| row(n, u64::from(n % 2))).collect();
    let clients = |query: &str| {
        let report = trace(all.clone(), query);
        let names = report.rows.iter().map(|line| line.client.clone());
        (report.pages, names.collect::<Vec<_>>())
    };
    let (pages, rows) = clients("sort=files&page=3");
    assert_eq!((pages, rows.len(), rows[0].as_str()), (3, 50, "192.0.2.49"));
    let (_, rows) = clients("client=2.24&sort=files");
    assert_eq!(rows.first().map(String::as_str), Some("192.0.2.249"));
    assert_eq!(rows.len(), 11);
    assert_eq!(clients("sort=colour&page=x").1.len(), 100);
    assert_eq!(trace(all.clone(), "json").rows.len(), 250);
}

#[test]
fn who_is_over_his_limit_is_red_in_words_too() {
    let (_, html) = trace(vec![row(1, 65), row(2, 0)], "").render();
    assert_eq!(html.matches("class=\"red\"").count(), 1, "{html}");
    assert!(html.contains("over the limit"), "{html}");
    assert!(
        html.contains("192.0.2.1") && html.contains("?sort=files"),
        "{html}"
    );
    let (_, html) = trace(vec![], "client=%3Cscript%3E").render();
    assert!(!html.contains("<script"), "{html}");
}

#[test]
fn names_are_looked_up_only_if_asked_for_and_only_of_the_rows_shown() {
    let all: Vec<_> = (0..250).map(|n| row(n, 0)).collect();
    let asked = |query: &str| {
        let (mut report, mut n) = (trace(all.clone(), query), 0);
        report.name(|_| {
            n += 1;
            Some(format!("host-{n}.example"))
        });
        (n, report.render().1)
    };
    let (n, html) = asked("");
    assert_eq!((n, html.contains("host-")), (0, false));
    let (n, html) = asked("names&page=3");
    assert_eq!((n, html.contains("host-50.example")), (50, true));
    assert!(asked("csv&names").1.contains(",host-250.example,"));
    let mut one = row(1, 0);
    one.row.bits = 120;
    let mut report = trace(vec![one], "names");
    report.name(|_| panic!("a /24 has no name"));
}

#[test]
fn csv_has_a_line_a_client() {
    let (kind, csv) = trace(vec![row(1, 7), row(2, 0)], "csv").render();
    assert_eq!(kind, "text/csv; charset=utf-8");
    let lines: Vec<_> = csv.split_terminator("\r\n").collect();
    let columns: Vec<_> = lines.iter().map(|line| line.split(',').count()).collect();
    assert_eq!(columns, [16, 16, 16]);
    assert!(lines[1].starts_with("192.0.2.1,,1,1000,30.5,30,12,500000,100,7,true,7,"));
    assert!(lines[1].ends_with(",network") && lines[2].ends_with(","));
}

#[test]
fn prefixes_are_written_as_such() {
    let of = |address: [u8; 16], bits| {
        written(&TraceRow {
            address,
            bits,
            ..TraceRow::default()
        })
    };
    let mut v6 = [0; 16];
    v6[..4].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
    assert_eq!(of(v6, 64), "2001:db8::/64");
    assert_eq!(of(v6, 128), "2001:db8::");
    let v4 = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 0];
    assert_eq!(of(v4, 120), "192.0.2.0/24");
}

#[test]
fn the_totals_tell_limits_load_and_service_levels() {
    let counts = DebtCounts {
        requests: 100,
        refused: [3, 2, 1, 0, 0, 0],
        eligible: [90, 100, 0],
        entitled: [81, 90, 0],
        ..DebtCounts::default()
    };
    let totals = Totals {
        counts,
        in_debt: 5,
        clients: 1000,
        rows: 64,
        hidden: 2,
    };
    let report = DebtReport::of(&totals, limits(), WALL);
    let (_, json) = report.render(&TraceQuery::parse("json"));
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["refused_in_all"], 6);
    assert_eq!(json["horizon_shares"], serde_json::json!([0.9, 0.9]));
    let horizon = &json["limits"][0]["horizons"][1];
    assert_eq!(
        (
            horizon["bytes_per_s"].as_f64(),
            horizon["period_s"].as_f64()
        ),
        (Some(12_500.0), Some(3600.0))
    );
    let (_, html) = report.render(&TraceQuery::parse(""));
    assert!(
        html.contains("5 of 1000") && html.contains("90.0 %"),
        "{html}"
    );
}

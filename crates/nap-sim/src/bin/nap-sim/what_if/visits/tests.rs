use super::*;
use clap::Parser;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: WhatIfOptions,
}

const SHOP: &str = "ThreadsPerChild 64\nMaxRequestWorkers 640\n<NapRoom shop>\nNapRunReady 6\n\
    <NapPage search ^/search$>\nNapRunReady 2\n</NapPage>\n";
const SESSIONS: &str = "NapSession start=^/login$ end=^/logout$ idle=2min\n";
const LISTED: &str = "shop:30*2,search:300:0.1,shop:30";

/// The results of these options in a room with this configuration.
fn visits(conf: &str, options: &[&str], script: &str) -> Result<(Visits, ShopOutcome), String> {
    let id = format!("{}-{:?}", std::process::id(), std::thread::current().id());
    let file = |name: &str| std::env::temp_dir().join(format!("nap-{name}-{id}"));
    let [httpd, crowd] = [file("visits"), file("crowd")];
    let text = format!("{SHOP}{conf}</NapRoom>\n");
    std::fs::write(&httpd, text).expect("a temporary file");
    std::fs::write(&crowd, script).expect("a temporary file");
    let [httpd_name, crowd_name] = [&httpd, &crowd].map(|file| file.display().to_string());
    let mut line = vec!["what-if", "--conf", &httpd_name];
    if !script.is_empty() {
        line.extend(["--script", &crowd_name]);
    }
    line.extend(options);
    let told = Line::try_parse_from(line).map_err(|e| e.to_string());
    let run = told.and_then(|Line { options }| {
        let configured = super::super::conf::read(&httpd, None, 2)?;
        let Some(specs) = &options.pages else {
            return Err(wanted(&configured).expect_err("it has a page"));
        };
        let visits = options.visits(specs, configured)?;
        let outcome = Shop::visited(visits.site.clone());
        Ok((visits, outcome))
    });
    for file in [httpd, crowd] {
        std::fs::remove_file(file).expect("it was ours");
    }
    run
}

fn good(conf: &str, options: &[&str], script: &str) -> (Visits, ShopOutcome) {
    visits(conf, options, script).unwrap_or_else(|why| panic!("{options:?}: {why}"))
}

#[test]
fn a_room_with_sessions_fails_nobody_half_way() {
    let crowd = [
        "--pages",
        LISTED,
        "--clients",
        "300",
        "--cores",
        "2",
        "--think",
        "1",
    ];
    let (room, ours) = good(SESSIONS, &crowd, "");
    let told = format!("{ours:?}");
    assert_eq!((room.came(), ours.sessions), (300, 300), "{told}");
    let promised = (ours.mid_session, ours.members_refused, ours.broken);
    assert_eq!(promised, (0, 0, 0), "{told}");
    assert!(
        ours.tickets > 50 && ours.told_s.len() as u64 == ours.tickets,
        "{told}"
    );
    assert_eq!(
        ours.response_s.iter().map(Vec::len).collect::<Vec<_>>(),
        [300; 4]
    );
    assert_eq!(
        good(SESSIONS, &crowd, "").1,
        ours,
        "the same command, another run"
    );

    // Without the module the same visitors lose their patience, midway too.
    let open = [&crowd[..], &["--uncontrolled", "--patience", "30"]].concat();
    let (_, open) = good(SESSIONS, &open, "");
    assert!(
        open.mid_session > 0 && open.sessions + open.gone == 300,
        "{open:?}"
    );
    assert_eq!(open.tickets, 0);
}

#[test]
fn page_gates_alone_sell_their_own_tickets_and_keep_them() {
    let shares = "shop:30@0.7,search:300@0.3";
    let options = [
        "--pages",
        shares,
        "--posts",
        "3",
        "--clients",
        "200",
        "--cores",
        "4",
    ];
    let (room, ours) = good("", &options, "");
    assert_eq!(
        (ours.sessions, ours.broken, ours.members_refused),
        (200, 0, 0)
    );
    assert!(ours.tickets > 50, "{ours:?}");
    let [light, heavy] = [0, 1].map(|kind| ours.response_s[kind].len() as f64);
    assert_eq!(light + heavy, 600.0);
    assert!((heavy / 600.0 - 0.3).abs() < 0.08, "{heavy}");
    // Response times are within the bound; longer waits happened outside.
    let longest = Sorted::of(&ours.response_s[1]).quantile(1.0);
    assert!(longest < room.bound_s + 2.0, "{longest}");
    let json = room.json(&ours);
    for (pointer, n) in [
        ("/sessions/completed", 200.0),
        ("/pages/1/response/count", heavy),
        ("/tickets/issued", ours.tickets as f64),
    ] {
        assert_eq!(
            json.pointer(pointer).and_then(Value::as_f64),
            Some(n),
            "{pointer}"
        );
    }
    let text = room.report(&ours, "nap-sim what-if").markdown(None);
    assert!(text.contains("| search, 300 ms |"), "{text}");
}

#[test]
fn a_script_says_when_visitors_come_and_how_much_they_want() {
    let (room, ours) = good(SESSIONS, &["--pages", LISTED], "at 5s crowd 20 within 2s\n");
    assert_eq!((room.came(), ours.sessions), (20, 20));
    let shares = ["--pages", "shop:30@0.5,search:30@0.5"];
    let (_, ours) = good("", &shares, "crowd 10 posts 4\nat 9s crowd 5 posts 2\n");
    let pages: usize = ours.response_s.iter().map(Vec::len).sum();
    assert_eq!((ours.sessions, pages), (15, 50));
}

#[test]
fn what_is_not_simulated_is_told() {
    let cases: [(&str, &[&str], &str, &str); 16] = [
        (
            SESSIONS,
            &[],
            "",
            "room shop has NapPage search and NapSession: --pages says",
        ),
        ("", &[], "", "room shop has NapPage search: --pages says"),
        (
            "",
            &["--pages", "serch:30"],
            "",
            "--pages serch: there is no such gate; known: shop",
        ),
        ("", &["--pages", "shop"], "", "GATE:MS"),
        ("", &["--pages", "shop:-3"], "", "a number above 0"),
        ("", &["--pages", "shop:3:1:2"], "", "GATE:MS"),
        ("", &["--pages", "shop:3*0"], "", "\"0\" is no whole number"),
        ("", &["--pages", "shop:3*2@0.5"], "", "not both"),
        (
            "",
            &["--pages", "shop:3@0.5,search:3"],
            "",
            "either each page has a share",
        ),
        (
            "",
            &["--pages", "shop:3@0.5,search:3@0.4", "--posts", "2"],
            "",
            "add up to 0.9",
        ),
        ("", &["--pages", "shop:3@1"], "", "--posts says how many"),
        (
            "",
            &["--pages", "shop:3", "--posts", "2"],
            "",
            "--posts goes with shares",
        ),
        (
            "",
            &["--pages", "shop:3", "--hammer", "0.1"],
            "",
            "cannot be used with",
        ),
        (
            "",
            &["--pages", "shop:3"],
            "crowd 5\nat 1s kill\n",
            "is not simulated together with",
        ),
        (
            "",
            &["--pages", "shop:3"],
            "crowd 5 posts 2\n",
            "without shares (@)",
        ),
        (
            "",
            &["--pages", "shop:3", "--curve", "5:0.5,2:1"],
            "",
            "--curve: numbers of jobs",
        ),
    ];
    for (conf, options, script, why) in cases {
        let told = visits(conf, options, script).err().unwrap_or_default();
        assert!(told.contains(why), "{options:?} {script:?}: {told}");
    }
}

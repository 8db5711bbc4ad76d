//! What a room schedules and what it lets pass: static files, exemptions, NapEngine, NapAdmit, <Proxy>; and
//! what goes into the log.
//!
//! The room has one permit, which a held access has, and nobody may wait: 503 means scheduled, 200 means let
//! pass.

use nap_testkit::fcgi::Responder;
use nap_testkit::{Builder, Httpd, for_each_mpm, wait_until};
use std::io::Write as _;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);
const TERMS: &str = "NapRunReady 1
NapWaitMax 2s
NapWaitLimit 0
NapReAccess 4
NapSlotPeriod 1s
NapTicketsPerClient 1000
";

const APP: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nthe application\\n'\n";

fn site(in_room: &str, config: &str) -> Builder {
    Httpd::builder()
        .nap()
        .holding()
        .config(&format!("<NapRoom site>\n{TERMS}{in_room}\n</NapRoom>"))
        .config("<Location />\nNapUse site\n</Location>")
        .cgi("app", APP)
        .file("htdocs/a.txt", "a text\n")
        .config(config)
}

#[track_caller]
fn assert_statuses(httpd: &Httpd, table: &[(&str, &str, u16)]) {
    for (method, path, status) in table {
        let answer = httpd.request(method, path, &[], b"");
        assert_eq!(answer.status, *status, "{method} {path}: {answer:?}");
        let ours = answer.header("nap-ticket").is_some();
        assert_eq!(ours, *status == 503, "{method} {path}: {answer:?}");
    }
}

#[test]
fn static_files_and_methods_without_work_pass_a_full_room() {
    let httpd = site(
        "",
        "<Location /free>\nNapUse None\n</Location>\nScriptAlias /free {root}/cgi-bin/app",
    )
    .start();
    let _held = httpd.hold("full", 1);
    assert_statuses(
        &httpd,
        &[
            ("GET", "/a.txt", 200),
            ("HEAD", "/a.txt", 200),
            ("GET", "/none.txt", 404),
            ("GET", "/free", 200),
            ("GET", "/cgi-bin/app", 503),
            ("HEAD", "/cgi-bin/app", 503),
            ("POST", "/cgi-bin/app", 503),
            ("PUT", "/cgi-bin/app", 503),
            ("OPTIONS", "/cgi-bin/app", 200),
            ("TRACE", "/cgi-bin/app", 200),
            ("GET", "/nap-info", 200),
            ("GET", "/nap-ticket", 404),
        ],
    );
}

#[test]
fn napstatic_schedules_files_too() {
    let httpd = site("NapStatic On", "").start();
    assert_eq!(httpd.get("/a.txt").text(), "a text\n");
    let _held = httpd.hold("full", 1);
    assert_statuses(
        &httpd,
        &[("GET", "/a.txt", 503), ("GET", "/cgi-bin/app", 503)],
    );
}

#[test]
fn napexempt_lets_its_requests_pass() {
    let exempt = "NapExempt \"%{QUERY_STRING} == 'vip'\"
        NapExempt \"%{HTTP:X-Probe} == 'yes'\"";
    let httpd = site(exempt, "").start();
    let _held = httpd.hold("full", 1);
    assert_statuses(
        &httpd,
        &[
            ("GET", "/cgi-bin/app?vip", 200),
            ("GET", "/cgi-bin/app?vip2", 503),
        ],
    );
    let probe = httpd.request("GET", "/cgi-bin/app", &[("X-Probe", "yes")], b"");
    assert_eq!(probe.status, 200);
}

#[test]
fn napengine_off_and_dryrun_let_all_pass_and_dryrun_counts() {
    let httpd = site(
        "",
        "<Location /cgi-bin/app/off>\nNapEngine Off\n</Location>
         <Location /cgi-bin/app/dry>\nNapEngine DryRun\n</Location>",
    )
    .start();
    let held = httpd.hold("full", 1);
    for _ in 0..3 {
        assert_statuses(
            &httpd,
            &[
                ("GET", "/cgi-bin/app/off", 200),
                ("GET", "/cgi-bin/app/dry", 200),
                ("GET", "/cgi-bin/app/on", 503),
            ],
        );
    }
    // The dry run gave back what it took.
    held.release();
    httpd.until_idle();
    assert_statuses(
        &httpd,
        &[
            ("GET", "/cgi-bin/app/dry", 200),
            ("GET", "/cgi-bin/app/on", 200),
        ],
    );
}

/// What happens to a NapUse in `<Proxy>`.
#[derive(PartialEq)]
enum Use {
    Holds,
    /// It has no effect, and a warning says so.
    Passed,
    /// It is not meant to have an effect.
    NotMeant,
}
use Use::{Holds, NotMeant, Passed};

/// An address in `<Proxy>`, and a way to a backend. {http} and {fcgi} are backends, {n} is the way's own
/// name.
const WAYS: [(Use, &str, &str); 19] = [
    (Holds, "{http}/{n}", "ProxyPass /{n} {http}/{n}"),
    (Holds, "{http}/{n}", "ProxyPassMatch ^/({n}) {http}/$1"),
    (
        Holds,
        "{http}/{n}",
        "<Location /{n}>\nProxyPass {http}/{n}\n</Location>",
    ),
    (Holds, "{http}/{n}", "RewriteRule ^/{n} {http}/{n} [P]"),
    (
        Holds,
        "{http}/{n}",
        "<IfModule mod_rewrite.c>\nRewriteRule ^/{n} {http}/{n} [P]\n</IfModule>",
    ),
    (Holds, "{fcgi}/{n}", "ProxyPass /{n} {fcgi}/{n}"),
    (Holds, "balancer://{n}", "ProxyPass /{n} balancer://{n}"),
    (
        Holds,
        "balancer://{n}",
        "RewriteRule ^/{n} balancer://{n}/ [P]",
    ),
    (Holds, "fcgi://{n}", "ProxyPass /{n} unix:/none|fcgi://{n}/"),
    (
        Holds,
        "unix:/none|fcgi://{n}",
        "RewriteRule ^/{n} unix:/none|fcgi://{n}/ [P]",
    ),
    (
        Passed,
        "unix:/none|fcgi://{n}",
        "ProxyPass /{n} unix:/none|fcgi://{n}/ ttl=1",
    ),
    (
        Passed,
        "{fcgi}/{n}/",
        "<Location /{n}>\nSetHandler proxy:{fcgi}/{n}\n</Location>",
    ),
    (
        Passed,
        "balancer://{n}",
        "<Location /{n}>\nSetHandler proxy:balancer://{n}\n</Location>",
    ),
    (
        Passed,
        "fcgi://{n}",
        "<Location /{n}>\nSetHandler proxy:unix:/none|fcgi://{n}\n</Location>",
    ),
    (
        Passed,
        "{http}/{n}",
        "<Location /{n}>\nRewriteEngine On\nRewriteRule ^ {http}/{n} [QSA,P]\n</Location>",
    ),
    (
        Passed,
        "{http}/{n}",
        "<LocationMatch {n}>\n<IfModule mod_rewrite.c>\nRewriteEngine On\n\
         RewriteRule ^ {http}/{n} [P]\n</IfModule>\n</LocationMatch>",
    ),
    (NotMeant, "{http}/other", "ProxyPass /{n} {http}/{n}"),
    // <Location> comes after <Proxy>.
    (
        NotMeant,
        "{http}/{n}",
        "<Location /{n}>\nProxyPass {http}/{n}\nNapUse None\n</Location>",
    ),
    // As the warning suggests.
    (
        Holds,
        "{fcgi}/{n}",
        "<Location /{n}>\nNapUse site\nSetHandler proxy:{fcgi}/{n}\n</Location>",
    ),
];

/// Each way in its own file: a warning names the file.
fn with_ways(http: &str, fcgi: &str) -> Builder {
    let mut site = Httpd::builder()
        .nap()
        .holding()
        .modules(&["rewrite", "proxy", "proxy_http", "proxy_fcgi"])
        .modules(&["proxy_balancer", "slotmem_shm", "lbmethod_byrequests"])
        .config(&format!("<NapRoom site>\n{TERMS}</NapRoom>"))
        .config("<Location /cgi-bin>\nNapUse site\n</Location>\nRewriteEngine On")
        .expect_log("mod_nap: NapUse site in <Proxy>", "some go past it")
        .expect_log("/none", "nobody is behind that socket")
        .expect_log("AH01079:", "the same");
    for (name, (_, proxy, config)) in named_ways() {
        let member = match proxy.starts_with("balancer") {
            true => "BalancerMember {http}\n",
            false => "",
        };
        let lines = format!("<Proxy \"{proxy}\">\n{member}NapUse site\n</Proxy>\n{config}\n")
            .replace("{http}", http)
            .replace("{fcgi}", fcgi)
            .replace("{n}", &name);
        site = site.file(&name, lines);
        site = site.config(&format!("Include {{root}}/{name}"));
    }
    site
}

fn named_ways() -> impl Iterator<Item = (String, &'static (Use, &'static str, &'static str))> {
    (10..).map(|n| format!("way{n}")).zip(&WAYS)
}

#[test]
fn napuse_in_proxy_holds_where_mod_proxy_looks_there_and_else_the_log_says_so() {
    let fcgi = Responder::start(Some("Content-Type: text/plain\r\n\r\nthe application\n"));
    let http = Httpd::builder().config("ScriptAliasMatch ^ {root}/cgi-bin/app");
    let http = http.cgi("app", APP).start();
    let httpd = with_ways(&http.url(), &fcgi.url()).start();
    for (name, (_, _, way)) in named_ways() {
        let answer = httpd.get(&format!("/{name}"));
        let reached = answer.text().contains("the application");
        assert_eq!(reached, !way.contains("unix:"), "{way}: {answer:?}");
    }
    let _held = httpd.hold("full", 1);
    let log = httpd.error_log();
    for (name, (becomes, _, way)) in named_ways() {
        let answer = httpd.get(&format!("/{name}"));
        let ours = answer.header("nap-ticket").is_some();
        assert_eq!(ours, *becomes == Holds, "{way}: {answer:?}");
        let told = log.contains(&format!("/{name} line"));
        assert_eq!(told, *becomes == Passed, "{way}: {log}");
    }
}

#[test]
fn napadmit_early_answers_before_the_login() {
    let login = "<Location /cgi-bin/app>
        AuthType Basic\nAuthName us\nAuthBasicProvider file\nAuthUserFile {root}/users
        Require valid-user
        </Location>";
    for (admit, full) in [("early", 503), ("late", 401)] {
        let httpd = site(&format!("NapAdmit {admit}"), login)
            .modules(&["auth_basic", "authn_core", "authn_file", "authz_user"])
            .file("users", "")
            .start();
        // A failed login keeps no permit.
        for _ in 0..3 {
            assert_statuses(&httpd, &[("GET", "/cgi-bin/app", 401)]);
        }
        let _held = httpd.hold("full", 1);
        assert_statuses(&httpd, &[("GET", "/cgi-bin/app", full)]);
    }
}

/// `Satisfy Any` goes on whatever an access checker says.
#[test]
fn with_satisfy_any_too_who_hangs_up_while_he_waits_has_run_nothing() {
    const CLIENTS: usize = 5;
    for_each_mpm(|mpm| {
        let room = "<NapRoom site>\nNapRunReady 1\nNapWaitMax 10min\nNapWaitLimit 20
             NapAdmit early\n</NapRoom>
             <Location />\nNapUse site\nSatisfy Any\nRequire all granted\n</Location>
             <Location /nap-info>\nNapUse None\n</Location>";
        let httpd = Httpd::builder()
            .nap()
            .holding()
            .mpm(mpm)
            .workers(1, 25)
            .modules(&["access_compat"])
            .config(room)
            .start();
        let held = httpd.hold("one", 1);
        let ask = b"GET /counter HTTP/1.0\r\n\r\n";
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let mut stream = httpd.connect();
                stream.write_all(ask).expect("httpd reads");
                stream
            })
            .collect();
        httpd.until_waiting(CLIENTS);
        drop(clients);
        wait_until("their requests are over", PATIENCE, || {
            httpd.access_log().matches("/counter").count() == CLIENTS
        });
        assert_eq!(httpd.counter().started, 0);
        held.release();
        assert_eq!(httpd.get("/counter").status, 200);
    });
}

#[test]
fn the_log_is_told_of_who_waited_was_refused_or_had_a_ticket() {
    let httpd = site("", "")
        .access_log_format("%U %>s %{nap-group}n %{nap-wait}n %{nap-ticket}n %{nap-ticket-fate}n .")
        .start();
    assert_eq!(httpd.get("/cgi-bin/app/quiet").status, 200);
    let held = httpd.hold("full", 1);
    let refused = httpd.get("/cgi-bin/app/refused");
    let token = refused.header("nap-ticket").expect("a ticket").to_string();
    let page = refused.text();
    let image = [("Sec-Fetch-Dest", "image")];
    assert_eq!(
        httpd
            .request("GET", "/cgi-bin/app/image", &image, b"")
            .status,
        503
    );
    held.release();
    httpd.until_idle();
    let ticket = [("Nap-Ticket", token.as_str())];
    assert_eq!(
        httpd
            .request("GET", "/cgi-bin/app/redeemed", &ticket, b"")
            .status,
        200
    );
    let line = |name: &str| {
        let start = format!("/cgi-bin/app/{name} ");
        let mut found = None;
        wait_until("it is logged", PATIENCE, || {
            let log = httpd.access_log();
            found = log
                .lines()
                .find(|l| l.starts_with(&start))
                .map(str::to_string);
            found.is_some()
        });
        let found = found.expect("just seen");
        found
            .split(' ')
            .skip(1)
            .map(str::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(line("quiet"), ["200", "-", "-", "-", "-", "."]);
    let refused = line("refused");
    assert_eq!(refused[..2], ["503", "next-wait"]);
    assert!(
        refused[2].parse::<f64>().is_ok_and(|s| s < 60.0),
        "{refused:?}"
    );
    assert!(
        page.contains(&refused[3]),
        "the page names the ticket as the log does"
    );
    assert_eq!(refused[4], "full");
    assert_eq!(line("image")[3..5], ["-", "not-sold"]);
    let redeemed = line("redeemed");
    assert_eq!(redeemed[..2], ["200", "run"]);
    assert_eq!(redeemed[3], refused[3], "the same ticket");
}

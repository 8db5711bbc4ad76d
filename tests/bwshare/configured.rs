//! What is configured: it holds by place and by virtual host, and a wrong value stops configtest.

use crate::{passes, site};
use nap_testkit::Httpd;

#[test]
fn settings_hold_by_place_and_by_virtual_host() {
    let httpd = site(
        "BwShareFiles 2 0.0001\nBwShareExempt \"%{HTTP_USER_AGENT} == 'probe'\"\n\
         Alias /free {root}/htdocs\nAlias /dry {root}/htdocs\n\
         <Location /free>\nBW_throttle_off\n</Location>\n\
         <Location /dry>\nBwShare DryRun\n</Location>\n\
         <VirtualHost *>\nServerName localhost\nDocumentRoot {root}/htdocs\n</VirtualHost>\n\
         <VirtualHost *>\nServerName strict\nDocumentRoot {root}/htdocs\nBW_tx1debt_max 1\n\
         </VirtualHost>",
    )
    .start();
    assert_eq!(passes(&httpd, "192.0.2.1", "/free/page.html", 5), 5);
    assert_eq!(passes(&httpd, "192.0.2.1", "/page.html", 5), 2);
    assert_eq!(passes(&httpd, "192.0.2.1", "/dry/page.html", 3), 3);
    assert_eq!(
        httpd.get("/bwshare-info?json").json()["would_be_refused"],
        3
    );
    let probe = [("X-Forwarded-For", "192.0.2.1"), ("User-Agent", "probe")];
    assert_eq!(httpd.request("GET", "/page.html", &probe, b"").status, 200);
    let strict = [("X-Forwarded-For", "192.0.2.1"), ("Host", "strict")];
    let ask = || httpd.request("GET", "/page.html", &strict, b"").status;
    assert_eq!([ask(), ask()], [200, 429], "debts and limits of its own");
}

#[test]
fn a_wrong_value_stops_configtest_with_directive_value_and_range() {
    for (config, words) in [
        (
            "BwShareFiles 0 1",
            "BwShareFiles: \"0\" is not a number of files from 1",
        ),
        (
            "BwShareFiles 30 -1",
            "\"-1\" is not files a second from 0.0001",
        ),
        ("BwShareBytes NaN 1", "\"NaN\" is not bytes"),
        ("BwShareBytes 500000 1e30", "\"1e30\" is not bytes a second"),
        ("BwShare Perhaps", "use On, Off or DryRun"),
        (
            "BwShareStatus 404",
            "BwShareStatus: \"404\" is not known; use 503, 429, or 200",
        ),
        ("BwShareClient 64 64", "from 8 to 32"),
        ("BwShareRule fair", "\"fair\" is not exact or literal"),
        ("BwShareHorizon 1000 1s", "BwShareHorizon: wants"),
        (
            "BwShareHorizon 1e30 1s 0.5",
            "\"1e30\" is not bytes a second",
        ),
        (
            "BwShareLink -1",
            "BwShareLink: \"-1\" is not bytes a second",
        ),
        ("BwShareFiles 1e30 1", "\"1e30\" is not a number of files"),
        ("BwShareFiles 30 NaN", "\"NaN\" is not files a second"),
        ("BwShareExempt \"((\"", "is not an expression"),
        (
            "BwShareBytes 10G 1",
            "BwShareBytes: a debt of 10737418240 takes more than 36 years",
        ),
        (
            "BwShareFiles 1000000 1\n<VirtualHost *>\nServerName slow\n\
             BW_tx1cred_rate 0.0001\n</VirtualHost>",
            "BwShareFiles: a debt of 1000000 takes more than 36 years",
        ),
    ] {
        let said = Httpd::configtest(config).expect_err(config);
        assert!(said.contains(words), "{config}: {said}");
    }
    assert_eq!(
        Httpd::configtest("BwShareHorizon 125000 1s 0.95\nBwShare On"),
        Ok(())
    );
}

#[test]
fn a_wrong_value_of_a_historic_name_stops_configtest_too() {
    for (name, what) in [
        ("BW_tx1cred_rate", "files a second"),
        ("BW_tx1debt_max", "a number of files"),
        ("BW_tx2cred_rate", "bytes a second"),
        ("BW_tx2debt_max", "bytes"),
    ] {
        for value in ["0", "-1", "NaN", "1e30"] {
            let said = Httpd::configtest(&format!("{name} {value}")).expect_err(value);
            let begins = said.contains(&format!("{name}: \"{value}\" is not {what}"));
            assert!(
                begins && said.contains(" from ") && said.contains(" to "),
                "{said}"
            );
        }
    }
    for value in ["2", "-1", "NaN", "1e30", "1 0"] {
        let said = Httpd::configtest(&format!("BW_throttle_off {value}")).expect_err(value);
        assert!(said.contains("BW_throttle_off: wants nothing, or 1 or 0"));
    }
}

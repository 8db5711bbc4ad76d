//! Wrong configurations stop configtest, and the message says what was wrong: directive, value, range.

use nap_testkit::Httpd;
use nix::unistd::geteuid;

/// configtest's complaint about these lines.
fn complaint(config: &str) -> String {
    match Httpd::configtest(config) {
        Ok(()) => panic!("it passes: {config}"),
        Err(said) => said,
    }
}

fn in_room(line: &str) -> String {
    format!("<NapRoom site>\n{line}\n</NapRoom>")
}

#[test]
fn a_wrong_value_is_told_with_directive_value_and_range() {
    let room = [
        (
            "NapRunReady 0",
            "\"0\" is out of range; use auto, paper, or a number from 1 to 1024",
        ),
        ("NapRunReady lots", "\"lots\" is not a"),
        ("NapRunReady 4 min=2", "options go with auto and paper only"),
        (
            "NapWaitMax 4parsec",
            "\"4parsec\" is not a time; use e.g. 500ms, 4s or 5min, from 100ms to 10min",
        ),
        ("NapWaitMax 11min", "\"11min\" is out of range"),
        ("NapWaitLimit -1", "\"-1\""),
        ("NapReAccess paper", "\"paper\""),
        ("NapHistory 5", "\"5\" is out of range"),
        ("NapDownload 1", "\"1\" is out of range"),
        ("NapSlotPeriod 10ms", "\"10ms\" is out of range"),
        ("NapSlotTickets 0", "\"0\" is out of range"),
        ("NapTicketLifetime 1s", "\"1s\" is out of range"),
        ("NapTicketPrime 2h", "\"2h\" is out of range"),
        ("NapTicketHorizon 1s", "\"1s\" is out of range"),
        ("NapTicketShare 1.5", "\"1.5\" is out of range"),
        ("NapOverbook 3", "\"3\" is out of range"),
        ("NapTicketsPerClient 0", "\"0\" is out of range"),
        ("NapTicketCookie a;b", "\"a;b\" is not a cookie's name"),
        (
            "NapTicketCookie a Max-Age=5",
            "\"Max-Age=5\" is not an attribute",
        ),
        ("NapTicketBind me", "\"me\""),
        ("NapTicketStatus 404", "\"404\""),
        (
            "NapPage a (",
            "NapPage a: \"(\" is not a regular expression: ",
        ),
        ("NapPage a/b x", "\"a/b\" is not a name for a page"),
        (
            "NapPage a x\nNapPage a y",
            "NapPage a: room site has a page of this name already, in",
        ),
        (
            "NapPage a x gate=b",
            "NapPage a: \"gate=b\" is not an option; there is room=",
        ),
        (
            "NapPage a x room=site",
            "NapPage a: room=site: that room has no page a of its own",
        ),
        ("NapAdmit never", "\"never\""),
        ("NapStatic perhaps", "NapStatic: \"perhaps\""),
        ("NapExempt \"%{REQUEST_URI} =~\"", "is not an expression"),
        (
            "NapPriority 3 \"%{REQUEST_URI} =~\"",
            "is not an expression",
        ),
        (
            "NapPriority 8 true",
            "\"8\" is out of range; use a number from 1 to 7",
        ),
        (
            "NapPriority high",
            "wants a number from 1 to 7 and an expression",
        ),
        (
            "NapPriority 3",
            "wants a number from 1 to 7 and an expression",
        ),
    ];
    for (line, words) in room {
        let said = complaint(&in_room(line));
        let directive = line.split(' ').next().expect("a directive");
        assert!(
            said.contains(directive) && said.contains(words),
            "{line}: {said}"
        );
        assert!(said.contains("line "), "{line}: {said}");
    }
    let server = [
        ("NapReserve 100%", "\"100%\""),
        (
            "NapStore localhost",
            "\"localhost\" is no address of a store; use e.g. redis://localhost:6379",
        ),
        (
            "NapStore",
            "wants an address, e.g. redis://localhost:6379, or Off",
        ),
        (
            "NapStore redis://:a@b",
            "put the password into NapStoreAuth: the configuration is read by more people",
        ),
        (
            "NapStore redis://a size=1",
            "\"size=1\" is not an option; there are sticky, spare=, fleet=, timeout=, forget= and agent=",
        ),
        (
            "NapStore redis://a timeout=1s",
            "\"timeout=1s\" is out of range; use e.g. 500ms, 4s or 5min, from 1ms to 250ms",
        ),
        (
            "NapStore redis://a",
            "wants NapTicketKey: tickets of this server could not be told by the others",
        ),
        ("NapStoreAuth |cat", "takes a file, not a command"),
        ("NapNode \"web 2\"", "\"web 2\" is not a node's name"),
        ("NapPark maybe", "\"maybe\""),
        ("NapTables size=3", "\"size=3\" is not an option"),
        ("NapTicketPath ticket", "\"ticket\" is not a path"),
        (
            "NapEngine maybe",
            "\"maybe\" is not known; use On, Off or DryRun",
        ),
        ("NapTicketStatus 0", "\"0\""),
    ];
    for (line, words) in server {
        let said = complaint(line);
        let directive = line.split(' ').next().expect("a directive");
        assert!(
            said.contains(directive) && said.contains(words),
            "{line}: {said}"
        );
    }
}

#[test]
fn a_directive_in_the_wrong_place_is_told_where_it_belongs() {
    let table = [
        ("NapRunReady 4", "NapRunReady belongs inside <NapRoom name>"),
        ("NapStatic On", "NapStatic belongs inside <NapRoom name>"),
        (
            "<NapRoom a>\nNapReserve 3\n</NapRoom>",
            "NapReserve does not belong inside <NapRoom>",
        ),
        (
            "<NapRoom a>\nNapUse a\n</NapRoom>",
            "NapUse does not belong inside <NapRoom>",
        ),
        (
            "<NapRoom a>\nRedirect 404 /x\n</NapRoom>",
            "Redirect does not belong inside",
        ),
        (
            "<NapRoom a>\n<NapRoom b>\n</NapRoom>\n</NapRoom>",
            "<NapRoom does not belong inside",
        ),
        (
            "<NapPage a x>\n</NapPage>",
            "<NapPage belongs inside <NapRoom name>",
        ),
        (
            "<NapRoom a>\n<NapPage a x>\nNapHistory 50\n</NapPage>\n</NapRoom>",
            "NapHistory does not belong inside <NapPage>",
        ),
        (
            "<NapRoom a>\n<NapPage a x>\nNapStatic On\n</NapPage>\n</NapRoom>",
            "NapStatic does not belong inside <NapPage>",
        ),
        (
            "<NapRoom a>\n<NapPage a>\n</NapPage>\n</NapRoom>",
            "<NapPage>: wants a name, a regular expression",
        ),
        (
            "<NapRoom a b>\n</NapRoom>",
            "wants one name and nothing else",
        ),
        (
            "<NapRoom a/b>\n</NapRoom>",
            "\"a/b\" is not a name for a room",
        ),
        ("<NapRoom>\n</NapRoom>", "is not a name for a room"),
        (
            "<NapRoom a>\n</NapRoom>\n<NapRoom a>\n</NapRoom>",
            "this room is defined already",
        ),
        ("<Location /x>\nNapReserve 3\n</Location>", "NapReserve"),
        (
            "<VirtualHost *:80>\n<NapRoom a>\n</NapRoom>\n</VirtualHost>",
            "NapRoom",
        ),
    ];
    for (config, words) in table {
        let said = complaint(config);
        assert!(said.contains(words), "{config}: {said}");
    }
}

#[test]
fn what_does_not_fit_together_is_told() {
    let table = [
        ("NapUse nowhere", "NapUse: there is no <NapRoom nowhere>"),
        (
            "<Location /a>\nNapUse nowhere\n</Location>",
            "there is no <NapRoom nowhere>",
        ),
        (
            "<NapRoom a>\nNapTicketPrime 10min\nNapTicketLifetime 5min\n</NapRoom>",
            "NapTicketPrime 10min is longer than NapTicketLifetime 5min",
        ),
        (
            "NapPark Off\n<NapRoom a>\nNapRunReady 16\n</NapRoom>",
            "leave no worker to wait on under MaxRequestWorkers 16",
        ),
        (
            "NapPark Off\nNapReserve 5\n<NapRoom a>\nNapRunReady 6\n</NapRoom>",
            "NapRunReady 6 and 10 workers in reserve (NapReserve: 5 in each of 2 children) leave \
             no worker to wait on under MaxRequestWorkers 16",
        ),
        (
            "NapReserve 5\n<NapRoom a>\nNapRunReady 7\n</NapRoom>",
            "NapRunReady 7 and 10 workers in reserve (NapReserve: 5 in each of 2 children) are more \
             than MaxRequestWorkers 16; this room wants MaxRequestWorkers 17",
        ),
        (
            "NapTicketKey {root}/none\n<NapRoom a>\n</NapRoom>",
            "NapTicketKey {root}/none:",
        ),
        (
            "NapStateFile {root}/none/state\n<NapRoom a>\n</NapRoom>",
            "is not a directory",
        ),
    ];
    // Children have another user only if root starts the server.
    let as_root = (
        "NapStateFile {root}/data/state\n<NapRoom a>\n</NapRoom>",
        "the children's user can write",
    );
    let as_root = geteuid().is_root().then_some(as_root);
    for (config, words) in table.into_iter().chain(as_root) {
        let said = complaint(config);
        let parts = words.split("{root}");
        let all = parts.into_iter().all(|part| said.contains(part));
        assert!(all, "{config}: {said}");
    }
}

#[test]
fn what_would_be_without_effect_is_told() {
    for (config, said) in [
        (
            "<NapRoom None>\n</NapRoom>",
            "<NapRoom None>: no URL can be put into it",
        ),
        (
            "<NapRoom none>\n</NapRoom>",
            "<NapRoom None>: no URL can be put into it",
        ),
    ] {
        let httpd = Httpd::builder().nap().config(config);
        let why = httpd.configtest().expect_err("it has no effect");
        assert!(why.contains(said), "{config}: {why}");
    }
}

#[test]
fn a_key_file_is_read_by_configtest_and_the_line_that_is_wrong_is_told() {
    let of = |text: &str| {
        let httpd = Httpd::builder().nap();
        let httpd = httpd.secret("keys", text);
        httpd.config("NapTicketKey {root}/keys").configtest()
    };
    let docs = include_str!("../docs/security.md");
    let (_, lines) = docs.split_once("\n```\n").expect("the docs show a file");
    let (lines, _) = lines.split_once("```").expect("it ends");
    assert_eq!(lines.lines().count(), 2, "{lines}");
    assert_eq!(of(lines), Ok(()));
    assert_eq!(
        of(&format!("\u{feff}{}", lines.replace('\n', "\r\n"))),
        Ok(())
    );
    let hex = "00112233445566778899aabbccddeeff";
    for (text, said) in [
        (format!("k1 {hex}\n"), "keys: line 1: it begins with \"k1\""),
        (
            format!("1 {hex}\n1 {hex}\n"),
            "line 2: 1 is the id of a key above",
        ),
        (String::new(), "there is no key in it"),
        (
            format!("1 {hex}x\n"),
            "line 1: after the id come 32 hex digits or more",
        ),
    ] {
        let why = of(&text).expect_err("it is no key file");
        assert!(why.contains("NapTicketKey ") && why.contains(said), "{why}");
    }
}

#[test]
fn a_file_of_the_stores_password_is_checked_and_never_shown() {
    let of = |file: &str, readable: bool| {
        let httpd = Httpd::builder()
            .nap()
            .secret("keys", "1 00112233445566778899aabbccddeeff\n");
        let httpd = match readable {
            true => httpd.file("auth", file),
            false => httpd.secret("auth", file),
        };
        let lines = "NapTicketKey {root}/keys\nNapStore redis://a\nNapStoreAuth {root}/auth";
        httpd.config(lines).configtest()
    };
    assert_eq!(of("s3cret\n", false), Ok(()));
    assert_eq!(of("# ours\n\nnap s3cret\n", false), Ok(()));
    for (file, readable, said) in [
        ("s3cret\n", true, "auth: must not be readable by everybody"),
        (
            "s3cret\nis it\nso or not\n",
            false,
            "auth: line 2 is none of: a password,",
        ),
        (
            "s3cret\nca /nowhere.pem\n",
            false,
            "auth: ca /nowhere.pem: No such file or directory",
        ),
        (
            "s3cret\ncert /no.pem key /nor.pem\n",
            false,
            "auth: cert /no.pem: No such file or directory",
        ),
    ] {
        let why = of(file, readable).expect_err("it is no such file");
        assert!(why.contains("NapStoreAuth ") && why.contains(said), "{why}");
        assert!(!why.contains("s3cret"), "{why}");
    }
}

#[test]
fn what_a_fleet_does_not_share_is_told() {
    let of = |store: &str, room: &str| {
        let httpd = Httpd::builder()
            .nap()
            .secret("keys", "1 00112233445566778899aabbccddeeff\n");
        let config = format!(
            "NapTicketKey {{root}}/keys\n{store}\n<NapRoom shop>\n{room}\n</NapRoom>\n\
             <Location />\nNapUse shop\n</Location>"
        );
        httpd.config(&config).configtest()
    };
    let [store, sticky] = ["NapStore redis://a", "NapStore redis://a sticky"];
    for (store, room) in [
        (store, "NapRunReady 6 shared"),
        (store, "NapRunReady auto"),
        (sticky, "NapRunReady 6\nNapSession start=^/login"),
    ] {
        assert_eq!(of(store, room), Ok(()), "{store}, {room}");
    }
    for (store, room, said) in [
        (
            "",
            "NapRunReady 6 shared",
            "wants NapStore: without it there is nobody to share with",
        ),
        (
            store,
            "NapRunReady auto shared",
            "NapRunReady auto shared: give a number: a limit of all front ends does not find itself yet",
        ),
        (
            store,
            "NapRunReady 6\nNapSession start=^/login",
            "NapSession with NapStore wants \"sticky\": members must come back to the server that knows them",
        ),
        (
            sticky,
            "NapRunReady 6 shared\nNapSession start=^/login",
            "does not go with NapSession yet",
        ),
    ] {
        let why = of(store, room).expect_err("it cannot be shared");
        assert!(why.contains(said), "{store}, {room}: {why}");
    }
}

#[test]
fn too_many_rooms_are_told_with_their_number() {
    let rooms = |n| (0..n).map(|n| format!("<NapRoom r{n}>\n</NapRoom>\n"));
    Httpd::configtest(&rooms(256).collect::<String>()).expect("as many as may be");
    let said = complaint(&rooms(257).collect::<String>());
    assert!(
        said.contains("<NapRoom>: 257 rooms are too many; use at most 256"),
        "{said}"
    );
}

#[test]
fn too_many_pages_are_told_with_their_number() {
    let room = |n| {
        let pages = (0..n).map(|n| format!("NapPage p{n} ^/{n}\nNapRunReady 1\n"));
        format!(
            "NapPark Off\nNapReserve 0\n<NapRoom a>\n{}</NapRoom>",
            pages.collect::<String>()
        )
    };
    let said = complaint(&room(16));
    assert!(
        said.contains("NapPage p15: room a has 15 pages already; use at most 15"),
        "{said}"
    );
    let said = complaint(&room(15));
    assert!(
        said.contains("NapRunReady 1, 15 of its pages and 0 workers in reserve")
            && said.contains("leave no worker to wait on under MaxRequestWorkers 16"),
        "{said}"
    );
    Httpd::configtest(&room(14)).expect("one may wait");
}

#[test]
fn what_is_right_passes_in_any_order() {
    let right = "<Location /a>\nNapUse late\nNapTicketStatus 429\nNapEngine DryRun\n</Location>
        <NapRoom late>\nNapRunReady auto min=2 max=5\nNapExempt \"%{REQUEST_METHOD} == 'GET'\"
        NapTicketCookie mine SameSite=Strict\nNapTicketBind prefix\n</NapRoom>
        <If \"%{HTTP_HOST} == 'x'\">\nNapUse None\n</If>
        NapReserve 2\nNapTicketPath /queue";
    Httpd::configtest(right).expect("it is right");
    Httpd::configtest("").expect("no room at all");
}

#[test]
fn none_of_it_is_allowed_in_htaccess() {
    let httpd = Httpd::builder()
        .nap()
        .config("<NapRoom site>\nNapRunReady 1\nNapWaitLimit 1\n</NapRoom>")
        .config("<Directory {root}/htdocs>\nAllowOverride All\n</Directory>")
        .file("htdocs/a/.htaccess", "NapUse site\n")
        .file("htdocs/b/.htaccess", "NapEngine Off\n")
        .expect_log("not allowed here", "that is what is tested")
        .start();
    for path in ["/a/", "/b/"] {
        assert_eq!(httpd.get(path).status, 500, "{path}");
    }
}

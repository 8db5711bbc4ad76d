use super::*;
use crate::conf::samples::{room, server};

#[test]
fn a_room_has_a_plain_name() {
    for good in ["a", "shop", "A-1_b.c", &"x".repeat(63)] {
        assert_eq!(
            RoomConf::new(good).map(|r| r.name.as_str().to_string()),
            Ok(good.to_string())
        );
    }
    for bad in ["", "a b", "a/b", "ä", "a\"", "a\0", &"x".repeat(64)] {
        assert!(
            RoomConf::new(bad).expect_err(bad).contains("1 to 63"),
            "{bad}"
        );
    }
}

#[test]
fn an_empty_room_gets_the_defaults_of_the_table() {
    let mut room = room();
    assert_eq!(room.finish(&server(400, 25)), Ok(None));
    let want = RoomConf {
        run_ready: 2,
        run_ready_law: 1,
        run_ready_own: 0,
        run_ready_shared: 0,
        run_ready_min: 1,
        run_ready_max: 200,
        run_ready_history: 5,
        wait_max_us: 4 * SECOND,
        wait_limit: AUTO,
        re_access: AUTO,
        history: 100,
        download: M,
        body: 64 * K,
        keep_form: 64 * K,
        poll_base_us: 3 * SECOND,
        poll_rate: 500,
        poll_mode: 0,
        poll_k: 2,
        poll_form: 0,
        slot_period_us: 10 * SECOND,
        slot_tickets: AUTO,
        ticket_lifetime_us: 5 * MINUTE,
        ticket_prime_us: 0,
        ticket_horizon_us: 24 * HOUR,
        ticket_share_ppm: AUTO,
        overbook_ppm: AUTO,
        tickets_per_client: AUTO,
        ticket_bind: 0,
        admit_early: 0,
        schedule_static: 0,
        session: 0,
        progress: 0,
        ..RoomConf::new("shop").expect("a good name")
    };
    assert_eq!(room, want);
}

#[test]
fn a_charset_goes_with_the_size_of_a_form() {
    let set = |line: &str| {
        let mut room = room();
        let words: Vec<_> = line.split_whitespace().collect();
        room.directive(KeepForm, &words)
            .map(|()| (room.keep_form, room.form_charset.as_str().to_owned()))
    };
    assert_eq!(set("64k sjis"), Ok((64 * K, "Shift_JIS".into())));
    assert_eq!(set("1M"), Ok((M, String::new())));
    assert_eq!(
        set("64k utf-16"),
        Err(
            "NapKeepForm: \"utf-16\" is not a charset that browsers send forms in; use a \
             name of the WHATWG Encoding Standard, as Shift_JIS, EUC-JP or windows-1252"
                .into()
        )
    );
    let off = "NapKeepForm: a charset goes with a size only";
    assert_eq!(set("Off sjis"), Err(off.into()));
    let two = "NapKeepForm: wants a size, and at most one charset";
    assert_eq!(set("64k sjis utf-8"), Err(two.into()));
    assert!(set("").is_err());
}

#[test]
fn polls_have_a_base_interval_and_a_rate_that_make_sense_together() {
    let set = |line: &str| {
        let mut room = room();
        let words: Vec<_> = line.split_whitespace().collect();
        room.directive(Poll, &words)?;
        room.finish(&server(400, 25))?;
        Ok::<_, String>((room.poll_base_us, room.poll_rate, room.poll_mode))
    };
    assert_eq!(set("base=20s mode=relevel"), Ok((20 * SECOND, 500, 1)));
    assert_eq!(set("rate=9 k=3 form=paper"), Ok((3 * SECOND, 9, 0)));
    for (line, word) in [
        ("", "base=, rate="),
        ("base=500ms", "1s"),
        ("rate=0", "1 "),
        ("mode=often", "concentrate"),
        ("pace=3", "pace"),
        ("base=1s rate=1", "room for one poll"),
    ] {
        let told = set(line).expect_err(line);
        assert!(told.contains("NapPoll") && told.contains(word), "{told}");
    }
}

#[test]
fn a_default_gives_way_to_what_was_set_beside_it() {
    let prime_and_life = |lines: &[(Directive, &str)]| {
        let mut room = room();
        for (which, value) in lines {
            room.directive(*which, &[value]).expect("a good line");
        }
        room.finish(&server(4000, 25)).map(|_| {
            (
                room.ticket_prime_us / SECOND,
                room.ticket_lifetime_us / SECOND,
            )
        })
    };
    assert_eq!(prime_and_life(&[(WaitMax, "8s")]), Ok((0, 300)));
    assert_eq!(prime_and_life(&[(TicketPrime, "10min")]), Ok((600, 600)));
    assert_eq!(
        prime_and_life(&[(WaitMax, "20s"), (TicketLifetime, "10s")]),
        Ok((0, 10))
    );
    assert_eq!(prime_and_life(&[(TicketHorizon, "1min")]), Ok((0, 60)));
}

#[test]
fn combinations_that_cannot_be_are_refused() {
    type Case = (&'static [(Directive, &'static str)], u32, &'static str);
    let table: &[Case] = &[
        (
            &[(TicketPrime, "2min"), (TicketLifetime, "1min")],
            400,
            "room shop: NapTicketPrime 2min is longer than NapTicketLifetime 1min",
        ),
        (
            &[(TicketLifetime, "2h"), (TicketHorizon, "90min")],
            400,
            "room shop: NapTicketLifetime 2h is longer than NapTicketHorizon 90min",
        ),
        (
            &[(SlotPeriod, "5min"), (TicketHorizon, "2min")],
            400,
            "room shop: NapSlotPeriod 5min is longer than NapTicketHorizon 2min",
        ),
        (
            &[(RunReady, "140")],
            150,
            "room shop: NapRunReady 140 and 18 workers in reserve (NapReserve: 3 in each of 6 \
             children) leave no worker to wait on under MaxRequestWorkers 150; this room wants \
             MaxRequestWorkers 2398",
        ),
    ];
    for (lines, workers, want) in table {
        let mut room = room();
        for (which, value) in *lines {
            room.directive(*which, &[value]).expect("a good line");
        }
        assert_eq!(room.finish(&server(*workers, 25)), Err(want.to_string()));
    }
}

#[test]
fn a_prime_window_that_costs_rate_is_remarked_on_with_one_that_does_not() {
    type Case = (&'static [(Directive, &'static str)], Option<&'static str>);
    let table: &[Case] = &[
        (&[], None),
        (
            &[(WaitMax, "500ms")],
            Some(
                "room shop: NapWaitMax 500ms: tickets are sold for at most 27 % of what the server does; \
                 NapWaitMax 2s sells all of it",
            ),
        ),
        (&[(WaitMax, "2s")], None),
        (&[(TicketPrime, "auto")], None),
        (&[(TicketPrime, "2s")], None),
        (&[(TicketPrime, "30s"), (ReAccess, "20")], None),
        (&[(TicketPrime, "10s"), (WaitMax, "15s")], None),
        (
            &[(TicketPrime, "30s")],
            Some(
                "room shop: NapTicketPrime 30s with NapWaitMax 4s: tickets are sold for at most 11 % \
                 of what the server does; 2s or auto sells all of it",
            ),
        ),
        (
            &[(TicketPrime, "3s")],
            Some(
                "room shop: NapTicketPrime 3s with NapWaitMax 4s: tickets are sold for at most 80 % \
                 of what the server does; 2s or auto sells all of it",
            ),
        ),
        (
            &[(TicketPrime, "10s"), (WaitMax, "2s")],
            Some(
                "room shop: NapTicketPrime 10s with NapWaitMax 2s: tickets are sold for at most 15 % \
                 of what the server does; 1s or auto sells all of it",
            ),
        ),
        (
            &[(TicketPrime, "1s"), (WaitMax, "500ms")],
            Some(
                "room shop: NapTicketPrime 1s with NapWaitMax 500ms: tickets are sold for at most \
                 25 % of what the server does; auto with NapWaitMax 2s sells all of it",
            ),
        ),
    ];
    for (lines, want) in table {
        let mut room = room();
        for (which, value) in *lines {
            room.directive(*which, &[value]).expect("a good line");
        }
        let said = room.finish(&server(4000, 25)).expect("it starts");
        assert_eq!(said.as_deref(), *want, "{lines:?}");
    }
}

#[test]
fn too_few_workers_are_remarked_on() {
    let mut room = room();
    room.directive(RunReady, &["10"]).expect("a good line");
    let remark = room
        .finish(&server(150, 25))
        .expect("it starts")
        .expect("a remark");
    assert_eq!(
        remark,
        "room shop: MaxRequestWorkers 150 lets at most 122 wait beside 10 running and 18 in \
         reserve; this room wants MaxRequestWorkers 188"
    );
    assert_eq!(room.finish(&server(0, 0)), Ok(None), "workers not known");
}

//! Tests of [`RefusalPage`](super::RefusalPage).

use super::*;

const ALL: [Format; 3] = [Format::Html, Format::Json, Format::Text];

/// 2026-01-31 12:00:00.25 in Tokyo.
fn wall() -> Wall {
    Wall {
        unix: Micros(1_769_828_400_250_000),
        offset_min: 540,
        change: None,
    }
}

fn ticket(from: u64, prime: u64, until: u64) -> PageTicket<'static> {
    let [from, prime, until] = [from, prime, until].map(Micros::from_millis);
    PageTicket {
        token: "AbC_-9",
        id: 0xbead,
        from,
        prime,
        until,
    }
}

fn page(reason: Reason, ticket: Option<PageTicket<'static>>) -> RefusalPage<'static> {
    let retry_after = ticket.map_or(Micros::from_millis(8_500), |ticket| ticket.from);
    RefusalPage {
        reason,
        ticket,
        retry_after,
        status: 503,
        wall: wall(),
        room: "board",
        path: "/nap-ticket",
        sent: Sent::Nothing,
        notice: "",
        ask: None,
    }
}

fn body(page: &RefusalPage<'_>, format: Format, language: Language) -> String {
    render(page, format, language).body
}

fn reasons() -> impl Iterator<Item = Reason> {
    (0..Reason::COUNT as u32).map(Reason::of)
}

#[test]
fn the_page_says_when_the_ticket_is_good_and_in_how_long() {
    let page = page(Reason::Full, Some(ticket(195_000, 200_000, 495_000)));
    let text = body(&page, Format::Text, Language::En);
    assert_eq!(
        text,
        "Your turn comes in 3:15\n\n\
         The server is overloaded: more people have come than it can serve at once.\n\n\
         A ticket was issued to you. It is good from 12:03:16 until 12:08:15\n\
         by the server's clock (UTC+09:00). That is in 3:15.\n\
         In time, until 12:03:20: a place is kept for you.\n\
         Earlier: you are let in if there is room, and your ticket stays good.\n\
         Later, until 12:08:15: you are let in, or get a new time ahead of everyone without \
         a ticket.\n\
         Ticket 000000000000bead, board\n"
    );
    for language in Language::ALL {
        let html = body(&page, Format::Html, language);
        for needle in [
            "<meta http-equiv=\"refresh\" content=\"195\">",
            "<time datetime=\"2026-01-31T12:03:16+09:00\">12:03:16</time>",
            ">12:08:15</time>",
            ">12:03:20</time>",
            "<strong data-clock>3:15</strong>",
            "data-return-ms=\"195000\"",
            "data-ticket=\"AbC_-9\"",
            "href=\"/nap-ticket/nap.css?v=",
            "src=\"/nap-ticket/nap.js?v=",
            "000000000000bead",
        ] {
            assert!(html.contains(needle), "{needle} in {html}");
        }
        assert!(
            html.len() <= 6144,
            "{} bytes: raise the capacity",
            html.len()
        );
    }
}

#[test]
fn each_reason_has_its_own_sentence_in_each_language() {
    let mut seen = std::collections::HashSet::new();
    for (reason, language) in
        reasons().flat_map(|reason| Language::ALL.map(|language| (reason, language)))
    {
        for ticket in [None, Some(ticket(5_000, 9_000, 99_000))] {
            let page = page(reason, ticket);
            let why = filled(0, &Why(View::of(&page, language)));
            assert!(why.len() > 30 && why.trim() == why, "{reason:?}: {why:?}");
            assert!(body(&page, Format::Html, language).contains(&why), "{why}");
            assert!(body(&page, Format::Text, language).contains(&why), "{why}");
            if ticket.is_none() {
                assert!(seen.insert(why), "{reason:?}, {language:?}");
            }
        }
    }
}

#[test]
fn no_page_is_left_with_gaps_or_without_its_language() {
    let tickets = [
        None,
        Some(ticket(5_000, 9_000, 99_000)),
        Some(ticket(0, 4_000, 94_000)),
        Some(ticket(0, 0, 90_000)),
        Some(ticket(0, 0, 0)),
    ];
    for (reason, ticket) in reasons().flat_map(|reason| tickets.map(|one| (reason, one))) {
        for language in Language::ALL {
            let page = page(reason, ticket);
            let html = body(&page, Format::Html, language);
            assert!(html.starts_with("<!DOCTYPE html>\n<html lang=\""));
            assert!(html.contains(&format!("<html lang=\"{}\">", language.tag())));
            assert!(html.trim_end().ends_with("</html>"));
            assert_eq!(
                html.matches("http-equiv").count(),
                usize::from(page.refresh_seconds().is_some())
            );
            let text = body(&page, Format::Text, language);
            for gap in ["\n\n\n", "{{", "{%", "  ", " \n"] {
                assert!(!text.contains(gap) && !html.contains(gap), "{text}\n{html}");
            }
            assert!(text.ends_with('\n') && !text.contains('<'), "{text}");
        }
    }
}

#[test]
fn elements_close_in_the_order_they_opened() {
    for (reason, language) in
        reasons().flat_map(|reason| Language::ALL.map(|language| (reason, language)))
    {
        for ticket in [
            None,
            Some(ticket(5_000, 9_000, 99_000)),
            Some(ticket(0, 1, 2)),
        ] {
            let html = body(&page(reason, ticket), Format::Html, language);
            let mut open = Vec::new();
            for tag in html
                .split('<')
                .skip(1)
                .filter(|tag| !tag.starts_with(['!']))
            {
                let name = tag.split([' ', '>']).next().expect("split gives one");
                match name.strip_prefix('/') {
                    Some(name) => assert_eq!(open.pop(), Some(name), "{html}"),
                    None if ["meta", "link", "input"].contains(&name) => {}
                    None => open.push(name),
                }
            }
            assert!(open.is_empty(), "{open:?}");
        }
    }
}

#[test]
fn a_kept_form_is_in_the_page_escaped_and_then_there_is_no_refresh() {
    let body = b"q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E&submit=%26amp;&na%22me='";
    let form =
        form::SentForm::parse(b"application/x-www-form-urlencoded", body, None).expect("a form");
    for language in Language::ALL {
        let mut page = page(Reason::Full, Some(ticket(5_000, 9_000, 99_000)));
        page.sent = Sent::Kept(&form);
        let html = super::tests::body(&page, Format::Html, language);
        for needle in [
            "<form id=\"nap-form\" method=\"post\" enctype=\"application/x-www-form-urlencoded\"",
            "name=\"q\" value=\"&#34;&#62;&#60;script&#62;alert(1)&#60;/script&#62;\"",
            "name=\"submit\" value=\"&#38;amp;\"",
            "name=\"na&#34;me\" value=\"&#39;\"",
        ] {
            assert!(html.contains(needle), "{needle} in {html}");
        }
        assert!(!html.contains("http-equiv") && !html.contains("<script>"));
        page.sent = Sent::Lost;
        let html = super::tests::body(&page, Format::Html, language);
        assert!(!html.contains("http-equiv") && !html.contains("<form"));
        assert!(html.contains("nap-lost"), "{html}");
    }
}

#[test]
fn hostile_names_are_shown_and_never_executed() {
    let hostile = "</p><script>alert('1')</script>\"&\u{202e}\n";
    for language in Language::ALL {
        let mut page = page(Reason::Full, Some(ticket(5_000, 9_000, 99_000)));
        page.room = hostile;
        page.ticket = page.ticket.map(|ticket| PageTicket {
            token: hostile,
            ..ticket
        });
        let html = body(&page, Format::Html, language);
        assert!(
            !html.contains("<script>") && !html.contains("alert('1')"),
            "{html}"
        );
        assert!(html.contains("&#60;script&#62;"), "{html}");
        let json: serde_json::Value =
            serde_json::from_str(&body(&page, Format::Json, language)).expect("JSON");
        assert_eq!(json["ticket"]["token"], hostile);
    }
}

#[test]
fn a_page_opened_by_hand_does_not_return_and_a_refusal_does_within_a_second_of_its_time() {
    assert_eq!(page(Reason::None, None).refresh_seconds(), None);
    let cases = [
        (0, 1),
        (1, 1),
        (1_000_000, 1),
        (1_000_001, 2),
        (8_500_000, 9),
    ];
    for (us, expected) in cases {
        let page = RefusalPage {
            retry_after: Micros(us),
            ..page(Reason::Full, None)
        };
        assert_eq!(page.refresh_seconds(), Some(expected));
    }
}

#[test]
fn who_has_no_ticket_is_told_when_to_try_again() {
    for reason in [Reason::Cap, Reason::SoldOut] {
        for (language, format) in Language::ALL
            .into_iter()
            .flat_map(|one| ALL.map(|format| (one, format)))
        {
            let body = body(&page(reason, None), format, language);
            match format {
                Format::Json => assert!(body.contains("\"retry_after\":8.5"), "{body}"),
                _ => assert!(body.contains("12:00:09") && body.contains("0:09"), "{body}"),
            }
        }
    }
}

#[test]
fn a_ticket_is_seen_from_now() {
    let sold = ticket::Ticket {
        id: 5,
        start: Micros(10),
        prime_end: Micros(20),
        end: Micros(30),
        ..ticket::Ticket::default()
    };
    let seen = PageTicket::of(&sold, "t", Micros(15));
    assert_eq!(
        (seen.from, seen.prime, seen.until),
        (Micros(0), Micros(5), Micros(15))
    );
    assert_eq!(seen.name().as_str(), "0000000000000005");
}

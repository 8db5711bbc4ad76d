//! The page for programs: problem details (RFC 9457), extended by the ticket.

use serde::Serialize;

use super::{Seconds, View, Why, filled};

/// Problem details (RFC 9457), extended by the ticket.
#[derive(Serialize)]
struct Problem<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
    reason: &'static str,
    /// None: the visitor was not refused, and has no ticket to come back with.
    retry_after: Option<Seconds>,
    #[serde(skip_serializing_if = "str::is_empty")]
    notice: &'a str,
    ticket: Option<ProblemTicket<'a>>,
}

#[derive(Serialize)]
struct ProblemTicket<'a> {
    token: &'a str,
    id: String,
    from: Seconds,
    prime: Seconds,
    until: Seconds,
}

/// The page as JSON.
pub fn to_json(view: View<'_>) -> String {
    let page = view.page;
    let ticket = page.ticket.map(|ticket| ProblemTicket {
        token: ticket.token,
        id: ticket.name().to_string(),
        from: Seconds::ceil(ticket.from),
        prime: Seconds::floor(ticket.prime),
        until: Seconds::floor(ticket.until),
    });
    let problem = Problem {
        kind: "about:blank",
        title: title(page.status),
        status: page.status,
        detail: &filled(512, &Why(view)),
        reason: page.reason.name(),
        retry_after: (page.returns() || ticket.is_some()).then(|| Seconds::ceil(page.retry_after)),
        notice: page.notice,
        ticket,
    };
    serde_json::to_string(&problem).unwrap_or_default()
}

/// What a status is called (RFC 9110, 15).
pub fn title(status: u16) -> &'static str {
    match status {
        200 => "OK",
        404 => "Not Found",
        429 => "Too Many Requests",
        _ => "Service Unavailable",
    }
}

#[cfg(test)]
mod tests {
    use super::super::accept::{Format, Language};
    use super::super::sample::Sample;
    use super::super::{Promise, RefusalPage, render};
    use nap_core::micros::Micros;
    use nap_core::room::verdict::Reason;

    fn told(page: &RefusalPage<'_>, language: Language) -> serde_json::Value {
        let rendered = render(page, Format::Json, language);
        serde_json::from_str(&rendered.body).expect("JSON")
    }

    #[test]
    fn json_has_the_members_of_rfc_9457_and_the_ticket() {
        let sample = Sample::default();
        let mut page = sample.page("", 503);
        page.retry_after = Micros(194_999_001);
        let expected = serde_json::json!({
            "type": "about:blank",
            "title": "Service Unavailable",
            "status": 503,
            "detail": "The server is overloaded: more people have come than it can serve at once.",
            "reason": "full",
            "retry_after": 195.0,
            "ticket": {
                "token": "preview",
                "id": "0000000000000000",
                "from": 195.0,
                "prime": 200.0,
                "until": 495.0,
            },
        });
        assert_eq!(told(&page, Language::En), expected);
        let rendered = render(&page, Format::Json, Language::En);
        assert_eq!(rendered.content_type, "application/problem+json");
    }

    #[test]
    fn each_reason_is_told_in_words_and_when_to_come_again() {
        for sample in Sample::all().filter(|sample| sample.promise == Promise::None) {
            let mut page = sample.page("", 429);
            page.retry_after = Micros(8_500_000);
            let json = told(&page, sample.language);
            assert_eq!(json["status"], 429);
            assert_eq!(json["title"], "Too Many Requests");
            assert_eq!(json["reason"], sample.reason.name());
            match sample.reason {
                Reason::None => assert!(json["retry_after"].is_null()),
                _ => assert_eq!(json["retry_after"], 8.5),
            }
            assert!(json["ticket"].is_null());
            let detail = json["detail"].as_str().expect("words");
            assert!(detail.len() > 30, "{detail}");
        }
    }

    #[test]
    fn a_ticket_shown_to_its_holder_is_no_problem() {
        for (promise, seconds) in [(Promise::Soon, 195.0), (Promise::Now, 0.0)] {
            let sample = Sample {
                reason: Reason::None,
                promise,
                ..Sample::default()
            };
            let page = sample.page("", 200);
            assert_eq!(told(&page, Language::En)["retry_after"], seconds);
            let rendered = render(&page, Format::Json, Language::En);
            assert_eq!(rendered.content_type, "application/json");
        }
    }
}

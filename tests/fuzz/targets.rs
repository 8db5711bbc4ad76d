//! Inputs that outsiders may send, or an administrator mistype: one plain function for each, which takes any
//! bytes and panics if something that must hold does not. cargo-fuzz can call them as they are.

use mod_nap::layout::Dims;
use mod_nap::page::accept::{Format, Language};
use mod_nap::page::form::{FormSource, SentForm};
use mod_nap::state_file;
use nap_core::charset::Charset;
use nap_core::conf::{Directive, RoomConf, ServerConf, refusal_status};
use nap_core::control::{Command, Sent, Which, is_good, nonce};
use nap_core::micros::Micros;
use nap_core::nap::cookie::{cookies, given};
use nap_core::nap::ticket::{Key, Keys, Ticket};
use nap_core::room::control::{Mode, Order};

/// A target; it panics if something does not hold.
pub type Target = fn(&[u8]);

/// Name, function, and how many mutations `make test` tries.
pub const ALL: &[(&str, Target, u32)] = &[
    ("ticket", ticket, 20_000),
    ("cookie", cookie, 20_000),
    ("session", session, 20_000),
    ("form", form, 20_000),
    ("control", control, 20_000),
    ("accept", accept, 20_000),
    ("conf", conf, 20_000),
    ("keys", keys, 10_000),
    ("state_file", state_file, 150),
];

/// The text of a ticket: any text that opens is exactly what its seller wrote.
pub fn ticket(data: &[u8]) {
    let secret = b"0123456789abcdef0123456789abcdef";
    let keys = Keys::new(vec![Key::new(7, secret)]).expect("one key");
    if let Ok(ticket) = Ticket::open(data, &keys) {
        let again = ticket.seal(keys.signing().expect("one key"));
        assert_eq!(again.as_bytes(), data, "two texts of one ticket");
    }
}

/// A Cookie header: values come from the header and hold no separator, also if httpd joins two headers.
pub fn cookie(data: &[u8]) {
    let found: Vec<&[u8]> = cookies(data, [b"nap"]).collect();
    assert!(
        found
            .iter()
            .all(|value| !value.iter().any(|b| b";,".contains(b)))
    );
    let joined = [data, b", ", data].concat();
    let twice: Vec<&[u8]> = cookies(&joined, [b"nap"]).collect();
    assert_eq!(twice, [&found[..], &found[..]].concat());
}

/// An answer's Set-Cookie headers, one a line: from then on the client is known by what it sends with its
/// next request, beside other cookies.
pub fn session(data: &[u8]) {
    let lines = || data.split(|b| *b == b'\n');
    let Some(value) = given(lines(), b"shop") else {
        return;
    };
    assert!(!value.is_empty() && !value.iter().any(|b| b";,".contains(b)));
    let pairs = lines().filter_map(|line| line.split(|b| *b == b';').next());
    let brings = pairs.map(|pair| [b"a=1; ", pair, b"; b=2"].concat());
    assert!(
        brings
            .into_iter()
            .any(|header| cookies(&header, [b"shop"]).any(|found| found == value))
    );
}

/// The body of a form, after its Content-Type in the first line; and the origin it claims.
pub fn form(data: &[u8]) {
    let mut lines = data.splitn(2, |b| *b == b'\n');
    let (content_type, body) = (lines.next().unwrap_or_default(), lines.next());
    let body = body.unwrap_or_default();
    let shift_jis = Charset::named(b"shift_jis");
    for form in [None, shift_jis].map(|other| SentForm::parse(content_type, body, other)) {
        let Some(form) = form else { continue };
        let kept: usize = form
            .fields
            .iter()
            .map(|f| f.name.len() + f.value.len())
            .sum();
        // A %-escape or a part is never longer than what it stands for; a byte of Shift_JIS may be a
        // character of three.
        assert!(kept <= body.len() * if form.charset == Charset::UTF_8 { 1 } else { 3 });
        assert!(form.fields.iter().all(|f| !f.value.contains('\0')));
    }
    let source = FormSource {
        origin: content_type,
        referer: body,
        ..FormSource::default()
    };
    assert!(!source.is_same_origin(), "nobody is from no host");
}

/// The form of `nap-control`: a command is in range, and is the same when asked for again in plain words;
/// nobody guesses a nonce, and nobody is sent to another server.
pub fn control(data: &[u8]) {
    let sent = Sent::parse(data);
    let (secret, now) = (b"0123456789abcdef", 1_769_828_400);
    assert!(
        !is_good(&sent.nonce, secret, now) || sent.nonce.eq_ignore_ascii_case(&nonce(secret, now))
    );
    if let Some(back) = &sent.back {
        assert!(back.starts_with('/') && !back.starts_with("//") && !back.starts_with("/\\"));
        assert!(back.bytes().all(|b| b.is_ascii_graphic()));
    }
    match &sent.command {
        Err(complaint) => assert!(!complaint.chars().any(char::is_control), "{complaint:?}"),
        Ok(command) => {
            assert_eq!(
                Sent::parse(asked(command).as_bytes()).command.as_ref(),
                Ok(command)
            );
        }
    }
}

/// The form that asks for this command.
fn asked(command: &Command) -> String {
    let id = |id: &u64| format!("{id:016x}");
    let mut form = form_urlencoded::Serializer::new(String::new());
    let mut put = |name: &str, value: &str| {
        form.append_pair(name, value);
    };
    match command {
        Command::Room(room, order) => {
            put("room", room.as_deref().unwrap_or(""));
            match order {
                Order::Admit(Mode::Open) => put("do", "open"),
                Order::Admit(Mode::Tickets) => put("do", "tickets"),
                Order::Admit(Mode::Closed) => put("do", "close"),
                Order::Limit(n) => {
                    put("do", "limit");
                    put("limit", &n.map_or(String::new(), |n| n.to_string()));
                }
                Order::Notice(text) => {
                    assert!(text.len() <= 240 && !text.contains(char::is_control));
                    put("do", "notice");
                    put("notice", text);
                }
                Order::Revoke(ticket) => {
                    put("do", "revoke");
                    put("ticket", &id(ticket));
                }
            }
        }
        Command::End(Which::Id(session)) => {
            put("do", "revoke");
            put("session", &id(session));
        }
        Command::End(Which::Cookie { room, value }) => {
            put("do", "revoke");
            put("room", room);
            put("cookie", value);
        }
        Command::Forgive(client) => {
            put("do", "forgive");
            put("client", &client.to_string());
        }
    }
    form.finish()
}

/// Accept and Accept-Language: there is always an answer.
pub fn accept(data: &[u8]) {
    assert!(!Format::by_accept(data).content_type().is_empty());
    assert!(!Language::by_accept_language(data).tag().is_empty());
}

/// A configuration line; its first number is the directive's position among all, from 1. It is accepted, or
/// gives a message on one line.
pub fn conf(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let mut words = text.split_whitespace();
    let number = words.next().and_then(|word| word.parse::<usize>().ok());
    let at = number.and_then(|number| number.checked_sub(1));
    let Some(&which) = at.and_then(|at| Directive::ALL.get(at)) else {
        return;
    };
    let args: Vec<&str> = words.collect();
    let mut room = RoomConf::new("r").expect("a name");
    let mut server = ServerConf::UNSET;
    let said = [
        room.directive(which, &args),
        server.directive(which, &args),
        refusal_status("NapTicketStatus", text).map(|_| ()),
        RoomConf::new(text).map(|_| ()),
    ];
    for complaint in said.into_iter().filter_map(Result::err) {
        assert!(!complaint.is_empty() && complaint.len() < 1000);
        assert!(!complaint.chars().any(char::is_control), "{complaint:?}");
    }
    let _ = room.finish(&server);
}

/// `NapTicketKey`'s file: keys that sign what they verify, or a message.
pub fn keys(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match Keys::parse(text) {
        Err(complaint) => assert!(!complaint.chars().any(char::is_control)),
        Ok(keys) => {
            let ticket = Ticket {
                start: Micros(5),
                prime_end: Micros(6),
                end: Micros(7),
                ..Ticket::default()
            };
            let sealed = ticket.seal(keys.signing().expect("one at least"));
            assert_eq!(Ticket::open(sealed.as_bytes(), &keys), Ok(ticket));
        }
    }
}

/// A sound state file with some bytes of its first 4 kB changed, three bytes of input for each (offset,
/// big-endian, and value): it is taken over or set aside. (`tests/bit_patterns/` corrupts the rest of it,
/// and lets the room go on.)
pub fn state_file(data: &[u8]) {
    let dims = Dims {
        children: 2,
        rooms: 1,
        gates: 1,
        places: 4,
        stripes: 0,
        trace_sets: 0,
        untold: 0,
        executors: 0,
        flights: 0,
        session_sets: 2,
        guest_sets: 2,
    };
    let name = format!("nap-fuzz-{}", std::process::id());
    let dir = std::env::temp_dir().join(name);
    let path = dir.join("state");
    std::fs::create_dir_all(&dir).expect("a directory of our own");
    drop(state_file::open(&path, dims, 33).expect("nothing is there"));
    let mut file = std::fs::read(&path).expect("just made");
    for patch in data.chunks_exact(3) {
        let at = usize::from(u16::from_be_bytes([patch[0], patch[1]])) % 4096;
        file[at] = patch[2];
    }
    std::fs::write(&path, &file).expect("our own");
    let opened = state_file::open(&path, dims, 33).expect("whatever it holds");
    assert!(opened.segment.locked(|_| ()).is_some());
    drop(opened);
    std::fs::remove_dir_all(&dir).expect("our own");
}

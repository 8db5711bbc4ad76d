//! Refusals, the ticket page, and pages for the administrator.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::AtomicU64;

use super::access::Here;
use super::arrival::Carried;
use super::contract::{
    NAP_FORM_LOST, NAP_FORM_READ, NAP_PAGE_INFO, NAP_PAGE_METRICS, NAP_PAGE_MINE, NAP_PAGE_PREVIEW,
    NAP_PAGE_SLOW_DOWN, NAP_PAGE_STATUS, NAP_PAGE_TICKET, NAP_PAGE_TRACE, nap_access, nap_form,
    nap_pages_calls, nap_request, nap_str, nap_wanted,
};
use super::guard::{guard, log_seldom};
use super::host::Answer;
use super::process::{self, Process, RoomSetup, Setup};
use super::request::Request;
use super::session::{self, ticketing};
use super::text::{bytes, lend, text};
use super::{bwshare, control, metrics, preview, status, ticket_log};
use crate::info::{Balancers, Beside, Busiest, Door, Files, Report, Snapshot};
use crate::page::accept::{Format, Language};
use crate::page::assets::{Asset, ICON, INFO_SCRIPT, INFO_STYLE};
use crate::page::form::{Encoding, FormSource, Sent, SentForm};
use crate::page::headers::{Cookie, headers};
use crate::page::own::{self, Own};
use crate::page::{POLICY, PageTicket, RefusalPage, Rendered, render};
use crate::shm::clock;
use crate::wall::{Change, Wall, hex};
use nap_core::charset::Charset;
use nap_core::control::nonce;
use nap_core::micros::Micros;
use nap_core::nap::ticket::Ticket;
use nap_core::room::access::{Access, AccessState};
use nap_core::room::control::Control;
use nap_core::room::history::Fate;
use nap_core::room::stay::Membership;
use nap_core::room::verdict::Reason;

pub const CALLS: nap_pages_calls = nap_pages_calls {
    page: Some(page),
    variables: Some(variables),
    form_wanted: Some(form_wanted),
    asset: Some(asset),
    status: Some(status::status),
    tickets_out: Some(status::tickets_out),
    call: Some(status::call),
    control: Some(control::control),
};

pub(super) fn wall_now() -> Wall {
    let (offset_min, change) = clock::utc_offset();
    Wall {
        unix: Micros(clock::wall()),
        offset_min,
        change: change.map(|(at, offset_min)| Change {
            at: Micros(at),
            offset_min,
        }),
    }
}

fn cookie<'a>(room: &'a RoomSetup, q: Request<'_>) -> Cookie<'a> {
    Cookie {
        name: &room.cookie[usize::from(q.tls != 0)],
        attributes: room.conf.cookie_attributes.as_str(),
        tls: q.tls != 0,
        grace: Micros(room.grace_us),
    }
}

/// The refusal that `here` got, with what its headers need: without names and times of day.
fn headers_of<'a>(here: &'a Here<'_>, token: &'a str, q: Request<'_>) -> RefusalPage<'a> {
    let (ticket, retry_after) = (here.a.ticket(), here.a.retry_after());
    let now = here.process.segment.now();
    RefusalPage {
        reason: Reason::of(here.a.reason),
        ticket: ticket.map(|ticket| PageTicket::of(&ticket, token, now)),
        retry_after,
        status: q.ticket_status as u16,
        ..RefusalPage::default()
    }
}

/// The same as a page.
fn page_of<'a>(
    here: &'a Here<'_>,
    token: &'a str,
    notice: &'a str,
    q: Request<'a>,
) -> RefusalPage<'a> {
    RefusalPage {
        wall: wall_now(),
        room: here.room.conf.name.as_str(),
        path: q.ticket_path(),
        notice,
        ..headers_of(here, token, q)
    }
}

/// The notice that an administrator has set for visitors refused here.
fn notice(room: &RoomSetup) -> String {
    room.control.map(Control::notice).unwrap_or_default()
}

fn sealed(ticket: Option<&Ticket>, setup: &Setup) -> String {
    ticket.map(|ticket| setup.seal(ticket)).unwrap_or_default()
}

pub unsafe extern "C" fn refusal(a: *mut nap_access, q: *const nap_request) {
    guard((), || {
        // SAFETY: nap.h's promises.
        let (here, q) = unsafe { (Here::new(a)?, Request::of(q)?) };
        let token = sealed(here.a.ticket().as_ref(), here.setup);
        let page = headers_of(&here, &token, q);
        let answer = here.process.host.answer(q.r);
        let room = ticketing(&here);
        headers(&page, &cookie(room, q), q.origin.len != 0, |h| {
            match h.add {
                true => answer.add(h.name, h.value),
                false => answer.set(h.name, h.value),
            }
        });
        ticket_log::issued(&here, q);
        Some(())
    });
}

pub unsafe extern "C" fn redeemed(a: *mut nap_access, q: *const nap_request) {
    guard((), || {
        // SAFETY: nap.h's promises.
        let (mut here, q) = unsafe { (Here::new(a)?, Request::of(q)?) };
        if here.a.ticket().is_some() {
            let answer = here.process.host.answer(q.r);
            answer.add(c"Set-Cookie", &cookie(ticketing(&here), q).deleted());
            not_for_all(&answer);
            ticket_log::redeemed(&here);
        }
        session::begun(&mut here, q);
        Some(())
    });
}

/// The answer has a cookie of ours: a cache must not give it to others.
pub(super) fn not_for_all(answer: &Answer<'_>) {
    answer.add(c"Cache-Control", "private");
}

/// The format and language that the request prefers.
pub(super) fn wishes(q: Request<'_>) -> (Format, Language) {
    (
        Format::by_accept(q.accept()),
        Language::by_accept_language(q.accept_language()),
    )
}

unsafe extern "C" fn page(wanted: *const nap_wanted, q: *const nap_request) -> c_int {
    guard(503, || {
        // SAFETY: nap.h's promises.
        let (wanted, q) = unsafe { (wanted.as_ref()?, Request::of(q)?) };
        let process = process::process()?;
        // SAFETY: nap.h's promises: all strings are live for the call.
        unsafe {
            let query = || text(wanted.query);
            match wanted.kind {
                NAP_PAGE_TICKET => return ticket_page(wanted, q),
                NAP_PAGE_SLOW_DOWN => bwshare::slow_down_page(process, wanted.visit, q),
                NAP_PAGE_INFO => info(process, q, query(), text(wanted.control), text(wanted.own)),
                NAP_PAGE_METRICS => metrics::metrics(process, q),
                NAP_PAGE_PREVIEW => {
                    if let Some(setup) = process::setup() {
                        preview::preview(process, setup, q, query());
                    }
                }
                NAP_PAGE_STATUS => metrics::server_status(process, q, wanted.lines != 0),
                NAP_PAGE_MINE => bwshare::mine(process, q, wanted.limits, query()),
                kind => bwshare::info(process, q, kind == NAP_PAGE_TRACE, query()),
            }
        }
        Some(200)
    })
}

/// The page of a refusal, or of the visitor's own ticket. Returns its status.
///
/// # Safety
/// The access is live for the call, or null (nap.h).
unsafe fn ticket_page(wanted: &nap_wanted, q: Request<'_>) -> Option<c_int> {
    let (format, language) = wishes(q);
    // SAFETY: the caller's promise.
    let here = unsafe { Here::new(wanted.access) };
    let Some(here) = here.filter(|here| here.a.state == AccessState::Refused) else {
        return own_ticket(q, format, language);
    };
    let (notice, form) = (notice(here.room), form_of(here.room, q));
    let mut page = page_of(&here, q.issued(), &notice, q);
    page.sent = match (q.form_state, &form) {
        (_, Some(form)) => Sent::Kept(form),
        (NAP_FORM_READ | NAP_FORM_LOST, None) => Sent::Lost,
        _ => Sent::Nothing,
    };
    if format == Format::Html {
        page.ask = first_ask(&here);
    }
    let answer = here.process.host.answer(q.r);
    say(&answer, own_page(here.setup, q), &page, format, language);
    Some(q.ticket_status as c_int)
}

/// When a refused visitor's page asks first: each page that asks gets its turn.
fn first_ask(here: &Here<'_>) -> Option<Micros> {
    let ticket = here.a.ticket()?;
    let start = ticket.start;
    let now = here.process.segment.now();
    let (_, permits) = ticketing(here).seller();
    let out = permits.outstanding();
    permits.calls.asks.begin(ticket.id, now, start - now, out)
}

/// The form that came with the refused request.
fn form_of(room: &RoomSetup, q: Request<'_>) -> Option<SentForm> {
    if q.form_state != NAP_FORM_READ {
        return None;
    }
    let other = Charset::named(room.conf.form_charset.as_str().as_bytes());
    SentForm::parse(q.form_type(), q.form_body(), other)
}

unsafe extern "C" fn form_wanted(form: *const nap_form) -> c_int {
    guard(0, || {
        // SAFETY: nap.h's promise.
        let form = unsafe { form.as_ref() }?;
        // SAFETY: nap.h's promise: the strings are live for the call.
        let (source, kind) = unsafe { (source_of(form), bytes(form.content_type)) };
        (source.is_same_origin() && Encoding::of(kind).is_some()).then_some(1)
    })
}

/// Where a form came from.
///
/// # Safety
/// Its strings are live for the call (nap.h).
pub(super) unsafe fn source_of(form: &nap_form) -> FormSource<'_> {
    // SAFETY: the caller's promise.
    unsafe {
        FormSource {
            fetch_site: bytes(form.fetch_site),
            origin: bytes(form.origin),
            referer: bytes(form.referer),
            scheme: bytes(form.scheme),
            host: bytes(form.host),
        }
    }
}

unsafe extern "C" fn variables(a: *mut nap_access, q: *const nap_request) {
    guard((), || {
        // SAFETY: nap.h's promises.
        let (here, q) = unsafe { (Here::new(a)?, Request::of(q)?) };
        let token = sealed(here.a.ticket().as_ref(), here.setup);
        let notice = notice(here.room);
        let mut page = page_of(&here, &token, &notice, q);
        let (_, language) = wishes(q);
        if q.method() == b"POST" {
            page.sent = Sent::Lost;
        }
        let answer = here.process.host.answer(q.r);
        let mut upper = String::new();
        own::variables(&page, language, |name, value| {
            upper.clear();
            upper.push_str("NAP_");
            upper.extend(name.chars().map(|c| c.to_ascii_uppercase()));
            answer.variable(&upper, value);
        });
        Some(())
    });
}

/// NapTicketPage where the request was refused.
fn own_page<'a>(setup: &'a Setup, q: Request<'_>) -> Option<&'a Own> {
    setup.pages.get(q.own_page as usize)
}

/// A visitor opened the ticket page directly: it shows the ticket they bring, and sells none.
fn own_ticket(q: Request<'_>, format: Format, language: Language) -> Option<c_int> {
    let (process, setup) = (process::process()?, process::setup()?);
    let now = process.segment.now();
    let brought = setup.rooms.iter().find_map(|room| {
        let carried = Carried::of(q, setup, room);
        let good = carried
            .tickets()
            .iter()
            .find(|ticket| ticket.end > now)
            .copied()?;
        Some((room, good))
    });
    let token = sealed(brought.map(|(_, ticket)| ticket).as_ref(), setup);
    let notice = brought.map_or(String::new(), |(room, _)| notice(room));
    let ticket = brought.map(|(_, ticket)| PageTicket::of(&ticket, &token, now));
    let page = RefusalPage {
        reason: Reason::None,
        ticket,
        retry_after: ticket.map_or(Micros::ZERO, |ticket| ticket.from),
        status: if ticket.is_some() { 200 } else { 404 },
        wall: wall_now(),
        room: brought.map_or("", |(room, _)| room.conf.name.as_str()),
        path: q.ticket_path(),
        notice: &notice,
        ..RefusalPage::default()
    };
    let answer = process.host.answer(q.r);
    answer.set(c"Cache-Control", "no-store, private");
    answer.set(c"X-Robots-Tag", "noindex");
    say(&answer, own_page(setup, q), &page, format, language);
    Some(c_int::from(page.status))
}

/// Sends the page. An administrator's own template goes without our Content-Security-Policy.
pub(super) fn say(
    answer: &Answer<'_>,
    own: Option<&Own>,
    page: &RefusalPage<'_>,
    format: Format,
    language: Language,
) {
    static LAST_FAULT: AtomicU64 = AtomicU64::new(0);
    match own
        .filter(|_| format == Format::Html)
        .map(|own| own.render(page, language))
    {
        Some(Ok(body)) => return answer.body(format.content_type(), &body),
        Some(Err(error)) => log_seldom(&LAST_FAULT, || {
            format!("NapTicketPage: {error}; visitors see the built-in page")
        }),
        None => {}
    }
    say_type(answer, format, &render(page, format, language));
}

/// Sends a finished page, with the headers that its format needs.
pub(super) fn say_type(answer: &Answer<'_>, format: Format, rendered: &Rendered) {
    if format == Format::Html {
        answer.set(c"Content-Security-Policy", POLICY);
    }
    answer.body(rendered.content_type, &rendered.body);
}

unsafe extern "C" fn asset(
    r: *mut c_void,
    name: nap_str,
    query: nap_str,
    body: *mut nap_str,
) -> c_int {
    guard(0, || {
        // SAFETY: nap.h's promises.
        let (name, query, body) = unsafe { (bytes(name), bytes(query), body.as_mut()?) };
        let asset = Asset::named(name)?;
        let answer = process::process()?.host.answer(r);
        answer.set(c"Cache-Control", asset.cache_control(query));
        answer.set(c"X-Content-Type-Options", "nosniff");
        answer.body(asset.content_type, "");
        *body = lend(asset.body);
        Some(1)
    })
}

pub unsafe extern "C" fn reason_name(a: *const nap_access) -> nap_str {
    guard(nap_str::default(), || {
        // SAFETY: nap.h: it lives; an Access as in access.rs.
        let a = unsafe { a.cast::<Access>().as_ref() }?;
        Some(lend(match (Reason::of(a.reason), a.ticket()) {
            (Reason::None, Some(ticket)) if a.granted != Micros::ZERO => {
                Fate::of_redeemed(&ticket, a.entered).name()
            }
            (reason, _) => reason.name(),
        }))
    })
}

pub unsafe extern "C" fn ticket_id(a: *const nap_access, out: *mut c_char) -> usize {
    guard(0, || {
        // SAFETY: nap.h: it lives, an Access as in access.rs; and out has room for 17 bytes.
        let (a, out) = unsafe {
            (
                a.cast::<Access>().as_ref()?,
                out.cast::<[u8; 17]>().as_mut()?,
            )
        };
        let name = hex(a.ticket()?.id);
        out[..16].copy_from_slice(name.as_str().as_bytes());
        out[16] = 0;
        Some(16)
    })
}

/// nap-info, as a page, or with ?json or ?advise.
fn info(process: &Process, q: Request<'_>, query: &str, control: &str, own: &str) {
    let mut report = report(process).with_sessions(busiest(process), wall_now(), room_name);
    let fields: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .take(16)
        .collect();
    let field = |wanted: &str| {
        let mut named = fields.iter().filter(|(name, _)| name == wanted);
        named.next().map(|(_, value)| value.as_str())
    };
    let asked = field("room");
    if !control.is_empty() {
        let own = match asked.filter(|name| report.has_room(name)) {
            Some(name) => &format!("{own}?room={name}"),
            None => own,
        };
        report.open(door(control, own));
    }
    let answer = process.host.answer(q.r);
    answer.set(c"Cache-Control", "no-store");
    if field("json").is_some() {
        let report = match asked {
            Some(name) => report.of_room(name),
            None => report,
        };
        answer.body("application/json", &report.to_json());
    } else if field("advise").is_some() {
        answer.body("text/plain; charset=utf-8", &report.to_advice());
    } else {
        let [style, script, icon] = [&INFO_STYLE, &INFO_SCRIPT, &ICON]
            .map(|asset| format!("{}/{}", q.ticket_path(), asset.address));
        let files = Files {
            style: &style,
            script: &script,
            icon: &icon,
        };
        answer.set(c"Content-Security-Policy", POLICY);
        answer.body("text/html; charset=utf-8", &report.to_html(files, asked));
    }
}

fn door(path: &str, back: &str) -> Door {
    let unix_s = wall_now().unix.secs_floor();
    Door {
        path: path.to_owned(),
        nonce: nonce(&process::secret(), unix_s),
        back: back.to_owned(),
    }
}

/// The busiest sessions, which are shown one by one.
fn busiest(process: &Process) -> Busiest {
    Busiest::gather(|part, busiest| {
        let now = process.segment.now();
        let table = |members: &mut Membership<'_>| busiest.take(part, &members.sessions, now);
        process.segment.locked_sessions(table);
    })
}

/// The name of the room with sessions that has this index in the segment.
fn room_name(index: u32) -> Option<String> {
    let rooms = process::setup()?.rooms.iter();
    let mut named = rooms.filter(|room| room.sessions.as_ref().is_some_and(|s| s.room == index));
    named.next().map(|room| room.conf.name.as_str().to_owned())
}

/// All rooms as they are now; under the lock, numbers are only copied.
pub fn report(process: &Process) -> Report {
    let segment = &process.segment;
    let [rooms, gates] = segment.room_counts();
    let mut snapshot = Snapshot::new(rooms, gates);
    segment.locked(|tables| {
        snapshot.take(tables, tables.now);
        snapshot.locked = segment.now() - tables.now;
    });
    let beside = Beside {
        children: segment.children(),
        recent: segment.recent(),
        controls: segment.controls(),
        events: super::telepoll::events(segment),
        events_offset: process::setup().map_or(0, Setup::offset),
    };
    let mut report = Report::of(&snapshot, &beside, wall_now(), &segment.workers());
    if let Some(fleet) = super::store::fleet(process) {
        report = report.with_fleet(&fleet, wall_now());
    }
    let Some(tables) = segment.balancing() else {
        return report;
    };
    let mut balancers = Balancers::new(tables.sizes()[0]);
    tables.with(|engine| balancers.take(engine, segment.now()));
    report.with_balancers(&balancers)
}

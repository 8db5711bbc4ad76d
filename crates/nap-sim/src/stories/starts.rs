//! Starts: a ticket begins a session, whose access has to wait at its page and has not run.

use super::*;
use crate::house;
use nap_core::room::children::Workers;
use nap_core::room::starts::{End, StartTerms};
use nap_core::room::stay::{Asks, Stay};
use nap_core::sqs::session::Session;

const PAGE: u32 = 0;
const OTHER: u32 = 1;
const LOBBY: u32 = 2;

/// Two pages of one permit each, on which only members wait, and a turn each millisecond.
struct StartSite {
    state: State,
    now: Micros,
    ticket: Ticket,
    stay: Stay,
    place: u32,
}

fn arrival(visitor: u32, tickets: &[Ticket]) -> Arrival<'_> {
    Arrival {
        client_hash: [visitor.into(), (visitor | 1 << 20).into()],
        ..house::arrival(owner(visitor), tickets)
    }
}

fn owner(visitor: u32) -> Owner {
    Owner::new(Life { child: 0, epoch: 1 }, visitor)
}

impl StartSite {
    /// One access has the page; another visitor has begun a session with a ticket and waits there.
    fn new() -> StartSite {
        let starts = StartTerms {
            on: 1,
            how: how::FIXED,
            parallel: 2,
            cores: 2,
            idle: Micros::from_secs(600),
            interval: Micros::from_millis(1),
            ..StartTerms::default()
        };
        let (page, lobby) = (terms(fixed(0)), terms(fixed(4)));
        let mut state = State::with_pages(&[page, page], Some((lobby, starts, 3072)), 64, 7);
        state.child_starts();
        for page in [PAGE, OTHER] {
            let held = state.all_permits()[page as usize].claim(owner(1));
            held.expect("nobody has it");
        }
        let mut site = StartSite {
            state,
            now: Micros::from_secs(1000),
            ticket: Ticket::default(),
            stay: Stay::default(),
            place: 0,
        };
        let refused = site.comes(2, PAGE, &[]).1;
        let Some(Verdict::Refuse(refusal)) = refused else {
            panic!("a stranger finds no room: {refused:?}")
        };
        site.ticket = refusal.ticket.expect("the session gate sells");
        site.now = site.ticket.start;
        (site.stay, site.place) = site.begins(2, PAGE);
        site
    }

    fn comes(&mut self, visitor: u32, page: u32, tickets: &[Ticket]) -> (Stay, Option<Verdict>) {
        self.asks(arrival(visitor, tickets), page, &[])
    }

    fn asks(&mut self, arrival: Arrival<'_>, page: u32, keys: &[u64]) -> (Stay, Option<Verdict>) {
        let (now, mut stay) = (self.now, Stay::default());
        (stay.lobby, stay.page) = (LOBBY, page);
        let starts = false;
        let asks = Asks { keys, starts };
        let (verdict, _) = self
            .state
            .locked(now, |tables| tables.stay(&mut stay).enter(asks, &arrival).0);
        (stay, verdict)
    }

    /// The visitor presents the ticket and waits at their page.
    fn begins(&mut self, visitor: u32, page: u32) -> (Stay, u32) {
        let ticket = self.ticket;
        let (stay, verdict) = self.comes(visitor, page, &[ticket]);
        let Some(Verdict::Wait(seat)) = verdict else {
            panic!("the session begins: {verdict:?}")
        };
        assert!(stay.begun && stay.gate == page, "{stay:?}");
        (stay, seat.place)
    }

    /// The session gate's counts: presented, kept, broken, and tickets that are out.
    fn counts(&self) -> [u64; 4] {
        let counts = &self.state.gates()[LOBBY as usize].counts;
        let out = self.state.all_permits()[LOBBY as usize].outstanding();
        [counts.presented, counts.kept, counts.broken, out.into()]
    }

    fn is_out_again(&self) {
        assert_eq!(self.counts(), [0, 0, 0, 1]);
        assert_eq!(self.waiting(), 0);
        self.nobody_is_under_way();
    }

    /// No begun session has accesses still to come to the pages.
    fn nobody_is_under_way(&self) {
        assert_eq!(self.state.starts().begun.at(self.now), Some(0));
    }

    fn waiting(&self) -> u32 {
        let gates = self.state.gates().iter();
        gates.map(|gate| gate.queue.len()).sum()
    }

    /// The page is free: the waiter there runs.
    fn is_let_in(&mut self, mut stay: Stay, place: u32, visitor: u32) {
        let (now, page) = (self.now, stay.page);
        let (tickets, mut until) = ([self.ticket], Micros::MAX);
        let arrival = arrival(visitor, &tickets);
        let (verdict, _) = self.state.locked(now, |tables| {
            tables.permits[page as usize].release(0, owner(1));
            tables.gate(page).expect("a page").serve();
            tables.stay(&mut stay).look_up(place, &mut until, &arrival)
        });
        assert!(matches!(verdict, Some(Verdict::Run(_))), "{verdict:?}");
        assert_eq!(self.counts(), [1, 1, 0, 0]);
    }
}

#[test]
fn a_ticket_whose_holder_leaves_at_his_page_is_as_good_as_before() {
    let mut site = StartSite::new();
    assert_eq!(site.counts(), [1, 1, 0, 0]);
    let (now, mut stay, place) = (site.now, site.stay, site.place);
    site.state.locked(now, |tables| {
        tables.stay(&mut stay).leave_place(place, owner(2));
    });
    assert_eq!((stay.session, stay.begun), (0, false));
    site.is_out_again();
    let (stay, place) = site.begins(3, PAGE);
    site.is_let_in(stay, place, 3);
}

/// Another room's session gate has sold other tickets with the same slots and numbers.
#[test]
fn so_it_is_where_the_page_is_another_rooms() {
    for lobby_of_the_page in [0, OTHER + 1] {
        let mut site = StartSite::new();
        let (now, mut stay, place) = (site.now, site.stay, site.place);
        site.state.locked(now, |tables| {
            tables.stay(&mut stay).leave_place(place, owner(2));
            tables.gates[PAGE as usize].lobby = lobby_of_the_page;
        });
        let (first, old) = site.begins(3, PAGE);
        let (mut stay, place) = site.begins(4, PAGE);
        assert_eq!(site.state.wake_word(old), wake::TAKEN_OVER, "{first:?}");
        site.state.locked(now, |tables| {
            tables.stay(&mut stay).leave_place(place, owner(4));
        });
        site.is_out_again();
    }
}

#[test]
fn so_is_that_of_one_who_was_gone_when_his_turn_at_the_page_came() {
    let mut site = StartSite::new();
    let (now, mut stay, place, ticket) = (site.now, site.stay, site.place, site.ticket);
    site.is_let_in(stay, place, 2);
    site.state.locked(now, |tables| {
        let came = (now, Some(ticket));
        tables.stay(&mut stay).turn_down(0, owner(2), came);
    });
    site.is_out_again();
    // The page is free: the holder runs at once.
    let (stay, verdict) = site.comes(3, PAGE, &[ticket]);
    assert!(stay.begun && matches!(verdict, Some(Verdict::Run(_))));
}

#[test]
fn so_is_that_of_one_whose_child_died() {
    let mut site = StartSite::new();
    let now = site.now;
    site.state.child_ends(0, now);
    site.state.child_starts();
    site.is_out_again();
    // Nor does a page that the visitor never reached say what sessions ask for.
    let later = now + Micros::from_secs(20);
    site.state.locked(later, |tables| tables.tick_since(now));
    let counts = site.state.starts().counts;
    assert_eq!((counts.unnamed, counts.idle), (1, 0));
}

#[test]
fn so_is_that_of_one_who_waited_when_the_server_went_down() {
    let mut site = StartSite::new();
    let now = site.now;
    site.state.locked(now, |tables| tables.begin_anew());
    site.is_out_again();
}

#[test]
fn who_is_sent_away_because_the_server_stops_has_a_ticket() {
    let mut site = StartSite::new();
    let (now, mut stay, place, tickets) = (site.now, site.stay, site.place, [site.ticket]);
    let arrival = arrival(2, &tickets);
    let (verdict, _) = site.state.locked(now, |tables| {
        tables.stay(&mut stay).stopping(place, &arrival)
    });
    let Some(Verdict::Refuse(refusal)) = verdict else {
        panic!("it cannot run: {verdict:?}")
    };
    assert_eq!(refusal.reason, Reason::Stopping);
    let again = refusal.ticket.expect("a ticket to come back with");
    assert!(again.has(Ticket::GUARD), "{again:?}");
    site.nobody_is_under_way();
    assert_eq!(site.state.starts().counts.failed, 0, "it was no member yet");
}

#[test]
fn a_ticket_presented_again_takes_over_the_place_at_the_page() {
    let mut site = StartSite::new();
    let (old, now) = (site.place, site.now);
    let (stay, place) = site.begins(3, PAGE);
    assert_eq!(site.state.wake_word(old), wake::TAKEN_OVER);
    assert_eq!(site.counts(), [1, 1, 0, 0]);
    // The former access leaves: nothing of the place belongs to it any more.
    let mut left = site.stay;
    site.state.locked(now, |tables| {
        tables.stay(&mut left).leave_place(old, owner(2));
    });
    assert_eq!(site.waiting(), 1);
    site.is_let_in(stay, place, 3);
}

/// Reloaded in the session queue, at a page that starts nothing.
#[test]
fn a_ticket_presented_again_takes_over_the_place_in_the_session_queue() {
    let mut site = StartSite::new();
    let (now, mut stay, place, ticket) = (site.now, site.stay, site.place, site.ticket);
    site.state.locked(now, |tables| {
        tables.stay(&mut stay).leave_place(place, owner(2));
        tables.starts[0].due = now + Micros::from_secs(1);
    });
    let wait = |site: &mut StartSite, visitor| {
        let (stay, verdict) = site.comes(visitor, PAGE, &[ticket]);
        let Some(Verdict::Wait(seat)) = verdict else {
            panic!("the turn is not yet: {verdict:?}")
        };
        assert_eq!((stay.gate, stay.session), (LOBBY, 0));
        seat.place
    };
    let old = wait(&mut site, 3);
    let new = wait(&mut site, 4);
    assert_eq!(site.state.wake_word(old), wake::TAKEN_OVER);
    assert_eq!(site.state.wake_word(new), wake::WAITING);
    assert_eq!(site.waiting(), 1);
}

/// No session waits twice there; but an access that is only being read does not wait.
#[test]
fn where_workers_are_few_a_session_waits_with_one_access() {
    let member = 99;
    let mut site = StartSite::new();
    let (mut stay, place, now) = (site.stay, site.place, site.now);
    site.is_let_in(stay, place, 2);
    site.state.locked(Micros::ZERO, |tables| {
        let mut members = tables.membership();
        members.name(&mut stay, owner(2), member, now);
        let at = stay.session - 1;
        members.sessions.pay(at, owner(2).0, Micros::ZERO, now);
    });
    let mut comes = |visitor| {
        let few = Arrival {
            parking: Parking::Holders,
            ..arrival(visitor, &[])
        };
        site.asks(few, PAGE, &[member])
    };
    let (stay, verdict) = comes(3);
    assert!(matches!(verdict, Some(Verdict::Wait(_))), "{verdict:?}");
    assert_ne!(stay.session, 0);
    let (stay, verdict) = comes(4);
    assert!(matches!(verdict, Some(Verdict::Refuse(_))), "{verdict:?}");
    assert_eq!(stay.session, 0);
    let (known, _) = site.state.locked(Micros::ZERO, |tables| {
        let session = *tables.sessions.all().next().expect("it goes on");
        (
            session.in_hand(),
            session.visits()[0] as u32,
            session.accesses,
        )
    });
    assert_eq!(known, (2, 2, 0), "as if the last had not come");
    let counts = site.state.starts().counts;
    assert_eq!((counts.members, counts.busy), (1, 1));
}

#[test]
fn presented_to_a_child_that_is_full_it_is_his_again() {
    for (starts, page) in [(false, PAGE), (true, PAGE), (false, OTHER)] {
        let mut site = StartSite::new();
        let (now, tickets) = (site.now, [site.ticket]);
        let full = Arrival {
            parking: Parking::Nobody,
            ..arrival(3, &tickets)
        };
        let mut stay = Stay {
            lobby: LOBBY,
            page,
            ..Stay::default()
        };
        let asks = Asks { keys: &[], starts };
        let (verdict, _) = site
            .state
            .locked(now, |tables| tables.stay(&mut stay).enter(asks, &full).0);
        let Some(Verdict::Refuse(refusal)) = verdict else {
            panic!("no worker is left: {verdict:?}")
        };
        assert_eq!(
            (refusal.reason, refusal.ticket),
            (Reason::Full, Some(site.ticket)),
            "{starts} {page}"
        );
        assert_eq!((stay.gate, stay.session), (LOBBY, 0));
        assert_eq!(site.counts(), [1, 1, 0, 0], "no other was sold");
        let (mut stay, place) = (site.stay, site.place);
        site.state.locked(now, |tables| {
            tables.stay(&mut stay).leave_place(place, owner(2));
        });
        site.is_out_again();
        site.begins(3, PAGE);
    }
}

#[test]
fn presented_at_another_page_it_begins_there() {
    let mut site = StartSite::new();
    let old = site.place;
    let (stay, place) = site.begins(3, OTHER);
    assert_eq!(site.state.wake_word(old), wake::TAKEN_OVER);
    assert_eq!(site.waiting(), 1);
    site.is_let_in(stay, place, 3);
}

/// Order of service at a page: the earliest turn by priority comes first, member or not.
#[test]
fn a_priority_is_worth_its_eighths_of_the_bound_to_a_member_and_to_a_stranger() {
    let member = 99;
    for (waited_ms, priorities, member_first) in [
        (0, [0, 1], false),
        // An eighth of four seconds.
        (400, [0, 1], false),
        (600, [0, 1], true),
        (3400, [0, 7], false),
        (3600, [0, 7], true),
        (0, [7, 7], true),
        (400, [6, 7], false),
        (600, [6, 7], true),
    ] {
        let mut site = StartSite::new();
        let (stay, place, now) = (site.stay, site.place, site.now);
        site.is_let_in(stay, place, 2);
        let mut stay = stay;
        site.state.locked(Micros::ZERO, |tables| {
            let mut members = tables.membership();
            members.name(&mut stay, owner(2), member, now);
            members.leave(&mut stay, owner(2), Micros::ZERO, now);
        });
        site.state.locked(Micros::ZERO, |tables| {
            tables.gates[PAGE as usize].terms.wait_limit = fixed(9)
        });
        let come = |site: &mut StartSite, visitor, priority, keys: &[u64]| {
            let arrival = Arrival {
                priority,
                ..arrival(visitor, &[])
            };
            let (_, verdict) = site.asks(arrival, PAGE, keys);
            let Some(Verdict::Wait(seat)) = verdict else {
                panic!("the page is taken: {verdict:?}")
            };
            seat.place
        };
        let his = come(&mut site, 3, priorities[0], &[member]);
        site.now = site.now + Micros::from_millis(waited_ms);
        let other = come(&mut site, 4, priorities[1], &[]);
        let now = site.now;
        site.state.locked(now, |tables| {
            tables.permits[PAGE as usize].release(0, owner(2));
            tables.gate(PAGE).expect("a page").serve();
        });
        let granted = [his, other].map(|place| site.state.wake_word(place) == wake::GRANTED);
        assert_eq!(
            granted,
            [member_first, !member_first],
            "{waited_ms} ms, {priorities:?}"
        );
    }
}

#[test]
fn by_progress_the_session_nearest_its_end_is_let_in_first() {
    for (progress, order) in [(0, [true, false]), (1, [false, true])] {
        let mut site = StartSite::new();
        let (stay, place, now) = (site.stay, site.place, site.now);
        site.is_let_in(stay, place, 2);
        site.state.locked(Micros::ZERO, |tables| {
            tables.gates[PAGE as usize].terms.progress = progress;
            let mut finished = Session::default();
            finished.accesses = 8;
            tables.starts[0].note_end(&finished, End::Finished);
            let mut members = tables.membership();
            for (key, accesses) in [(98, 2), (99, 6)] {
                let begins = owner(50);
                let idle = Micros::from_secs(600);
                let begun = (members.sessions).start(key | 1 << 63, (0, idle), 1, now, |_| ());
                let session = (members.sessions).bind(begun.expect("room"), 1, key, now, |_| ());
                (members.sessions).leave(session.expect("room"), 1, Micros::ZERO, now);
                for _ in 1..accesses {
                    let session = members.enter((0, OTHER), &[key], begins, now);
                    (members.sessions).leave(session - 1, begins.0, Micros::ZERO, now);
                }
            }
        });
        let places = [(3, 98), (4, 99)].map(|(visitor, key)| {
            let (_, verdict) = site.asks(arrival(visitor, &[]), PAGE, &[key]);
            let Some(Verdict::Wait(seat)) = verdict else {
                panic!("the page is taken: {verdict:?}")
            };
            seat.place
        });
        site.state.locked(now, |tables| {
            tables.permits[PAGE as usize].release(0, owner(2));
            tables.gate(PAGE).expect("a page").serve();
        });
        let granted = places.map(|place| site.state.wake_word(place) == wake::GRANTED);
        assert_eq!(granted, order, "{progress}");
    }
}

/// A page's throughput is divided by what sessions ask of it: in quiet times they need not wait.
#[test]
fn each_access_of_a_session_is_a_visit_whether_it_waits_or_not() {
    let member = 99;
    let mut site = StartSite::new();
    let (mut stay, place, now) = (site.stay, site.place, site.now);
    site.is_let_in(stay, place, 2);
    let visits = |site: &mut StartSite| {
        let (visits, _) = (site.state).locked(Micros::ZERO, |tables| {
            let session = tables.sessions.all().next().expect("it goes on");
            [PAGE, OTHER].map(|page| session.visits()[page as usize] as u32)
        });
        visits
    };
    site.state.locked(Micros::ZERO, |tables| {
        let mut members = tables.membership();
        members.name(&mut stay, owner(2), member, now);
        members.leave(&mut stay, owner(2), Micros::ZERO, now);
    });
    assert_eq!(visits(&mut site), [1, 0], "which began it");
    // Entered without the lock on the gates; then on to the queue there, as no permit is free.
    let (mut stay, _) = site.state.locked(Micros::ZERO, |tables| {
        let session = (tables.membership()).enter((0, PAGE), &[member], owner(3), now);
        Stay {
            session,
            lobby: LOBBY,
            page: PAGE,
            ..Stay::default()
        }
    });
    assert_eq!(visits(&mut site), [2, 0]);
    let asks = Asks {
        keys: &[member],
        starts: false,
    };
    let ((verdict, _), _) = site.state.locked(now, |tables| {
        tables.stay(&mut stay).enter(asks, &arrival(3, &[]))
    });
    assert!(matches!(verdict, Some(Verdict::Wait(_))), "{verdict:?}");
    assert_eq!(visits(&mut site), [2, 0], "once");
    site.asks(arrival(4, &[]), OTHER, &[member]);
    assert_eq!(visits(&mut site), [2, 1]);
}

/// The heavy page may belong to another room.
#[test]
fn a_queue_at_another_rooms_page_counts_for_the_sessions_that_wait_there() {
    let mut site = StartSite::new();
    let now = site.now;
    let queued = |site: &mut StartSite| {
        site.state
            .locked(now, |tables| tables.tick_since(now - Micros::from_secs(1)));
        site.state.starts().queues.at(now)
    };
    // Two pages, and one member waits.
    assert_eq!(queued(&mut site), Some(50));
    let mut site = StartSite::new();
    site.state.locked(Micros::ZERO, |tables| {
        // The same, and the page where the member waits is not the room's own.
        (tables.rooms[0].n_pages, tables.rooms[0].pages[0]) = (1, OTHER + 1);
    });
    assert_eq!(queued(&mut site), Some(50), "the session has come there");
    let (stay, _) = site.begins(3, PAGE);
    let mut stay = stay;
    site.state.locked(now, |tables| {
        let mut members = tables.membership();
        members.name(&mut stay, owner(3), 99, now);
        tables.tick_since(now - Micros::from_secs(1));
    });
    let (_, verdict) = site.asks(arrival(4, &[]), PAGE, &[99]);
    assert!(matches!(verdict, Some(Verdict::Wait(_))), "{verdict:?}");
    site.now = site.now + Micros::from_secs(1);
    let now = site.now;
    site.state
        .locked(now, |tables| tables.tick_since(now - Micros::from_secs(1)));
    assert_eq!(
        site.state.starts().queues.at(now),
        Some(100),
        "two of two pages"
    );
}

#[test]
fn a_page_that_the_configuration_names_no_more_counts_no_more_and_is_forgotten() {
    let mut site = StartSite::new();
    let now = site.now;
    let known = |site: &State| site.starts().capacity.gates().flatten().count();
    site.asks(arrival(3, &[]), OTHER, &[]);
    site.state.locked(now, |tables| {
        tables.starts[0].capacity.number(OTHER);
        // The next configuration has one of the two.
        tables.rooms[0].generation = 1;
        tables.pages[PAGE as usize].generation = 1;
        tables.tick_since(now - Micros::from_secs(1));
    });
    assert_eq!(
        site.state.starts().queues.at(now),
        Some(100),
        "one of one page"
    );
    assert_eq!(known(&site.state), 2);
    let (lobby, starts) = (terms(fixed(4)), site.state.starts().terms);
    site.state
        .locked(now, |tables| tables.enter_lobby("", 1, lobby, starts));
    let known: Vec<u32> = (site.state.starts().capacity.gates().flatten())
        .map(|(gate, _)| gate)
        .collect();
    assert_eq!(known, [PAGE]);
}

#[test]
fn idle_sessions_are_over_however_late_ticks_come() {
    // Always in an even second: ticks at these times alone would never look at half of the table.
    let mut site = StartSite::new();
    let (begin, idle) = (site.now, Micros::from_secs(60));
    site.state.locked(Micros::ZERO, |tables| {
        for n in 0..40 {
            let (key, owner) = (7_919 * (n + 1), owner(3 + n as u32).0);
            let at = tables
                .sessions
                .start(key | 1 << 63, (0, idle), owner, begin, |_| ());
            let at = tables
                .sessions
                .bind(at.expect("room"), owner, key, begin, |_| ());
            tables
                .sessions
                .leave(at.expect("room"), owner, Micros::ZERO, begin);
        }
    });
    let known = site
        .state
        .locked(Micros::ZERO, |tables| tables.sessions.all().count())
        .0;
    assert_eq!(known, 41, "and the story's own");
    let mut since = begin + Micros::from_secs(24 * 3600);
    for _ in 0..8 {
        let now = since + Micros::from_secs(2);
        site.state.locked(now, |tables| tables.tick_since(since));
        since = now;
    }
    let known = site
        .state
        .locked(Micros::ZERO, |tables| tables.sessions.all().count())
        .0;
    assert_eq!(known, 1, "the story's own has an access in hand");
}

/// Pages of a room with sessions sell no tickets: places reserved for holders are of no use there.
#[test]
fn of_the_places_the_session_gate_has_what_members_do_not_need() {
    let workers = Workers {
        per_pool: 25,
        reserve: 3,
        threaded: 1,
        pools: 6,
        parked: 0,
        on_workers: 0,
    };
    let pages = [terms(AUTO); 4];
    let sessions = Some((terms(AUTO), StartTerms::default(), 12));
    let mut state = State::with_pages(&pages, sessions, 64, 7);
    state.pace_pages(&[crate::sessions::fixed(8); 4], Micros::ZERO);
    let parked = |state: &State| -> Vec<u32> {
        let gates = state.gates().iter();
        gates.map(|gate| gate.terms.parked).collect()
    };
    // 32 of 132 run.
    state.share_places(workers);
    assert_eq!(parked(&state), [6, 6, 6, 6, 75]);
    // Told to have an equally long queue: no other gate's tickets are in its way.
    state.locked(Micros::ZERO, |tables| {
        tables.gates[2].terms.wait_limit = fixed(40)
    });
    state.share_places(workers);
    assert_eq!(parked(&state), [0, 0, 40, 0, 60]);
}

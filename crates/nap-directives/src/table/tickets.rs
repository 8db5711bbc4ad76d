//! Pages, sessions and tickets of a room.

use crate::Directive;
use crate::SetBy::*;

pub(super) const DIRECTIVES: &[Directive] = &[
    Directive {
        name: "NapPage",
        set_by: Own("TAKE23", "set_page", "RSRC_CONF"),
        syntax: "NapPage name regex [room=name]",
        default: "",
        place: "room",
        help: "a page with a gate of its own: its name, a regular expression for its URLs, and perhaps room=, the room that has this page",
        text: "a page of the room: accesses whose path matches go to a gate of their own. It has its own limit, queue, tickets and statistics, see [sqs.md](sqs.md). At most 15 a room",
        shipped: "\
# Pages of the room with limits of their own, by path.
#    NapPage cart \"^/cart\"
",
    },
    Directive {
        name: "<NapPage",
        set_by: Own("RAW_ARGS", "section_page", "RSRC_CONF"),
        syntax: "<NapPage name regex>",
        default: "",
        place: "room",
        help: "the same, with settings of its own",
        text: "the same as a section, with its own settings",
        shipped: "\
#    <NapPage search \"^/search\">
#        NapRunReady 2
#    </NapPage>

",
    },
    Directive {
        name: "NapSession",
        set_by: Own("TAKE_ARGV", "set_session", "RSRC_CONF"),
        syntax: "NapSession [cookie=name] [start=regex] [end=regex] [idle=time] [parallel=n] [SameSite=Lax|Strict|None] [Partitioned]",
        default: "none; 30min, 16",
        place: "room",
        help: "visitors come in sessions: cookie= the application's own, start= and end= which URLs, idle= and parallel=",
        text: "visitors come in sessions. A member is never refused; a visitor who wants to start a session waits for a turn or gets a ticket. A session is known by the application's cookie of this name, or one of ours. It starts at URLs that match `start=` (any). It is over at `end=`, by the application's word or after `idle=` (1 s to 24 h). `parallel=`: accesses of one session at a time, 1 to 32. `SameSite=` and `Partitioned` apply to our cookie, see [sqs.md](sqs.md)",
        shipped: "\
# A visitor who has begun a session can finish it; all others wait for their turn to begin one.
#    NapSession cookie=PHPSESSID \"start=^/login\" \"end=^/logout\" idle=30min
",
    },
    Directive {
        name: "NapSessionStart",
        set_by: Room,
        syntax: "NapSessionStart auto|paper|time [threshold=n] [inc=time] [dec=time] [min=time] [max=time]",
        default: "auto, 5, 10ms, 10ms, 1ms (paper: 20ms), 10s",
        place: "room",
        help: "how often a session may start: auto, paper, or an interval; threshold= inc= dec= min= max=",
        text: "the session interval, from one start to the next: by how much the pages can pass (auto), by the paper's law (`inc=` and `dec=` are its steps), or fixed (1 ms to 10 min). `threshold=`: the mean page queue from which on there are too many sessions",
        shipped: "\
#    NapSessionStart auto
",
    },
    Directive {
        name: "NapSessionQueue",
        set_by: Room,
        syntax: "NapSessionQueue n|auto",
        default: "auto",
        place: "room",
        help: "how many may wait to start one: auto, or a number",
        text: "how many accesses may wait to start a session, 1 to 100000; auto: 0.8 x min(bound, 60 s) / interval",
        shipped: "\
#    NapSessionQueue auto

",
    },
    Directive {
        name: "NapPoll",
        set_by: Room,
        syntax: "NapPoll [base=time] [rate=n] [mode=level|relevel|concentrate] [k=n] [form=smooth|paper]",
        default: "base=3s rate=500 mode=level k=2 form=smooth",
        place: "room",
        help: "how often holders ask where they stand: base=3s rate=500 mode=level k=2 form=smooth",
        text: "how often ticket pages ask whether they may come earlier. No page asks more often than every base (1s to 1h; up to four times as long where many hold tickets). All of a gate together ask at most rate times a second (1 to 100000; base times rate 2 or more). See [coming-back.md](coming-back.md)",
        shipped: "\
# How often the ticket page asks whether its turn has come earlier, and all of them together.
#    NapPoll base=3s rate=500

",
    },
    Directive {
        name: "NapSlotPeriod",
        set_by: Room,
        syntax: "NapSlotPeriod time",
        default: "10s",
        place: "room",
        help: "tickets are sold in slots of this length; with NapSlotTickets auto slots are a quarter as long",
        text: "tickets are sold in slots of this length; with NapSlotTickets auto slots are a quarter as long",
        shipped: "\
# Tickets are sold in slots of this length (with NapSlotTickets auto slots are a quarter as long), so
# many a slot: what the server finishes in it (auto), by the paper (paper), or a number.
#    NapSlotPeriod 10s
",
    },
    Directive {
        name: "NapSlotTickets",
        set_by: Room,
        syntax: "NapSlotTickets auto|paper|n",
        default: "auto",
        place: "room",
        help: "tickets a slot: auto (what the server finishes in it), paper, or a number",
        text: "tickets a slot: auto (as many as the server finishes in it), paper, or a number; with NapStore a number is each node's",
        shipped: "\
#    NapSlotTickets auto
",
    },
    Directive {
        name: "NapTicketLifetime",
        set_by: Room,
        syntax: "NapTicketLifetime time",
        default: "5min",
        place: "room",
        help: "from a ticket's start to its end",
        text: "from a ticket's start to its end",
        shipped: "\
# From a ticket's start to its end; how long from its start it lets in at once (auto: as long as the
# wait limit bears at full speed, up to three quarters of the bound); and how far ahead tickets are sold.
#    NapTicketLifetime 5min
",
    },
    Directive {
        name: "NapTicketPrime",
        set_by: Room,
        syntax: "NapTicketPrime auto|time",
        default: "auto",
        place: "room",
        help: "how long from its start a ticket lets in at once; auto: as long as the wait limit bears at full speed, up to three quarters of the bound",
        text: "how long from its start a ticket lets its holder in at once. auto: as long as the wait limit allows at full speed, up to three quarters of the bound ([promise.md](promise.md#the-sale))",
        shipped: "\
#    NapTicketPrime auto
",
    },
    Directive {
        name: "NapTicketHorizon",
        set_by: Room,
        syntax: "NapTicketHorizon time",
        default: "24h",
        place: "room",
        help: "how far ahead tickets are sold",
        text: "no ticket starts later than this",
        shipped: "\
#    NapTicketHorizon 24h
",
    },
    Directive {
        name: "NapTicketShare",
        set_by: Room,
        syntax: "NapTicketShare auto|0..1",
        default: "auto",
        place: "room",
        help: "share of the capacity that is sold as tickets: auto (all of it), or 0 to 1, which keeps the rest for newcomers",
        text: "share of the capacity that is sold as tickets: auto (all of it), or 0 to 1. A number keeps the rest for newcomers",
        shipped: "\
# Share of the capacity that is sold as tickets: auto (all of it), or 0 to 1, which keeps the rest for
# newcomers; and tickets sold for each place.
#    NapTicketShare auto
",
    },
    Directive {
        name: "NapOverbook",
        set_by: Room,
        syntax: "NapOverbook auto|off|factor",
        default: "auto",
        place: "room",
        help: "tickets sold for each place, as not everybody comes back: auto, off, or a factor",
        text: "tickets a place in a slot, by the rate at which holders return; the ledger is never overbooked",
        shipped: "\
#    NapOverbook auto
",
    },
    Directive {
        name: "NapTicketsPerClient",
        set_by: Room,
        syntax: "NapTicketsPerClient auto|n",
        default: "auto",
        place: "room",
        help: "live tickets that one address (IPv6: one /64) may hold; auto: no cap, but one whose tickets lapse more than they are used gets one place in fifty of each slot while others ask",
        text: "live tickets that one address (IPv6: one /64) may hold. auto: no cap, but an address whose tickets lapse more than they are used gets one place in fifty of each slot while others ask ([tickets.md](tickets.md#addresses)). With `NapStore` those of all front ends count, and n is the same on all",
        shipped: "\
# Live tickets that one address (IPv6: one /64) may hold; auto: no cap, but one whose tickets lapse more
# than they are used gets one place in fifty of each slot while others ask.
#    NapTicketsPerClient auto
",
    },
    Directive {
        name: "NapTicketCookie",
        set_by: Room,
        syntax: "NapTicketCookie name attribute...",
        default: "`nap-<room>`, under TLS `__Host-nap-<room>`",
        place: "room",
        help: "the ticket cookie's name, then its attributes",
        text: "the ticket's cookie",
        shipped: "\
# The cookie; without it nap-<room>, and under TLS __Host-nap-<room>.
#    NapTicketCookie nap-site
",
    },
    Directive {
        name: "NapTicketBind",
        set_by: Room,
        syntax: "NapTicketBind none|prefix",
        default: "none",
        place: "room",
        help: "none, or prefix: a ticket is good only from the network it was issued to",
        text: "a bound ticket is good only for the client prefix it was sold to",
        shipped: "\
# Good for anybody who has it, or (prefix) only from the network it was issued to.
#    NapTicketBind none
#</NapRoom>

",
    },
];

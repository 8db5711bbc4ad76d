//! The families of samples: one table for each subject. A row is a family's name, where its figure comes
//! from, and what it says.

use crate::info::balancers::ActivityLine;
use crate::info::bwshare::DebtReport;
use crate::info::events::EventLine;
use crate::info::fleet::FleetLine;
use crate::info::report::{GateLine, Report};
use crate::info::sessions::SessionsLine;

/// A family of samples.
pub struct MetricRow<T> {
    pub name: &'static str,
    pub help: &'static str,
    /// The sample of each `T`; None: not known.
    pub figure: fn(&T) -> Option<f64>,
}

/// Families that end in `_total` are counters, and no others are.
pub fn kind(name: &str) -> &'static str {
    match name.ends_with("_total") {
        true => "counter",
        false => "gauge",
    }
}

/// What a sample can be made of.
trait Figure {
    fn figure(self) -> Option<f64>;
}

macro_rules! figures {
    ($($type:ty: $n:ident => $figure:expr),* $(,)?) => {
        $(impl Figure for $type {
            fn figure(self) -> Option<f64> {
                let $n = self;
                $figure
            }
        })*
    };
}

figures! {
    bool: b => Some(f64::from(u8::from(b))),
    u32: n => Some(f64::from(n)),
    u64: n => Some(n as f64),
    usize: n => Some(n as f64),
    f64: x => Some(x),
    Option<u32>: n => n.map(f64::from),
    Option<f64>: x => x,
}

macro_rules! families {
    (#[doc = $doc:literal] $table:ident of $one:ident: $of:ty; $($name:ident = $figure:expr; $help:literal;)*) => {
        #[doc = $doc]
        pub const $table: &[MetricRow<$of>] = &[$(MetricRow {
            name: stringify!($name),
            help: $help,
            figure: |$one| Figure::figure($figure),
        }),*];
    };
}

families! {
    /// Of the server.
    SERVER of r: Report;
    nap_workers_max = r.workers.max_request_workers;
        "MaxRequestWorkers as configured.";
    nap_workers_wanted = r.workers.wanted.max_request_workers;
        "Workers wanted: run ready + reserve of all rooms, and the wait limit where visitors wait on workers, in whole children.";
    nap_workers_running = r.workers.running;
        "Workers with an access in hand, answers still being sent included.";
    nap_workers_waiting = r.workers.waiting;
        "Workers with an access that waits.";
    nap_parked = r.workers.parked;
        "Accesses that wait without a worker.";
    nap_parked_max = r.workers.parked_at_most;
        "Accesses that may wait without a worker; 0: waiting accesses hold one each.";
    nap_workers_free = r.workers.free;
        "Workers without an access of a room.";
    nap_children = r.children.len();
        "Processes that serve requests.";
    nap_attention = r.attention.len();
        "Sentences of /nap-info that need an administrator.";
    nap_snapshot_lock_seconds = r.locked_s;
        "For how long this snapshot held the lock that every access needs.";
}

families! {
    /// Of each gate.
    GATE of g: GateLine;
    nap_run_ready_limit = g.run_ready.limit;
        "Accesses that may run at once.";
    nap_rights = g.run_ready.rights;
        "Of a limit that the fleet shares: how many accesses may run at once on this server.";
    nap_run_ready = g.run_ready.running;
        "Accesses that run.";
    nap_wait_limit = g.wait.limit;
        "Wait limit in force: what is wanted, as far as there are places.";
    nap_wait_limit_wanted = g.wait.wanted;
        "Wait limit the rule asks for.";
    nap_wait = g.wait.wait;
        "Accesses in Wait.";
    nap_re_access = g.wait.re_access;
        "Accesses in Re Access.";
    nap_put_off_once = g.wait.guard;
        "Accesses that wait before all others, because they were put off once.";
    nap_places_claimed = g.wait.claimed;
        "Places kept for tickets that may be presented within the bound.";
    nap_bound_seconds = g.settings.bound_s;
        "NapWaitMax: arrival to answer, the worst acceptable.";
    nap_wait_expected_seconds = g.wait.expected_s;
        "Time until a visitor who comes now has their turn.";
    nap_throughput = g.speed.throughput_per_s;
        "Departures a second while somebody waited.";
    nap_service_mean_seconds = g.speed.service_mean_s;
        "Mean time in Run Ready, of the last hundred.";
    nap_service_p95_seconds = g.speed.service_p95_s;
        "Time in Run Ready that 95 of 100 do not exceed.";
    nap_answer_median_seconds = g.answers.median_s;
        "Response time that half of the last answers do not exceed.";
    nap_answer_p95_seconds = g.answers.p95_s;
        "Response time that 95 of 100 of the last answers do not exceed.";
    nap_tickets_outstanding = g.promise.outstanding;
        "Tickets sold and still good.";
    nap_permits_empty_seconds_total = g.sale.empty_s;
        "Time in which permits stood empty while tickets were out that started later.";
    nap_ticket_share_ratio = g.promise.share;
        "Share of the capacity that is sold as tickets.";
    nap_next_access_ratio = g.promise.next_access_rate;
        "Share of tickets that are presented, upper limit.";
    nap_passed_total = g.counts.passed;
        "Accesses let in at once.";
    nap_waited_total = g.counts.waited;
        "Accesses that entered Wait.";
    nap_re_access_total = g.counts.re_access;
        "Accesses that entered Re Access.";
    nap_granted_total = g.counts.granted;
        "Accesses let in after waiting.";
    nap_gone_total = g.counts.gone;
        "Accesses whose visitor left while they waited.";
    nap_guard_fired_total = g.counts.guard_fired;
        "Newcomers who waited and were then given a ticket.";
    nap_shed_total = g.counts.shed;
        "Newcomers given a ticket when the server's speed became known.";
    nap_dry_run_total = g.counts.dry_run;
        "Accesses that would have waited or been refused (NapEngine DryRun).";
    nap_tickets_sold_total = g.promise.sold;
        "Tickets sold, exchanged ones included.";
    nap_tickets_deferred_total = g.promise.deferred;
        "Tickets presented in their prime window and put off.";
    nap_tickets_deferred_twice_total = g.promise.deferred_twice;
        "Of these, tickets that had been put off before.";
    nap_tickets_broken_total = g.promise.broken;
        "Tickets presented in their prime window and turned away.";
    nap_tickets_expired_total = g.promise.expired;
        "Tickets never presented.";
    nap_tickets_settled = g.promise.settled();
        "Tickets presented in their prime window whose holders are served or put off, so far.";
    nap_tickets_kept = g.promise.kept;
        "Of these, served within the bound, so far.";
    nap_tickets_late = g.promise.late;
        "Tickets presented after their prime window, so far.";
    nap_tickets_early = g.promise.early;
        "Tickets whose holder was let in before their time, so far.";
    nap_swept_permits_total = g.counts.swept_permits;
        "Permits taken back from dead children.";
    nap_swept_places_total = g.counts.swept_places;
        "Places taken back from dead children.";
    nap_long_answers_total = g.counts.long_answers;
        "Permits taken from answers that ran for a minute past their first byte.";
    nap_mended_total = g.counts.mended;
        "Times the tables were mended after a process died under the lock.";
}

families! {
    /// Of a room's sessions.
    SESSIONS of s: SessionsLine;
    nap_sessions = s.in_table;
        "Sessions under way.";
    nap_session_interval_seconds = s.interval_s;
        "From one session's start to the next.";
    nap_session_work_mean_seconds = s.mean_work_s;
        "Mean time in Run Ready of a session that is over.";
    nap_sessions_started_total = s.started;
        "Sessions that had their turn.";
    nap_sessions_finished_total = s.finished;
        "Sessions over by an end page or the application's word.";
    nap_sessions_idle_total = s.idle_ended;
        "Sessions over because nothing came any more.";
    nap_sessions_revoked_total = s.revoked;
        "Sessions ended by hand.";
    nap_sessions_unnamed_total = s.unnamed;
        "Sessions over with their first access, whose answer set no cookie to be known by.";
    nap_sessions_unplaced_total = s.unplaced;
        "Sessions without a place in the table: not protected.";
    nap_sessions_nameless_total = s.nameless;
        "New cookies of members without a place in the table.";
    nap_session_accesses_total = s.accesses;
        "Accesses of members.";
    nap_session_accesses_beyond_parallel_total = s.beyond_parallel;
        "Accesses with a member's cookie beyond parallel=, taken for strangers'.";
    nap_session_accesses_passed_total = s.passed;
        "Accesses of members let pass without a permit, as no place was left to wait on.";
    nap_session_accesses_refused_total = s.refused_members;
        "Accesses of members refused as the server went down.";
}

families! {
    /// Of the fleet that the server is a node of.
    FLEET of f: FleetLine;
    nap_store_up = f.store.is_up();
        "1: the fleet's store answers, and this server is a member.";
    nap_store_away_seconds_total = f.store.away_s;
        "For how long the store has been away.";
    nap_fleet_weight = f.weight();
        "Part of the fleet's arrivals that comes to this server, 0 to 1.";
    nap_clock_offset_seconds = f.store.clock_offset_s;
        "How far the fleet's clock is ahead of this server's.";
    nap_guests_total = f.tickets.guests;
        "Tickets of other nodes that were let in here; one that left before its turn and came again counts twice.";
    nap_redeemed_elsewhere_total = f.tickets.elsewhere;
        "Tickets of this node that were redeemed at another.";
    nap_redeemed_twice_total = f.tickets.twice;
        "Tickets redeemed here that another node had redeemed, too, as the store was away.";
    nap_tickets_home_ratio = f.tickets.home;
        "Part of this node's tickets that come back to it, 0 to 1: 1 behind a sticky balancer.";
    nap_newcomers_gave_way_total = f.tickets.gave_way;
        "Newcomers, and holders who had come late, whose place another holder was given.";
    nap_leased_places_total = f.tickets.leased;
        "Places of the fleet's slots that this node has leased to sell.";
    nap_agent_starts_total = f.store.agent_starts;
        "Agents that were started to speak with the store.";
}

families! {
    /// Of an event that is polled.
    EVENT of e: EventLine;
    telepoll_polls_total = e.polls;
        "Polls of the event.";
    telepoll_reservations = e.reservations;
        "Reservations not yet used (R).";
    telepoll_unit_interval_seconds = e.unit_s;
        "Unit interval in force (T0).";
    telepoll_base_interval_seconds = e.settings.base_s;
        "Base interval as configured (Ta).";
    telepoll_wait_seconds = e.wait_s;
        "How long a client that polls now is told to wait (Tw).";
    telepoll_level_ratio = e.level;
        "Share of a period that its accesses take; above 1 periods become longer.";
    telepoll_stretch_ratio = e.stretched;
        "How many times longer the unit interval is, as answers take longer than usual.";
}

families! {
    /// Of an activity at a balancer's member.
    ACTIVITY of a: ActivityLine;
    oxthas_requests = a.open;
        "Requests under way at the member, from this server.";
    oxthas_capacity_bytes_per_second = a.capacity_per_s;
        "Estimated capacity of the member for the activity.";
    oxthas_failures_since_success = a.failures_since_success;
        "Failures since the member last answered the activity.";
    oxthas_barred = a.barred;
        "1: the member gets probes only.";
    oxthas_answers_total = a.answers;
        "Answers of the member.";
    oxthas_timeouts_total = a.timeouts;
        "Requests that went to another member, or were given up, after a timeout.";
    oxthas_failures_total = a.other_failures;
        "Other failures: refused, broken, 5xx.";
}

families! {
    /// Of all clients and their debts.
    DEBTS of d: DebtReport;
    bwshare_requests_total = d.requests;
        "Requests of clients that are looked at, let in or refused.";
    bwshare_bytes_total = d.bytes;
        "Bytes charged to clients.";
    bwshare_would_be_refused_total = d.would_be_refused;
        "Requests that would have been refused (BwShare DryRun).";
    bwshare_excused_total = d.excused;
        "Requests let in although their client owes too much: with a ticket, as a member of a session, a poll.";
    bwshare_clients_in_debt = d.clients_in_debt;
        "Clients that owe something.";
    bwshare_clients_capacity = d.clients_capacity;
        "Clients in debt there is room for.";
    bwshare_debts_lost_total = d.debts_lost;
        "Debts forgotten because their table was full.";
    bwshare_trace_rows = d.trace_rows;
        "Clients in the trace.";
}

//! The families of samples: one table for each subject.

use crate::info::balancers::ActivityLine;
use crate::info::bwshare::DebtReport;
use crate::info::events::EventLine;
use crate::info::report::{GateLine, Report};
use crate::info::sessions::SessionsLine;

pub const COUNTER: &str = "counter";
pub const GAUGE: &str = "gauge";

/// A family of samples: its name, its kind, what it says, and the sample of each `T`.
pub type Row<T> = (
    &'static str,
    &'static str,
    &'static str,
    fn(&T) -> Option<f64>,
);

/// Of the server.
pub const SERVER: &[Row<Report>] = &[
    (
        "nap_workers_max",
        GAUGE,
        "MaxRequestWorkers as configured.",
        |r| count(r.workers.max_request_workers),
    ),
    (
        "nap_workers_wanted",
        GAUGE,
        "Workers wanted: run ready + reserve of all rooms, and the wait limit where visitors wait on workers, in whole children.",
        |r| r.workers.wanted.max_request_workers.map(f64::from),
    ),
    (
        "nap_workers_running",
        GAUGE,
        "Workers with an access in hand, answers still being sent included.",
        |r| count(r.workers.running),
    ),
    (
        "nap_workers_waiting",
        GAUGE,
        "Workers with an access that waits.",
        |r| count(r.workers.waiting),
    ),
    (
        "nap_parked",
        GAUGE,
        "Accesses that wait without a worker.",
        |r| count(r.workers.parked),
    ),
    (
        "nap_parked_max",
        GAUGE,
        "Accesses that may wait without a worker; 0: waiting accesses hold one each.",
        |r| count(r.workers.parked_at_most),
    ),
    (
        "nap_workers_free",
        GAUGE,
        "Workers without an access of a room.",
        |r| count(r.workers.free),
    ),
    (
        "nap_children",
        GAUGE,
        "Processes that serve requests.",
        |r| Some(r.children.len() as f64),
    ),
    (
        "nap_attention",
        GAUGE,
        "Sentences of /nap-info that need an administrator.",
        |r| Some(r.attention.len() as f64),
    ),
    (
        "nap_snapshot_lock_seconds",
        GAUGE,
        "For how long this snapshot held the lock that every access needs.",
        |r| Some(r.locked_s),
    ),
];

/// Of each gate.
pub const GATE: &[Row<GateLine>] = &[
    (
        "nap_run_ready_limit",
        GAUGE,
        "Accesses that may run at once.",
        |g| count(g.run_ready.limit),
    ),
    ("nap_run_ready", GAUGE, "Accesses that run.", |g| {
        count(g.run_ready.running)
    }),
    (
        "nap_wait_limit",
        GAUGE,
        "Wait limit in force: what is wanted, as far as there are places.",
        |g| count(g.wait.limit),
    ),
    (
        "nap_wait_limit_wanted",
        GAUGE,
        "Wait limit the rule asks for.",
        |g| g.wait.wanted.map(f64::from),
    ),
    ("nap_wait", GAUGE, "Accesses in Wait.", |g| {
        count(g.wait.wait)
    }),
    ("nap_re_access", GAUGE, "Accesses in Re Access.", |g| {
        count(g.wait.re_access)
    }),
    (
        "nap_put_off_once",
        GAUGE,
        "Accesses that wait before all others, because they were put off once.",
        |g| count(g.wait.guard),
    ),
    (
        "nap_places_claimed",
        GAUGE,
        "Places kept for tickets that may be presented within the bound.",
        |g| count(g.wait.claimed),
    ),
    (
        "nap_bound_seconds",
        GAUGE,
        "NapWaitMax: arrival to answer, the worst acceptable.",
        |g| Some(g.settings.bound_s),
    ),
    (
        "nap_wait_expected_seconds",
        GAUGE,
        "Time until a visitor who comes now has their turn.",
        |g| g.wait.expected_s,
    ),
    (
        "nap_throughput",
        GAUGE,
        "Departures a second while somebody waited.",
        |g| g.speed.throughput_per_s,
    ),
    (
        "nap_service_mean_seconds",
        GAUGE,
        "Mean time in Run Ready, of the last hundred.",
        |g| g.speed.service_mean_s,
    ),
    (
        "nap_service_p95_seconds",
        GAUGE,
        "Time in Run Ready that 95 of 100 do not exceed.",
        |g| g.speed.service_p95_s,
    ),
    (
        "nap_answer_median_seconds",
        GAUGE,
        "Response time that half of the last answers do not exceed.",
        |g| g.answers.median_s,
    ),
    (
        "nap_answer_p95_seconds",
        GAUGE,
        "Response time that 95 of 100 of the last answers do not exceed.",
        |g| g.answers.p95_s,
    ),
    (
        "nap_tickets_outstanding",
        GAUGE,
        "Tickets sold and still good.",
        |g| count(g.promise.outstanding),
    ),
    (
        "nap_permits_empty_seconds_total",
        COUNTER,
        "Time in which permits stood empty while tickets were out that started later.",
        |g| Some(g.sale.empty_s),
    ),
    (
        "nap_ticket_share_ratio",
        GAUGE,
        "Share of the capacity that is sold as tickets.",
        |g| Some(g.promise.share),
    ),
    (
        "nap_next_access_ratio",
        GAUGE,
        "Share of tickets that are presented, upper limit.",
        |g| g.promise.next_access_rate,
    ),
    (
        "nap_passed_total",
        COUNTER,
        "Accesses let in at once.",
        |g| total(g.counts.passed),
    ),
    (
        "nap_waited_total",
        COUNTER,
        "Accesses that entered Wait.",
        |g| total(g.counts.waited),
    ),
    (
        "nap_re_access_total",
        COUNTER,
        "Accesses that entered Re Access.",
        |g| total(g.counts.re_access),
    ),
    (
        "nap_granted_total",
        COUNTER,
        "Accesses let in after waiting.",
        |g| total(g.counts.granted),
    ),
    (
        "nap_gone_total",
        COUNTER,
        "Accesses whose visitor left while they waited.",
        |g| total(g.counts.gone),
    ),
    (
        "nap_guard_fired_total",
        COUNTER,
        "Newcomers who waited and were then given a ticket.",
        |g| total(g.counts.guard_fired),
    ),
    (
        "nap_shed_total",
        COUNTER,
        "Newcomers given a ticket when the server's speed became known.",
        |g| total(g.counts.shed),
    ),
    (
        "nap_dry_run_total",
        COUNTER,
        "Accesses that would have waited or been refused (NapEngine DryRun).",
        |g| total(g.counts.dry_run),
    ),
    (
        "nap_tickets_sold_total",
        COUNTER,
        "Tickets sold, exchanged ones included.",
        |g| total(g.promise.sold),
    ),
    (
        "nap_tickets_deferred_total",
        COUNTER,
        "Tickets presented in their prime window and put off.",
        |g| total(g.promise.deferred),
    ),
    (
        "nap_tickets_deferred_twice_total",
        COUNTER,
        "Of these, tickets that had been put off before.",
        |g| total(g.promise.deferred_twice),
    ),
    (
        "nap_tickets_broken_total",
        COUNTER,
        "Tickets presented in their prime window and turned away.",
        |g| total(g.promise.broken),
    ),
    (
        "nap_tickets_expired_total",
        COUNTER,
        "Tickets never presented.",
        |g| total(g.promise.expired),
    ),
    (
        "nap_tickets_settled",
        GAUGE,
        "Tickets presented in their prime window whose holders are served or put off, so far.",
        |g| total(g.promise.settled()),
    ),
    (
        "nap_tickets_kept",
        GAUGE,
        "Of these, served within the bound, so far.",
        |g| total(g.promise.kept),
    ),
    (
        "nap_tickets_late",
        GAUGE,
        "Tickets presented after their prime window, so far.",
        |g| total(g.promise.late),
    ),
    (
        "nap_tickets_early",
        GAUGE,
        "Tickets whose holder was let in before their time, so far.",
        |g| total(g.promise.early),
    ),
    (
        "nap_swept_permits_total",
        COUNTER,
        "Permits taken back from dead children.",
        |g| total(g.counts.swept_permits),
    ),
    (
        "nap_swept_places_total",
        COUNTER,
        "Places taken back from dead children.",
        |g| total(g.counts.swept_places),
    ),
    (
        "nap_long_answers_total",
        COUNTER,
        "Permits taken from answers that ran for a minute past their first byte.",
        |g| total(g.counts.long_answers),
    ),
    (
        "nap_mended_total",
        COUNTER,
        "Times the tables were mended after a process died under the lock.",
        |g| total(g.counts.mended),
    ),
];

/// Of a room's sessions.
pub const SESSIONS: &[Row<SessionsLine>] = &[
    ("nap_sessions", GAUGE, "Sessions under way.", |s| {
        count(s.in_table)
    }),
    (
        "nap_session_interval_seconds",
        GAUGE,
        "From one session's start to the next.",
        |s| Some(s.interval_s),
    ),
    (
        "nap_session_work_mean_seconds",
        GAUGE,
        "Mean time in Run Ready of a session that is over.",
        |s| s.mean_work_s,
    ),
    (
        "nap_sessions_started_total",
        COUNTER,
        "Sessions that had their turn.",
        |s| total(s.started),
    ),
    (
        "nap_sessions_finished_total",
        COUNTER,
        "Sessions over by an end page or the application's word.",
        |s| total(s.finished),
    ),
    (
        "nap_sessions_idle_total",
        COUNTER,
        "Sessions over because nothing came any more.",
        |s| total(s.idle_ended),
    ),
    (
        "nap_sessions_revoked_total",
        COUNTER,
        "Sessions ended by hand.",
        |s| total(s.revoked),
    ),
    (
        "nap_sessions_unnamed_total",
        COUNTER,
        "Sessions over with their first access, whose answer set no cookie to be known by.",
        |s| total(s.unnamed),
    ),
    (
        "nap_sessions_unplaced_total",
        COUNTER,
        "Sessions without a place in the table: not protected.",
        |s| total(s.unplaced),
    ),
    (
        "nap_sessions_nameless_total",
        COUNTER,
        "New cookies of members without a place in the table.",
        |s| total(s.nameless),
    ),
    (
        "nap_session_accesses_total",
        COUNTER,
        "Accesses of members.",
        |s| total(s.accesses),
    ),
    (
        "nap_session_accesses_beyond_parallel_total",
        COUNTER,
        "Accesses with a member's cookie beyond parallel=, taken for strangers'.",
        |s| total(s.beyond_parallel),
    ),
    (
        "nap_session_accesses_passed_total",
        COUNTER,
        "Accesses of members let pass without a permit, as no place was left to wait on.",
        |s| total(s.passed),
    ),
    (
        "nap_session_accesses_refused_total",
        COUNTER,
        "Accesses of members refused as the server went down.",
        |s| total(s.refused_members),
    ),
];

/// Of an event that is polled.
pub const EVENT: &[Row<EventLine>] = &[
    (
        "telepoll_polls_total",
        COUNTER,
        "Polls of the event.",
        |e| total(e.polls),
    ),
    (
        "telepoll_reservations",
        GAUGE,
        "Reservations not yet used (R).",
        |e| total(e.reservations),
    ),
    (
        "telepoll_unit_interval_seconds",
        GAUGE,
        "Unit interval in force (T0).",
        |e| Some(e.unit_s),
    ),
    (
        "telepoll_base_interval_seconds",
        GAUGE,
        "Base interval as configured (Ta).",
        |e| Some(e.settings.base_s),
    ),
    (
        "telepoll_wait_seconds",
        GAUGE,
        "How long a client that polls now is told to wait (Tw).",
        |e| Some(e.wait_s),
    ),
    (
        "telepoll_level_ratio",
        GAUGE,
        "Share of a period that its accesses take; above 1 periods become longer.",
        |e| Some(e.level),
    ),
    (
        "telepoll_stretch_ratio",
        GAUGE,
        "How many times longer the unit interval is, as answers take longer than usual.",
        |e| Some(e.stretched),
    ),
];

/// Of an activity at a balancer's member.
pub const ACTIVITY: &[Row<ActivityLine>] = &[
    (
        "oxthas_requests",
        GAUGE,
        "Requests under way at the member, from this server.",
        |a| count(a.open),
    ),
    (
        "oxthas_capacity_bytes_per_second",
        GAUGE,
        "Estimated capacity of the member for the activity.",
        |a| a.capacity_per_s,
    ),
    (
        "oxthas_failures_since_success",
        GAUGE,
        "Failures since the member last answered the activity.",
        |a| count(a.failures_since_success),
    ),
    (
        "oxthas_barred",
        GAUGE,
        "1: the member gets probes only.",
        |a| count(u32::from(a.barred)),
    ),
    (
        "oxthas_answers_total",
        COUNTER,
        "Answers of the member.",
        |a| total(a.answers),
    ),
    (
        "oxthas_timeouts_total",
        COUNTER,
        "Requests that went to another member, or were given up, after a timeout.",
        |a| total(a.timeouts),
    ),
    (
        "oxthas_failures_total",
        COUNTER,
        "Other failures: refused, broken, 5xx.",
        |a| total(a.other_failures),
    ),
];

/// Of all clients and their debts.
pub const DEBTS: &[Row<DebtReport>] = &[
    (
        "bwshare_requests_total",
        COUNTER,
        "Requests of clients that are looked at, let in or refused.",
        |d| total(d.requests),
    ),
    (
        "bwshare_bytes_total",
        COUNTER,
        "Bytes charged to clients.",
        |d| total(d.bytes),
    ),
    (
        "bwshare_would_be_refused_total",
        COUNTER,
        "Requests that would have been refused (BwShare DryRun).",
        |d| total(d.would_be_refused),
    ),
    (
        "bwshare_excused_total",
        COUNTER,
        "Requests let in although their client owes too much: with a ticket, as a member of a session, a poll.",
        |d| total(d.excused),
    ),
    (
        "bwshare_clients_in_debt",
        GAUGE,
        "Clients that owe something.",
        |d| Some(d.clients_in_debt as f64),
    ),
    (
        "bwshare_clients_capacity",
        GAUGE,
        "Clients in debt there is room for.",
        |d| Some(d.clients_capacity as f64),
    ),
    (
        "bwshare_debts_lost_total",
        COUNTER,
        "Debts forgotten because their table was full.",
        |d| total(d.debts_lost),
    ),
    ("bwshare_trace_rows", GAUGE, "Clients in the trace.", |d| {
        Some(d.trace_rows as f64)
    }),
];

fn count(n: u32) -> Option<f64> {
    Some(f64::from(n))
}

fn total(n: u64) -> Option<f64> {
    Some(n as f64)
}

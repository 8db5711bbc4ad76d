//! The families of samples, a table for what each is about.

use crate::info::bwshare::DebtReport;
use crate::info::report::{GateLine, Report};

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
        "Workers wanted: run ready + wait limit + reserve of all rooms, in whole children.",
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
        "Sentences of /nap-info that want an administrator.",
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
        "Wait limit in force: what is wanted, as far as workers allow.",
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
        "Until whoever comes last now has his turn.",
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
        "Newcomers told when the server's speed became known.",
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
        "Of these, tickets put off before already.",
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

/// Of all clients and their debts.
pub const DEBTS: &[Row<DebtReport>] = &[
    (
        "bwshare_requests_total",
        COUNTER,
        "Requests charged to clients.",
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
        "Requests let in by their ticket although their client owes too much.",
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

//! Clients that owe, clients that poll, and balancers.

use crate::Directive;
use crate::SetBy::*;

pub(super) const DIRECTIVES: &[Directive] = &[
    Directive {
        name: "BwShare",
        set_by: Own("TAKE1", "nap_bwshare_engine", "ANYWHERE"),
        syntax: "BwShare On|Off|DryRun",
        default: "Off",
        place: "dir",
        help: "On, Off, or DryRun: whether clients that owe too much are asked to wait",
        text: "clients that owe too much are asked to wait, see [bwshare.md](bwshare.md). DryRun decides and counts, but lets everything pass",
        shipped: "\
# ---- Greedy clients ------------------------------------------------------------------------------

# On, or DryRun: decides and counts, and lets everything pass.
#BwShare Off
",
    },
    Directive {
        name: "BwShareFiles",
        set_by: Debts,
        syntax: "BwShareFiles max rate",
        default: "30 0.05",
        place: "vhost",
        help: "files a client may owe, and how many are paid off a second",
        text: "files a client may owe, and files a second that are paid off; a maximum must be paid off within 36 years",
        shipped: "\
# Files and bytes a client may owe, and how many of them are paid off a second. The defaults are the
# published ones (30 0.05 and 500000 1000); these let people browse.
#BwShareFiles 300 5
",
    },
    Directive {
        name: "BwShareBytes",
        set_by: Debts,
        syntax: "BwShareBytes max rate",
        default: "500000 1000",
        place: "vhost",
        help: "bytes a client may owe, and how many are paid off a second",
        text: "the same for bytes; `K`, `M`, `G` are understood",
        shipped: "\
#BwShareBytes 200M 1M
",
    },
    Directive {
        name: "BwShareRule",
        set_by: Debts,
        syntax: "BwShareRule exact|literal [refused=0..1]",
        default: "exact",
        place: "vhost",
        help: "exact, or literal as the note has it; refused= what a refused request is charged",
        text: "the note's formula, or its words, which let one more file through. `refused=`: the charge for a refused request, in files",
        shipped: "\
#BwShareRule exact
",
    },
    Directive {
        name: "BwShareClient",
        set_by: Debts,
        syntax: "BwShareClient v4len v6len",
        default: "32 64",
        place: "vhost",
        help: "bits of an IPv4 and of an IPv6 address that make one client",
        text: "bits of an address that make one client",
        shipped: "\
# Bits of an IPv4 and of an IPv6 address that make one client.
#BwShareClient 32 64
",
    },
    Directive {
        name: "BwShareHorizon",
        set_by: Debts,
        syntax: "BwShareHorizon rate period share",
        default: "none",
        place: "vhost",
        help: "bytes a second that no client exceeds over a time, and the share to get them",
        text: "bytes a second that no client exceeds over a time, except by one answer more; up to three",
        shipped: "\
# Bytes a second that no client exceeds over a time, the share of time in which a client gets them,
# and what the line carries.
#BwShareHorizon 125000 10s 0.95
#BwShareHorizon 12500 1h 0.95
",
    },
    Directive {
        name: "BwShareLink",
        set_by: Debts,
        syntax: "BwShareLink rate",
        default: "none",
        place: "vhost",
        help: "bytes a second that the site's line carries: the longer horizons are steered by it",
        text: "bytes a second that the site's line carries. How well horizons are served is measured by it, and the longer ones are steered",
        shipped: "\
#BwShareLink 10M
",
    },
    Directive {
        name: "BwShareStatus",
        set_by: Own("TAKE1", "nap_bwshare_set_status", "ANYWHERE"),
        syntax: "BwShareStatus 429|503|200",
        default: "429",
        place: "dir",
        help: "status of a refusal: 429, 503 or 200",
        text: "status of such a refusal",
        shipped: "\
#BwShareStatus 429
",
    },
    Directive {
        name: "BwShareExempt",
        set_by: Own("TAKE1", "nap_bwshare_exempt", "ANYWHERE"),
        syntax: "BwShareExempt expr",
        default: "",
        place: "dir",
        help: "requests for which this expression is true are not charged",
        text: "requests for which the expression is true are not charged",
        shipped: "\
#BwShareExempt \"%{HTTP_USER_AGENT} =~ /our own monitor/\"
",
    },
    Directive {
        name: "BW_tx1debt_max",
        set_by: Debts,
        syntax: "BW_tx1debt_max n",
        default: "",
        place: "vhost",
        help: "the maximum of BwShareFiles",
        text: "the historic names of `BwShareFiles`",
        shipped: "\
# The historic names of these directives; BW_throttle_off 0 is BwShare On.
#<VirtualHost *:8099>
#BW_tx1debt_max 300
",
    },
    Directive {
        name: "BW_tx1cred_rate",
        set_by: Debts,
        syntax: "BW_tx1cred_rate n",
        default: "",
        place: "vhost",
        help: "the rate of BwShareFiles",
        text: "",
        shipped: "\
#BW_tx1cred_rate 5
",
    },
    Directive {
        name: "BW_tx2debt_max",
        set_by: Debts,
        syntax: "BW_tx2debt_max n",
        default: "",
        place: "vhost",
        help: "the maximum of BwShareBytes",
        text: "and of `BwShareBytes`",
        shipped: "\
#BW_tx2debt_max 200000000
",
    },
    Directive {
        name: "BW_tx2cred_rate",
        set_by: Debts,
        syntax: "BW_tx2cred_rate n",
        default: "",
        place: "vhost",
        help: "the rate of BwShareBytes",
        text: "",
        shipped: "\
#BW_tx2cred_rate 1000000
",
    },
    Directive {
        name: "BW_throttle_off",
        set_by: Own("TAKE_ARGV", "nap_bwshare_off", "ANYWHERE"),
        syntax: "BW_throttle_off [1|0]",
        default: "",
        place: "dir",
        help: "BwShare Off; with 0, BwShare On",
        text: "`BwShare Off`; with 0, `BwShare On`",
        shipped: "\
#BW_throttle_off 0
#</VirtualHost>

",
    },
    Directive {
        name: "TelePoll",
        set_by: Own("TAKE_ARGV", "nap_telepoll_set", "ANYWHERE"),
        syntax: "TelePoll event|None [base=time] [rate=n] [mode=level|relevel|concentrate] [k=n] [phase=m/M] [form=smooth|paper]",
        default: "base=10s rate=500 mode=level form=smooth",
        place: "dir",
        help: "an event's name, or None: clients that poll these URLs are told when to come again; base= rate= mode= k= phase= form=",
        text: "clients that poll these URLs are told when to come again, see [telepoll.md](telepoll.md)",
        shipped: "\
# ---- Clients that poll, and balancers -------------------------------------------------------------

# Clients that poll these URLs are told when to poll next, so that the load is level.
#<Location \"/events/news\">
#    TelePoll news base=10s rate=500
#</Location>

",
    },
    Directive {
        name: "OxthasBands",
        set_by: Balancer,
        syntax: "OxthasBands n [integer|equal|capacity]",
        default: "3 integer",
        place: "proxy",
        help: "so many of the best members share the work by its size; integer, equal or capacity",
        text: "with `lbmethod=oxthas`: how many of the best members share the work by its size, and how the sizes are cut, see [oxthas.md](oxthas.md)",
        shipped: "\
# A balancer that shares work by the time that members take for it; all of these have their defaults.
#<Proxy \"balancer://app\">
#    BalancerMember \"http://127.0.0.1:8091\"
#    BalancerMember \"http://127.0.0.1:8092\"
#    ProxySet lbmethod=nap
#    OxthasBands 3
",
    },
    Directive {
        name: "OxthasHistory",
        set_by: Balancer,
        syntax: "OxthasHistory n",
        default: "50",
        place: "proxy",
        help: "observations that a member is judged by",
        text: "how many observations, 1 to 100, a member is judged by",
        shipped: "\
#    OxthasHistory 50
",
    },
    Directive {
        name: "OxthasActivity",
        set_by: Own("TAKE_ARGV", "nap_oxthas_activity", "ANYWHERE"),
        syntax: "OxthasActivity name regex [members=a,b]",
        default: "the path's first segment",
        place: "proxy",
        help: "a kind of request: its name, a regular expression of paths, and members=, the only ones that may get it",
        text: "a kind of request, known by its path. Only the `members=` (routes, URLs or host:port) are given it. The first that matches counts",
        shipped: "\
#    OxthasActivity search \"^/search\"
",
    },
    Directive {
        name: "OxthasPenalty",
        set_by: Balancer,
        syntax: "OxthasPenalty alpha",
        default: "1",
        place: "proxy",
        help: "alpha: a member's capacity counts as c / (1 + alpha R) after R failures",
        text: "after R failures a member's capacity counts as c / (1 + alpha R), 0 to 100",
        shipped: "\
#    OxthasPenalty 1
",
    },
    Directive {
        name: "OxthasTimeout",
        set_by: Balancer,
        syntax: "OxthasTimeout time [step=time] [min=time]",
        default: "the worker's own, a tenth, a tenth",
        place: "proxy",
        help: "how long to wait before a request goes to another member; step= min= after failures",
        text: "how long to wait before an idempotent request goes to another member. `step=`: by how much less after each failure; `min=`: how long at least",
        shipped: "\
#    OxthasTimeout 30s
",
    },
    Directive {
        name: "OxthasRetry",
        set_by: Balancer,
        syntax: "OxthasRetry n [backoff=time]",
        default: "2 backoff=250ms",
        place: "proxy",
        help: "how often a request goes to another member; backoff= before a failed one is probed",
        text: "how often a request goes to another member, 0 to 10. `backoff=`: the pause before a member that has failed is probed, doubled up to 32-fold",
        shipped: "\
#    OxthasRetry 2
#</Proxy>

",
    },
];

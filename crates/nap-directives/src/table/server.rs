//! What holds in a place, and for the whole server.

use crate::Directive;
use crate::SetBy::*;

pub(super) const DIRECTIVES: &[Directive] = &[
    Directive {
        name: "NapUse",
        set_by: Own("TAKE1", "set_use", "ANYWHERE"),
        syntax: "NapUse name|None",
        default: "None",
        place: "dir",
        help: "the room these URLs lie in, or None; the last merged one wins",
        text: "the room accesses here belong to; in `<Proxy>` [not always](#in-proxy)",
        shipped: "\
# What the room holds.
#<Location \"/\">
#    NapUse site
#</Location>

",
    },
    Directive {
        name: "NapEngine",
        set_by: Own("TAKE1", "set_engine", "ANYWHERE"),
        syntax: "NapEngine On|Off|DryRun",
        default: "On",
        place: "dir",
        help: "On, Off, or DryRun: decide, count and log, but let everything pass",
        text: "DryRun decides and counts, but lets everything pass",
        shipped: "\
# Off: nothing is scheduled. DryRun: decides and counts, and lets everything pass.
#NapEngine On
",
    },
    Directive {
        name: "NapTicketStatus",
        set_by: Own("TAKE1", "set_ticket_status", "ANYWHERE"),
        syntax: "NapTicketStatus 503|429|200",
        default: "503",
        place: "room, dir",
        help: "status of a refusal's page: 503, 429 or 200",
        text: "status of a refusal",
        shipped: "\
# The status of a refusal, and a page of your own for it.
#NapTicketStatus 503
",
    },
    Directive {
        name: "NapTicketPage",
        set_by: Own("TAKE1", "set_own_page", "ANYWHERE"),
        syntax: "NapTicketPage file|None",
        default: "the built-in page",
        place: "room, dir",
        help: "a template for the page of a refusal, or None: the built-in page",
        text: "a template for the page of a refusal, see [own-page.md](own-page.md)",
        shipped: "\
#NapTicketPage None
",
    },
    Directive {
        name: "NapTicketPath",
        set_by: Server,
        syntax: "NapTicketPath path",
        default: "`/nap-ticket`",
        place: "server",
        help: "where the ticket page lives",
        text: "the path of the ticket page; its style, script and status are under it. Front ends often deny paths with a dot (`/.nap/ticket`, the default until 2026, is answered as well where no other is set)",
        shipped: "\
# Where the ticket page lives.
#NapTicketPath /nap-ticket
",
    },
    Directive {
        name: "NapTicketKey",
        set_by: Path("key_file"),
        syntax: "NapTicketKey file",
        default: "a random key",
        place: "server",
        help: "a file of keys, one \"id hex\" a line: the first signs",
        text: "keys that sign tickets, a line each: `id hex`; the first signs, all verify; `NapStore` wants it, the same on all front ends",
        shipped: "\
# Keys that sign tickets, a line each: id and hexadecimal digits. Without it a random key.
#NapTicketKey /etc/apache2/nap.keys
",
    },
    Directive {
        name: "NapTicketLog",
        set_by: Path("log_name"),
        syntax: "NapTicketLog file|\"|command\"",
        default: "none",
        place: "server",
        help: "a file or \"|command\" that gets one line a ticket",
        text: "a JSON line for each ticket sold, and one when it is redeemed or has expired ([tickets.md](tickets.md))",
        shipped: "\
# A line for each ticket that is sold, redeemed or expired.
#NapTicketLog /var/log/apache2/nap_tickets.log
",
    },
    Directive {
        name: "NapControl",
        set_by: Own("TAKE1", "set_control", "RSRC_CONF"),
        syntax: "NapControl path|Off",
        default: "Off",
        place: "server",
        help: "Off, or the path at which nap-control answers",
        text: "the path at which `nap-control` answers, see [control.md](control.md)",
        shipped: "\
# The path that takes an administrator's orders; its <Location> says who may send them.
#NapControl Off
",
    },
    Directive {
        name: "NapStateFile",
        set_by: Path("state_file"),
        syntax: "NapStateFile path",
        default: "none",
        place: "server",
        help: "a file that keeps tickets over a full restart",
        text: "keeps tickets over a full restart. Its directory must not be writable by the user or the group the children run as",
        shipped: "\
# Keeps tickets over a full restart.
#NapStateFile /var/lib/mod_nap/state
",
    },
    Directive {
        name: "NapStore",
        set_by: Server,
        syntax: "NapStore url [name=value...]|Off",
        default: "Off",
        place: "server",
        help: "the Valkey or Redis where several front ends meet, e.g. redis://10.0.0.5; sticky spare= fleet= timeout= forget= agent=; or Off",
        text: "several front ends meet at this Valkey or Redis, see [fleet.md](fleet.md): `redis://host[:port][/db]`, `rediss://` (TLS), `redis+unix:///path` or `redis+sentinel://host,host,host/name[/db]`. `fleet=nap`: several fleets may share a store. `sticky`: the balancer keeps each visitor on one front end. `spare=1`: room is kept for the holders of one front end that is lost; `0`: more tickets a second where workers are few. `timeout=20ms`: how long a request may wait for it. `forget=30s`: a front end that was silent for so long has no part in a shared limit. `agent=`: the program that speaks with it",
        shipped: "\
# Several front ends that share a crowd meet at this Valkey or Redis. All of them need the same NapTicketKey. Where rooms have
# sessions the balancer must keep each visitor on one front end; if none has, leave the word sticky out: any balancer will do.
#NapStore redis://10.0.0.5 sticky
",
    },
    Directive {
        name: "NapStoreAuth",
        set_by: Path("store_auth"),
        syntax: "NapStoreAuth file",
        default: "none",
        place: "server",
        help: "a file with the store's password, or \"user password\"; for TLS \"ca file\" and \"cert file key file\"",
        text: "a file that only root may read, with a line `password` or `user password`; for TLS `ca file` and `cert file key file`",
        shipped: "\
#NapStoreAuth /etc/apache2/nap.store
",
    },
    Directive {
        name: "NapNode",
        set_by: Server,
        syntax: "NapNode name",
        default: "the host's name",
        place: "server",
        help: "what this server is called in its fleet; another name on each",
        text: "what this server is called in its fleet: another name on each. Up to 63 letters, digits, `-`, `_` and `.`",
        shipped: "\
#NapNode web1
",
    },
    Directive {
        name: "NapReserve",
        set_by: Server,
        syntax: "NapReserve n|n%",
        default: "10%",
        place: "server",
        help: "workers that waiting newcomers leave free: a number, or n% of every child's; ticket holders may use them",
        text: "the reserve: workers that waiting newcomers leave free, except in the first moments of a crowd. A number, or n% of every child's (prefork: of the server's), rounded up; 0 leaves none. Ticket holders may use them; in a [fleet](fleet.md) half of them",
        shipped: "\
# Workers that waiting newcomers leave free: a number, or n% of every child's; ticket holders may use
# them.
#NapReserve 10%
",
    },
    Directive {
        name: "NapPark",
        set_by: Server,
        syntax: "NapPark On|Off",
        default: "On where it can be",
        place: "server",
        help: "On: waiting accesses hold no worker, if the MPM is event; or Off",
        text: "On: a visitor who waits holds no worker. This needs the MPM event of httpd 2.4.63 or later, and HTTP/1; all others wait on a worker ([sizing](sizing.md#without-workers))",
        shipped: "\
# A visitor who waits holds no worker, where the MPM is event (httpd 2.4.63 or later). Off: they hold one.
#NapPark On
",
    },
    Directive {
        name: "NapTables",
        set_by: Server,
        syntax: "NapTables waiters=n clients=n trace=n sessions=n guests=n",
        default: "from the MPM and 16,384 where nobody waits on workers, 128K, 16K, 16K, 16K",
        place: "server",
        help: "sizes of tables: clients= trace= sessions= waiters= guests=",
        text: "table sizes: places to wait, clients in debt and clients shown (BwShare), sessions, and with `NapStore` tickets of other front ends in use here. They change only at a full restart",
        shipped: "\
# Places to wait, clients in debt and clients shown; they change at a full restart only.
#NapTables clients=128K trace=16K

",
    },
];

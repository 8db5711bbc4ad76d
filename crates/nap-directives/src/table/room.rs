//! What a room is, and how accesses wait for it.

use crate::Directive;
use crate::SetBy::*;

pub(super) const DIRECTIVES: &[Directive] = &[
    Directive {
        name: "<NapRoom",
        set_by: Own("RAW_ARGS", "section_room", "RSRC_CONF"),
        syntax: "<NapRoom name>",
        default: "",
        place: "server",
        help: "a room: what is protected, and how; NapUse puts URLs into it",
        text: "defines a room: the URLs that are protected together. A room may span virtual hosts. At most 256 rooms; a graceful restart may add eight, besides those that take over the entries of rooms no longer named",
        shipped: "\
# ---- Rooms -------------------------------------------------------------------------------------

#<NapRoom site>
",
    },
    Directive {
        name: "NapRunReady",
        set_by: Room,
        syntax: "NapRunReady n [shared]|auto|paper [min= max= progress=total|own history=]",
        default: "auto",
        place: "room, page",
        help: "how many accesses run at once: a number, or auto or paper, with min=, max= and such",
        text: "how many accesses run at once, over all of httpd's processes. `auto` finds the number by the progress that is made. It begins with the number of processors, two at least, and goes up to half of MaxRequestWorkers and 256 unless `max=` says otherwise. Use `progress=own` where the work is done elsewhere. `paper` is SQS's own law with the mean of `history=` intervals, see [sqs.md](sqs.md). `n shared`: so many run at once over all front ends that share a store, not in rooms with sessions, see [fleet.md](fleet.md)",
        shipped: "\
# How many accesses run at once, over all processes: about what processors and database bear.
# auto finds the number by what gets done; it begins with as many as processors, at least 2.
#    NapRunReady auto
",
    },
    Directive {
        name: "NapWaitMax",
        set_by: Room,
        syntax: "NapWaitMax time",
        default: "4s",
        place: "room, page",
        help: "the bound: the longest acceptable time from arrival to answer, e.g. 4s",
        text: "the bound: the longest acceptable time from arrival to answer; 100ms to 10min. A graceful restart changes it; slots already open keep the old one",
        shipped: "\
# The bound: nobody waits longer from arrival to answer.
#    NapWaitMax 4s
",
    },
    Directive {
        name: "NapWaitLimit",
        set_by: Room,
        syntax: "NapWaitLimit auto|paper|work|n",
        default: "auto",
        place: "room, page",
        help: "how many may wait: auto (by what the bound allows), paper, work, or a number",
        text: "places to wait: by measured speed (auto), by the paper's regression line, by measured speed and the cost of each path ([sqs](sqs.md)), or a fixed number",
        shipped: "\
# Places to wait: by measured speed (auto), and what each path costs (work), by the paper's line
# (paper), or a number.
#    NapWaitLimit auto
",
    },
    Directive {
        name: "NapReAccess",
        set_by: Room,
        syntax: "NapReAccess auto|n",
        default: "auto",
        place: "room, page",
        help: "places kept for ticket holders: auto (by the tickets out), or a number",
        text: "places for ticket holders: claimed in the ledger (auto), or the paper's fixed number on top of Wait",
        shipped: "\
# Places for ticket holders: as their tickets claim them (auto), or the paper's fixed number.
#    NapReAccess auto
",
    },
    Directive {
        name: "NapHistory",
        set_by: Room,
        syntax: "NapHistory n",
        default: "100",
        place: "room",
        help: "how many finished accesses the wait limit looks at",
        text: "how many finished accesses the wait limit looks at; 10 to 1000",
        shipped: "\
# Finished accesses that the wait limit looks at.
#    NapHistory 100
",
    },
    Directive {
        name: "NapDownload",
        set_by: Room,
        syntax: "NapDownload size|Off",
        default: "1M",
        place: "room",
        help: "an answer longer than this gives its permit back while it is read, e.g. 1M; or Off",
        text: "an answer longer than this gives its permit back while it is still being sent. A shorter one does so too when its reader does not take it for a tenth of a second (over HTTP/2 for one to two seconds). Off: neither",
        shipped: "\
# An answer longer than this gives its permit back while it is still being sent.
#    NapDownload 1M
",
    },
    Directive {
        name: "NapBody",
        set_by: Room,
        syntax: "NapBody size|Off",
        default: "64K",
        place: "room",
        help: "so much of a request's body is read before its access enters, e.g. 64K; or Off",
        text: "how much of a request's body is read before its access enters the room, 1K to 1G. The part beyond 64 KB is in a temporary file. So [slow senders](security.md#slow-senders) hold no permit",
        shipped: "\
# So much of a request's body is read before its access enters: a slow sender holds no permit.
#    NapBody 64K
",
    },
    Directive {
        name: "NapStatic",
        set_by: Room,
        syntax: "NapStatic On|Off",
        default: "Off",
        place: "room",
        help: "On: schedule files of the default handler too",
        text: "schedule files of the default handler too. Files that SSI or mod_ext_filter turns into programs are scheduled anyway, whichever directive does it. The contents of `.htaccess` are not known beforehand: files with a `FilterChain` from there are scheduled only with `On`",
        shipped: "\
# Files that httpd serves by itself are scheduled, too.
#    NapStatic Off
",
    },
    Directive {
        name: "NapAdmit",
        set_by: Room,
        syntax: "NapAdmit late|early",
        default: "late",
        place: "room",
        help: "late: admit when the handler is known; early: before a costly login",
        text: "late: admit in the last fixup. early: admit before authorization (static files cannot be recognised then)",
        shipped: "\
# Admit when the handler is known, or (early) before a costly login.
#    NapAdmit late
",
    },
    Directive {
        name: "NapExempt",
        set_by: Own("TAKE1", "set_exempt", "RSRC_CONF"),
        syntax: "NapExempt expr",
        default: "",
        place: "room",
        help: "requests for which this expression is true are never scheduled",
        text: "accesses for which the expression is true are never scheduled",
        shipped: "\
# Never scheduled: for example what a load balancer asks for.
#    NapExempt \"%{REQUEST_URI} == '/health'\"
#    NapExempt \"%{REQUEST_URI} =~ m#^/(robots\\.txt|favicon\\.ico|\\.well-known/.*)$#\"
",
    },
    Directive {
        name: "NapPriority",
        set_by: Own("TAKE_ARGV", "set_priority", "RSRC_CONF"),
        syntax: "NapPriority n expr`, `NapPriority progress",
        default: "",
        place: "room",
        help: "1 to 7 and an expression: where it is true, served so many eighths of the bound sooner; or progress: the session nearest its end first",
        text: "accesses for which the expression is true are served as if they had come n (1..7) eighths of the bound earlier; the highest n counts. `progress`: among members, the session nearest its end likewise ([sqs](sqs.md))",
        shipped: "\
#    NapPriority 4 \"%{REQUEST_URI} -strmatch '/pay*'\"
",
    },
    Directive {
        name: "NapKeepForm",
        set_by: Room,
        syntax: "NapKeepForm size|Off [charset]",
        default: "64k",
        place: "room",
        help: "a refused form of up to so many bytes comes back in its page, e.g. 64k; or Off; and the charset of forms that are not UTF-8",
        text: "a refused POST's form of up to this size comes back in the page and is sent again from it; 1K to 1M. Only forms of the same origin are kept, in UTF-8 or else in the charset (`Shift_JIS`, `windows-1252`), see [tickets.md](tickets.md)",
        shipped: "\
# A refused form of up to this size comes back in its page.
#    NapKeepForm 64k

",
    },
];

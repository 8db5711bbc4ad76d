/* nap.h: the whole contract between the C shim and the Rust core.
 *
 * Both sides compile from this page: the shim includes it, and bindgen turns it into
 * src/ffi/contract.rs (committed; `make check-bindings` compares). It needs no httpd header,
 * and neither side links against the other's symbols but for nap_core_table(): the core is a
 * table of functions (nap_core) and so is what it may call back (nap_host). Signatures are thus
 * checked by both compilers.
 *
 * Rules: strings are borrowed for the call, not terminated; the core never keeps a pointer
 * except the host table; every core function may be called from any thread of a child, and
 * none of them blocks but nap_core.wait; a panic inside comes back as the safe answer.
 * Times are microseconds (suffix _us), sizes bytes.
 */
#ifndef NAP_H
#define NAP_H

#include <stddef.h>
#include <stdint.h>

#define NAP_ABI 1
#define NAP_UNSET (-1)        /* a setting nobody made */
#define NAP_NONE UINT32_MAX   /* no room, no gate, no permit ... */
#define NAP_NAME_MAX 63       /* room and page names, bytes without the final zero */
#define NAP_ERR_MAX 512       /* a configuration message */

/* Bytes somebody else owns. */
typedef struct nap_str {
    const char *ptr;
    size_t len;
} nap_str;

/* ---- Configuration -------------------------------------------------------------------- */

/* The configuration of a room or of a page, laid out by the core, in conf_room_size() zeroed bytes. */
typedef struct nap_room_conf nap_room_conf;

/* What the shim reads of it, filled in by conf_room_view. Numbers are NAP_UNSET until a directive sets them;
 * after conf_room_finish none is. Texts end with a zero and live as long as the conf. */
typedef struct nap_room_view {
    const char *name;
    const char *page;                   /* empty: the room itself, and what matches none of its pages */
    const char *cookie;                 /* empty: nap-<room>, under TLS __Host-nap-<room> */
    const char *session_cookie;         /* the application's; empty: one of ours */
    int64_t run_ready;                  /* permits that it begins with */
    int64_t download;                   /* bytes after which a body is a long answer, or negative: Off */
    int64_t body;                       /* bytes of a body that are read before entry, or negative: Off */
    int64_t keep_form;                  /* bytes of a refused form that its page gives back, or negative: Off */
    int64_t admit_early;                /* 1: admission in access_checker */
    int64_t schedule_static;            /* 1: files of the default handler too */
    int64_t session;                    /* 1: the room has sessions */
} nap_room_view;

#define NAP_BW_HORIZONS 3

/* What a client may owe, as configured: millionths unless said otherwise, NAP_UNSET until set. */
typedef struct nap_bw_conf {
    int64_t files_max;
    int64_t files_rate;         /* a second, as all rates */
    int64_t bytes_max;
    int64_t bytes_rate;
    int64_t literal;            /* 0 exact, 1 literal */
    int64_t refused;            /* what a refused request is charged, files */
    int64_t v4_bits;            /* a number */
    int64_t v6_bits;
    int64_t status;             /* 429, 503 or 200 */
    int64_t horizons;           /* how many, shortest first */
    int64_t horizon_rate[NAP_BW_HORIZONS];
    int64_t horizon_period[NAP_BW_HORIZONS];    /* microseconds */
    int64_t horizon_share[NAP_BW_HORIZONS];
    int64_t link;               /* bytes a second that the site's line carries */
} nap_bw_conf;

/* What is polled, as configured; conf_event puts the defaults in. */
typedef struct nap_event_conf {
    char name[NAP_NAME_MAX + 1];
    int64_t base_us;            /* Ta */
    int64_t rate;               /* N0: accesses a second, millionths */
    int64_t mode;               /* 0 level, 1 relevel, 2 concentrate */
    int64_t form;               /* 0 smooth, 1 paper */
    int64_t k;
    int64_t m;                  /* phase: event m of M */
    int64_t of;
    int64_t index;              /* in the segment; -1: not there */
} nap_event_conf;

#define NAP_EVENTS_MAX 64

/* How a balancer chooses, as configured; NAP_UNSET until set. */
typedef struct nap_ox_conf {
    int64_t bands;              /* N of OXTHAS-N */
    int64_t split;              /* 0 integer, 1 equal, 2 capacity */
    int64_t history;            /* observations that count */
    int64_t alpha;              /* millionths */
    int64_t timeout_us;         /* NAP_UNSET: the worker's own */
    int64_t step_us;
    int64_t min_us;
    int64_t retry;              /* how often a request may be done again elsewhere */
    int64_t backoff_us;         /* before the first probe of a member that has failed */
} nap_ox_conf;

/* The server as configured and as the MPM runs it. */
typedef struct nap_server_conf {
    int64_t reserve;            /* workers newcomers leave free; NAP_UNSET: reserve_percent counts */
    int64_t reserve_percent;    /* of ThreadsPerChild (or of MaxRequestWorkers on prefork) */
    int64_t table_waiters;      /* NapTables waiters=, NAP_UNSET: from the MPM */
    int64_t table_clients;      /* 0: no debts are kept; likewise */
    int64_t table_trace;
    int64_t table_sessions;
    int64_t park;               /* NapPark: 1 On, 0 Off, or NAP_UNSET: On where it can be */
    char ticket_path[256];      /* NapTicketPath; empty: /nap-ticket */
    uint32_t server_limit;      /* children the MPM may run at most */
    uint32_t thread_limit;      /* threads a child may have at most */
    uint32_t threads_per_child; /* 1 on prefork */
    uint32_t max_workers;       /* MaxRequestWorkers */
    uint32_t threaded;          /* 0 on prefork */
    uint32_t cores;             /* online */
    uint32_t members;           /* of balancers that OXTHAS chooses for; 0: none */
    uint32_t parked;            /* shim sets: accesses that may wait without a worker; 0: none */
    uint32_t on_workers;        /* shim sets: 1: some wait on workers all the same */
} nap_server_conf;

/* ---- An access ---------------------------------------------------------------------------- */

/* What is to be done with an access now. */
typedef enum nap_verdict {
    NAP_PASS = 0,    /* not scheduled: httpd goes on as if we were not there (also: fail open) */
    NAP_RUN = 1,     /* Run Ready: holds a permit; `leave` must follow */
    NAP_WAIT = 2,    /* in Wait or Re Access: call `wait` again */
    NAP_REFUSE = 3,  /* Next Wait: `refusal` tells the headers, `page` the body */
    NAP_MORE = 4     /* try_enter only: the request's details are needed, call `enter` */
} nap_verdict;

/* Why a waiting access stops waiting before its turn (nap_core.give_up). */
typedef enum nap_give_up {
    NAP_GONE = 1,     /* the client closed its connection: nobody to answer; also just after NAP_RUN */
    NAP_STOPPING = 2  /* the server is going down: refuse with a ticket */
} nap_give_up;

#define NAP_FLAG_SECONDARY 1u   /* shim sets: a stream of mod_http2 on that module's own threads */
#define NAP_FLAG_DRY_RUN 2u     /* shim sets: decide and count, but let everything pass */
#define NAP_FLAG_TICKETS 4u     /* core sets on NAP_RUN: tickets are out; `enter` if it may carry one */
#define NAP_FLAG_STARTS 8u      /* shim sets before `enter`: asks for a page that starts a session */
#define NAP_FLAG_BEGUN 16u      /* core sets: it has begun a session, which has no known member yet */
/* 32u is the core's own */
#define NAP_FLAG_PARKS 64u      /* shim sets: if it has to wait, it waits without a worker */

/* How fast a body that is read without a permit must come, in bytes a second; 0: at any pace. */
typedef struct nap_pace {
    uint32_t lately;
    uint32_t in_all;      /* on average since reading began,  */
    uint32_t after_ms;    /* once it has been waited for this long in all */
} nap_pace;

/* One access; lives on the pool of the chain's first request. nap_core::room::access::Access, of which the shim
 * names what it sets or reads. Plain numbers, so that one parked without its thread can be resumed by another. */
typedef struct nap_access {
    uint32_t room;        /* shim sets: index from room_index, of the room or of the page it asks for */
    uint32_t home;        /* shim sets: one-based index of the room itself if it has sessions; 0: it has none */
    uint32_t session;     /* shim reads: 0: it is no access of a member's */
    uint32_t priority;    /* shim sets before `enter`: of NapPriority, 0 without */
    uint32_t flags;       /* NAP_FLAG_* */
    uint32_t group;       /* shim reads (log note): 0 none 1 run 2 wait 3 re-access 4 next-wait */
    uint64_t waited_us;   /* shim reads (log note) */
    uint64_t own[10];     /* core's own; the shim zeroes all up to here */
    uint64_t rest[11];
} nap_access;

#define NAP_BW_DRY 1u           /* shim sets: DryRun */
#define NAP_BW_EXCUSED 2u       /* shim sets: charged but never refused */

/* A request that is charged to a client; lives as long as it, zeroed by the shim. */
typedef struct nap_visit {
    uint32_t limits;      /* shim sets: index from bw_limits */
    uint32_t flags;       /* shim sets: NAP_BW_* */
    uint64_t key;         /* core's own; 0: nobody is charged */
    uint64_t wide;
    uint64_t wait_us;     /* refused: how long to wait */
    uint32_t debt;        /* refused: core's own; shim reads through bw_debt_name */
    uint32_t status;      /* refused: shim sets, what the page is answered with */
    uint32_t lowered[3];  /* core's own: the horizons' rates as it began, in millionths off */
    uint32_t spare;
} nap_visit;

/* Bytes that a client is charged for before they are sent; the shim zeroes `bytes`. */
typedef struct nap_reserved {
    uint64_t bytes;
    uint64_t at_ns;         /* core's own: when */
    uint64_t from_ns[2][4]; /* core's own: from when on they are paid off, of the client's own debts
                             * and of the network's: bytes, and each horizon's */
    uint32_t returned[2];   /* core's own: what had been given back to each by then */
    double byte_unit;       /* core's own: how long a byte took then by the limits in force */
} nap_reserved;

/* The client that asked last on a connection, so that its address need not be looked up again; lives
 * with the connection, zeroed by the shim, the core's own. */
typedef struct nap_client {
    uint8_t address[16];
    uint8_t prefix[16];   /* the part of it that is the client */
    uint32_t bits;
    uint32_t limits;      /* index + 1 of those it is charged by; 0: nobody has asked */
    uint64_t key;
    uint64_t wide;
} nap_client;

#define NAP_KNOWN_MAX 1000      /* a longer Cookie header is read anew each time */

/* The key that the last Cookie header on a connection stands for, so that the next one is compared
 * instead of read; lives with the connection, zeroed by the shim, the core's own. */
typedef struct nap_known {
    uint64_t key;
    uint32_t room;        /* index + 1 of its room; 0: nothing is known */
    uint32_t len;
    uint8_t text[NAP_KNOWN_MAX];
} nap_known;

/* What a poll is told. */
typedef struct nap_poll {
    uint64_t wait_us;     /* Tw */
    uint64_t period;      /* its number */
    int64_t event;        /* its index */
    uint32_t tally;       /* 1: it came in the part of the period in which data is counted */
    uint32_t spare;
} nap_poll;

/* What the core needs to know of a request once it is not the trivial case. */
typedef struct nap_request {
    void *r;                    /* handed back to the host's functions */
    nap_str method;
    nap_str uri;                /* path and query as received, after removal of nap-ticket= */
    const nap_str *cookies;     /* the Cookie headers, in order */
    size_t n_cookies;
    nap_str ticket_header;      /* Nap-Ticket, empty: none */
    nap_str ticket_query;       /* value of nap-ticket=, empty: none */
    nap_str accept;
    nap_str accept_language;
    nap_str fetch_dest;         /* Sec-Fetch-Dest */
    nap_str purpose;            /* Sec-Purpose, else Purpose */
    nap_str requested_with;     /* X-Requested-With: a script says that it is one */
    uint64_t body_us;           /* how long its body was read before it entered */
    nap_str origin;
    uint8_t client[16];         /* useragent address, v4 as ::ffff:a.b.c.d */
    uint32_t tls;               /* 1: the cookie may carry Secure and the __Host- prefix */
    uint32_t ticket_status;     /* 503, 429 or 200 */
    nap_str ticket_path;        /* NapTicketPath */
    uint32_t own_page;          /* NapTicketPage by page_own's number; NAP_NONE: the built-in one */
    nap_str issued;             /* page only: the Nap-Ticket header of its refusal, empty: none */
    uint32_t form_state;        /* page only: NAP_FORM_* */
    nap_str form_type;          /* with NAP_FORM_READ: Content-Type */
    nap_str form_body;          /* ... and the whole body */
} nap_request;

#define NAP_FORM_NONE 0u        /* no POST, or NapKeepForm Off */
#define NAP_FORM_READ 1u        /* of this origin, and here */
#define NAP_FORM_LOST 2u        /* could not be kept */

/* Whether the form of a refused POST may be kept. Empty: the request does not say. */
typedef struct nap_form {
    nap_str fetch_site;         /* Sec-Fetch-Site */
    nap_str origin;
    nap_str referer;
    nap_str scheme;             /* the request's own */
    nap_str host;               /* the request's own, with its port */
    nap_str content_type;
} nap_form;

/* A member of a balancer that may be given work. */
typedef struct nap_member {
    uint64_t key;               /* a hash of the two names */
    nap_str balancer;
    nap_str name;
    uint32_t factor;            /* its load factor, per cent */
    uint32_t executor;          /* core's own */
} nap_member;

#define NAP_OX_OXTHAS 1u
#define NAP_OX_NAP 2u

/* A request that a balancer is to hand to one of its members; lives on its pool, zeroed by the
 * shim. */
typedef struct nap_task {
    uint32_t law;               /* shim sets: NAP_OX_OXTHAS or NAP_OX_NAP */
    uint32_t may_probe;         /* shim sets: 1: it can be done again elsewhere */
    uint64_t body;              /* shim sets: bytes of the request's body */
    uint64_t own_timeout_us;    /* shim sets: of the workers, where OxthasTimeout does not say */
    uint64_t size;              /* core's own */
    uint64_t owner;
    uint64_t began_us;
    uint64_t timeout_us;        /* shim reads, of the attempt that is under way */
    uint32_t flight;
    uint32_t activity;
    uint32_t probe;             /* shim reads: it tests whether the member has recovered */
    uint32_t under_way;         /* 1: ox_end must follow */
} nap_task;

/* How an attempt ended. */
typedef enum nap_ox_end {
    NAP_OX_ANSWERED = 0,
    NAP_OX_CONNECT,             /* no connection could be made */
    NAP_OX_TIMED_OUT,
    NAP_OX_BROKEN,              /* the connection broke before an answer */
    NAP_OX_STATUS,              /* a 5xx */
    NAP_OX_GIVEN_UP             /* nothing can be said: the client went, or was at fault */
} nap_ox_end;

/* A form that came to nap-control. */
typedef struct nap_control {
    nap_form source;            /* without a Referer */
    nap_str nonce;              /* X-Nap-Control */
    nap_str body;
} nap_control;

/* ---- What the core may call -------------------------------------------------------------- */

/* Rooms of one configuration, and gates of all their pages; each gate takes up to two megabytes of
 * shared memory. */
#define NAP_ROOMS_MAX 256
#define NAP_GATES_MAX 512
#define NAP_PAGES_MAX 16      /* gates of one room's pages: 15 named ones beside its own */

#define NAP_LOG_ERROR 3
#define NAP_LOG_WARN 4
#define NAP_LOG_NOTICE 5
#define NAP_LOG_INFO 6
#define NAP_LOG_DEBUG 7

typedef struct nap_host {
    /* a header of the answer to r that survives an error redirect (err_headers_out), added; its
     * name ends with a zero and lives as long as the core */
    void (*err_header)(void *r, const char *name, nap_str value);
    /* the same, replacing */
    void (*set_err_header)(void *r, const char *name, nap_str value);
    /* content type, then body, of the answer the handler is making */
    void (*content_type)(void *r, nap_str type);
    void (*write)(void *r, nap_str body);
    /* a variable for the document that answers in r's place (ErrorDocument), as REDIRECT_<name> */
    void (*variable)(void *r, nap_str name, nap_str value);
    /* one line to the server's error log */
    void (*log)(int level, nap_str line);
    /* one line to NapTicketLog, if there is one */
    void (*ticket_log)(nap_str line);
    /* the name that DNS or the hosts file gives an address; takes as long as the look-up does. 0: none */
    int (*name_of)(const uint8_t address[16], char *name, size_t size);
    /* how many milliseconds ago the last of r came over its connection, by the kernel's clock: the time
     * before a worker took it up counts too. 0: not known */
    uint32_t (*received)(void *r);
    /* connections that the kernel has accepted and no worker has taken; UINT32_MAX: this process listens
     * no more, or the kernel does not tell */
    uint32_t (*outside)(void);
} nap_host;

/* ---- What the core offers ------------------------------------------------------------------ */

/* The mapping that all children share; the shim keeps it over restarts of the module. */
typedef struct nap_segment {
    void *base;
    uint64_t size;
    int32_t fd;         /* memfd or state file, -1: none */
} nap_segment;

typedef struct nap_core {
    uint32_t abi;

    /* -- configuration; errors are sentences in err[NAP_ERR_MAX], return 0 = good -- */
    size_t (*conf_room_size)(void);
    void (*conf_room_init)(nap_room_conf *room, nap_str name);
    void (*conf_room_view)(const nap_room_conf *room, nap_room_view *view);
    /* permits of its room's other gates, together */
    void (*conf_room_beside)(nap_room_conf *room, int64_t permits);
    /* a page of `room`, which may not be complete yet: only its name is used */
    int (*conf_page_init)(nap_room_conf *page, const nap_room_conf *room, nap_str name, char *err);
    /* the page takes over its room's value for each unset setting; before either is finished */
    void (*conf_page_over)(nap_room_conf *page, const nap_room_conf *room);
    int (*conf_room)(nap_room_conf *room, nap_str name, const nap_str *argv, size_t argc, char *err);
    void (*conf_server_init)(nap_server_conf *server);
    int (*conf_server)(nap_server_conf *server, nap_str name, const nap_str *argv, size_t argc, char *err);
    /* a status code for NapTicketStatus, or -1 with err */
    int (*conf_status)(nap_str arg, char *err);
    /* defaults in, ranges and combinations checked; may also leave a remark (return 1) */
    int (*conf_room_finish)(nap_room_conf *room, const nap_server_conf *server, char *err);

    /* -- the parent, at start and at each graceful restart -- */
    /* make or take over the segment; *segment is what an earlier load of the module left (base NULL:
     * nothing). state_file may be empty. children_uid: the user who must be unable to replace the file */
    int (*segment_open)(nap_segment *segment, const nap_server_conf *server, size_t rooms,
                        size_t gates, nap_str state_file, uint32_t children_uid, const nap_host *host, char *err);
    /* this configuration has this room, or this page of it (page empty: the room); called for all of
     * them before the first room_index, so that no new one takes over an entry still in use */
    void (*room_keep)(nap_str name, nap_str page);
    /* enter a finished room, later its pages, into the segment (by name; limits change in place): the
     * index of its gate for nap_access.room, or -1 */
    int (*room_index)(const nap_room_conf *room, char *err);
    /* is this the text of a NapTicketKey: "id hex" lines? */
    int (*ticket_keys_check)(nap_str text, char *err);
    /* the keys of NapTicketKey: "id hex" lines; empty: the segment's random key */
    int (*ticket_keys)(nap_str text, char *err);
    /* NapTicketPage: read the file and try it out on every state of a page; err has file and line */
    int (*page_check)(nap_str path, char *err);
    /* the same, and kept for this generation; its number or -1 */
    int (*page_own)(nap_str path, char *err);
    /* all rooms entered: this generation of the configuration is in force; logs the start line.
     * ticket_log: is there a NapTicketLog? */
    void (*start)(int ticket_log);
    /* a child has died (child_status hook): take back what it held */
    void (*child_gone)(int pid);
    /* every few seconds in the parent: close slots, long answers, records of expired tickets */
    void (*tick)(void);
    /* the server ends: write the state file, drop the mapping's statistics */
    void (*segment_close)(void);

    /* -- a child -- */
    void (*child_init)(int pid);

    /* -- an access -- */
    /* one more (1) or one fewer (-1) body, that of this access, is read without a permit in this child. An
     * access that has given its permit back counts as running otherwise */
    void (*reading)(int more, const nap_access *a);
    /* how fast those bodies must come */
    nap_pace (*pace)(void);
    /* 1: the request brings a ticket of this room that nobody has used */
    int (*holds)(uint32_t room, const nap_request *q);
    /* 1: the access, which has not entered, would be refused now. Changes nothing */
    int (*refuses)(nap_access *a, const nap_request *q);
    /* it must wait for more of its body: permit back, nothing learnt from it. 1: it ran with one */
    int (*step_out)(nap_access *a);
    /* its body is there: waits up to timeout_us. NAP_WAIT: still waiting; NAP_PASS: on without a permit */
    nap_verdict (*step_in)(nap_access *a, uint64_t timeout_us);
    /* it stops waiting, and goes on without a permit */
    void (*stay_out)(nap_access *a);
    nap_verdict (*try_enter)(nap_access *a);
    /* the same in a room with sessions, with the first Cookie header. last: of this connection, or NULL.
     * NAP_MORE with `session` set: a member that has to wait; without: this header names no member */
    nap_verdict (*try_member)(nap_access *a, nap_str cookies, nap_known *last);
    nap_verdict (*enter)(nap_access *a, const nap_request *q);
    /* up to timeout_us: NAP_WAIT = still waiting */
    nap_verdict (*wait)(nap_access *a, uint64_t timeout_us, const nap_request *q);
    nap_verdict (*give_up)(nap_access *a, nap_give_up why, const nap_request *q);
    /* the answer's first byte is out: long answers are detached 60 s later */
    void (*first_byte)(nap_access *a);
    /* -- an access that waits without a worker (NAP_FLAG_PARKS) -- */
    /* from now on its child's bell rings when it must look up. Returns its place; *due_us: it must look up
     * within so many microseconds */
    uint32_t (*park)(nap_access *a, uint64_t *due_us);
    /* a worker has it in hand again */
    void (*unpark)(nap_access *a);
    /* it cannot be parked. 1: it waits on this worker; 0: too many do, so one that waits must give up */
    int (*blocks)(nap_access *a);
    /* sleeps until this child's bell has rung since `heard`, or so long; returns the next `heard` */
    uint32_t (*bell)(uint32_t heard, uint64_t timeout_us);
    /* rings the bell, as the child ends */
    void (*ring)(void);
    /* which of these places must be looked at, as indices into the list; returns how many */
    size_t (*woken)(const uint32_t *places, size_t n, uint32_t *which);
    /* -- an access that runs -- */
    /* a write that may wait for the reader begins (1) or has ended (0); the permit goes if it takes long */
    void (*writes)(nap_access *a, int begins);
    /* the answer is made (or long): permit back, the worker stays in use */
    void (*detach)(nap_access *a);
    /* the end, however it came; always once after NAP_RUN; safe to repeat. Returns when it was, for
     * bw_bytes; 0: the core has not read the clock */
    uint64_t (*leave)(nap_access *a);
    /* headers of a refusal, through the host, on the refused request */
    void (*refusal)(nap_access *a, const nap_request *q);
    /* headers of an admitted access that redeemed a ticket (the cookie's deletion) or began a session */
    void (*redeemed)(nap_access *a, const nap_request *q);
    /* the answer of a member's access, or of one that began a session, is about to be sent: its
     * Set-Cookie headers, and whether it ends the session */
    void (*answered)(nap_access *a, const nap_request *q, const nap_str *set, size_t n, int over);
    /* the body of a refusal; a may be NULL: the visitor opened the page directly */
    int (*page)(nap_access *a, const nap_request *q);   /* returns the status to answer with */
    /* what the page would say, as variables: for an ErrorDocument of the administrator's own */
    void (*variables)(nap_access *a, const nap_request *q);
    /* is the form worth reading: from this origin, and of a type that can be given back? */
    int (*form_wanted)(const nap_form *form);
    /* a file that pages need, by its name under ticket_path: its headers go to r, its body to *body,
     * which lives for ever. 0: no file has that name */
    int (*asset)(void *r, nap_str name, nap_str query, nap_str *body);
    /* tells the holder of q's ticket how the ticket stands; took_us: how long ago they asked. Returns after
     * how many microseconds they should ask again, -1: never, or they should come now */
    int64_t (*status)(const nap_request *q, uint64_t took_us);
    /* a child: the counters of tickets that are out, a word for each gate that sells any, NULL behind
     * the last; to be read with every request as long as the process lives */
    const uint32_t *const *(*tickets_out)(void);
    /* q is about to be answered: tells its ticket's holder, if it is time, to come now */
    void (*call)(const nap_request *q);
    /* log notes; reason_name: why it was refused, or the fate of the ticket it redeemed */
    nap_str (*reason_name)(const nap_access *a);
    size_t (*ticket_id)(const nap_access *a, char out[17]);

    /* -- pages for the administrator -- */
    /* form: 0 a page, 1 JSON, 2 advice; control: NapControl's path, or empty; own: the page's own */
    void (*info)(const nap_request *q, int form, nap_str control, nap_str own);
    /* nap-control: carries it out and says what was done (back: where the browser should go, or empty)
     * or why not. Returns a status */
    int (*control)(const nap_control *c, char said[NAP_ERR_MAX], char back[NAP_ERR_MAX]);
    /* the page in the state that the query names; without a query, the list of states */
    void (*preview)(const nap_request *q, nap_str query);
    /* nap-metrics: all figures for Prometheus */
    void (*metrics)(void *r);
    /* our section of /server-status, or the lines of its ?auto form */
    void (*server_status)(void *r, int lines);

    /* -- mod_bwshare -- */
    void (*conf_bw_init)(nap_bw_conf *conf);
    int (*conf_bw)(nap_bw_conf *conf, nap_str name, const nap_str *argv, size_t argc, char *err);
    /* *into: its own settings, below's where it has none */
    void (*conf_bw_over)(nap_bw_conf *into, const nap_bw_conf *below);
    /* once all has been read */
    int (*conf_bw_check)(const nap_bw_conf *conf, char *err);
    /* the parent, before start: limits that hold for the virtual host of this name (empty: the
     * server); returns their index */
    uint32_t (*bw_limits)(const nap_bw_conf *conf, nap_str host);
    /* all limits are there; logs what the tables hold. 0: there are no tables, nobody is charged */
    int (*bw_start)(void);
    /* charges the client of this address, on the connection of `last`. 1: bw_excuse must decide */
    int (*bw_enter)(nap_visit *v, nap_client *last, const uint8_t client[16]);
    /* may a client that owes too much pass (1)? Yes, and it is charged, if NAP_BW_EXCUSED has been set since;
     * if it brings a ticket of this room, or of `owner` whose page it asks for, which is in its prime window
     * and unused; or if it is in a session of one of them (NAP_NONE: of any room) and owes at most four times
     * the maximum. With NAP_BW_DRY all pass; one that would not have passed is not charged: `key` is 0 */
    int (*bw_excuse)(nap_visit *v, const nap_request *q, uint32_t room, uint32_t owner);
    /* bytes of the answer. now_us: what leave() has returned just now, or 0 */
    void (*bw_bytes)(const nap_visit *v, uint64_t bytes, uint64_t now_us);
    /* the same for bytes not sent yet; then how many of the last reserved ones stayed unsent */
    void (*bw_reserve)(const nap_visit *v, nap_reserved *reserved, uint64_t bytes, uint64_t now_us);
    void (*bw_return)(const nap_visit *v, const nap_reserved *reserved, uint64_t unsent);
    /* headers of a refusal, then its page */
    void (*bw_refusal)(const nap_visit *v, const nap_request *q);
    void (*bw_page)(const nap_visit *v, const nap_request *q);
    nap_str (*bw_debt_name)(const nap_visit *v);
    /* bwshare-info, or with trace bwshare-trace; args: the query, or empty */
    void (*bw_info)(const nap_request *q, int trace, nap_str args);
    /* bwshare-mine: what the client that asks owes by the limits of this index */
    void (*bw_mine)(const nap_request *q, uint32_t limits, nap_str args);

    /* -- TelePolling -- */
    int (*conf_event)(nap_event_conf *event, const nap_str *argv, size_t argc, char *err);
    /* the parent, before start: these events are in force, with what they had reserved; sets the
     * index of each */
    void (*events_start)(nap_event_conf *const *events, size_t n);
    /* an access to the event of this index. 0: there is none */
    int (*poll)(int64_t event, nap_poll *p);
    /* its answer begins, so long after the request came */
    void (*polled)(int64_t event, uint64_t took_us);

    /* -- OXTHAS -- */
    void (*conf_ox_init)(nap_ox_conf *conf);
    int (*conf_ox)(nap_ox_conf *conf, nap_str name, const nap_str *argv, size_t argc, char *err);
    /* *into: its own settings, below's where it has none */
    void (*conf_ox_over)(nap_ox_conf *into, const nap_ox_conf *below);
    /* the parent, before start: makes tables for so many members, and logs it. 0: there are none */
    int (*ox_start)(void);
    /* which of these members gets the request; -1: the core cannot tell. ox_end must follow, unless -1 */
    int (*ox_choose)(nap_task *t, const nap_ox_conf *conf, nap_str activity, nap_member *members, size_t n);
    /* this member gets it whatever its state (a sticky session) */
    void (*ox_go)(nap_task *t, const nap_ox_conf *conf, nap_str activity, nap_member *member);
    /* the attempt has ended; aside_us of its time was spent sending to the client */
    void (*ox_end)(nap_task *t, const nap_ox_conf *conf, nap_ox_end end, uint64_t bytes, uint64_t aside_us);
    /* how often a request of these settings may be done again */
    uint32_t (*ox_retries)(const nap_ox_conf *conf);
} nap_core;

/* The only symbol of the core that the shim links to. */
const nap_core *nap_core_table(void);

#endif

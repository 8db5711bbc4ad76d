/* nap/access.h: an access, from its entry to its end. */

typedef enum nap_verdict {
    NAP_PASS = 0,    /* not scheduled: httpd goes on as if we were not there (also: fail open) */
    NAP_RUN = 1,     /* Run Ready: holds a permit; `leave` must follow */
    NAP_WAIT = 2,    /* in Wait or Re Access: call `wait` again */
    NAP_REFUSE = 3,  /* Next Wait: `refusal` tells the headers, pages.page the body */
    NAP_MORE = 4     /* try_enter, try_member: the request's details are needed, call `enter` */
} nap_verdict;

/* The client closed its connection: nobody to answer (also just after NAP_RUN); or the server is going down. */
typedef enum nap_give_up { NAP_GONE = 1, NAP_STOPPING } nap_give_up;

#define NAP_FLAG_SECONDARY 1u   /* shim sets: a stream of mod_http2 on that module's own threads */
#define NAP_FLAG_DRY_RUN 2u     /* shim sets: decide and count, but let everything pass */
#define NAP_FLAG_TICKETS 4u     /* core sets on NAP_RUN: tickets are out; `enter` if it may carry one */
#define NAP_FLAG_STARTS 8u      /* shim sets before `enter`: asks for a page that starts a session */
#define NAP_FLAG_BEGUN 16u      /* core sets: it has begun a session, which has no known member yet */
#define NAP_FLAG_PARKS 64u      /* shim sets: if it has to wait, it waits without a worker; 32u is the core's own */

/* On the pool of the chain's first request. nap_core::room::access::Access: plain numbers, so that one parked
 * without its thread can be resumed by another. */
typedef struct nap_access {
    uint32_t room;        /* shim sets: index from server.enter, of the room or of the page it asks for */
    uint32_t home;        /* shim sets: one-based index of the room itself if it has sessions; 0: it has none */
    uint32_t session;     /* shim reads: 0: it is no access of a member's */
    uint32_t priority;    /* shim sets before `enter`: of NapPriority, 0 without */
    uint32_t flags;       /* NAP_FLAG_* */
    uint32_t group;       /* shim reads (log notes): 0 none 1 run 2 wait 3 re-access 4 next-wait; */
    uint64_t waited_us;   /* how long it waited */
    uint64_t own[10], rest[11];     /* the shim zeroes all but `rest` */
} nap_access;

#define NAP_KNOWN_MAX 1000      /* a longer Cookie header is read anew each time */

/* The last Cookie header on a connection, so that the next one is compared instead of read. */
typedef struct nap_known { uint64_t own[2]; uint8_t text[NAP_KNOWN_MAX]; } nap_known;

/* What the core needs to know of a request once it is not the trivial case. Empty: it has no such header. */
typedef struct nap_request {
    void *r;                    /* handed back to the host's functions */
    nap_str method, uri;        /* path and query as received, but for nap-ticket= */
    const nap_str *cookies; size_t n_cookies;           /* the Cookie headers, in order */
    nap_str ticket_header, ticket_query;                /* Nap-Ticket, nap-ticket= */
    nap_str accept, accept_language, fetch_dest;        /* Sec-Fetch-Dest */
    nap_str purpose, requested_with;    /* Sec-Purpose, else Purpose; X-Requested-With: a script says that it is one */
    nap_str origin;
    uint64_t body_us;           /* how long its body was read before it entered */
    uint8_t client[16];         /* useragent address, v4 as ::ffff:a.b.c.d */
    uint32_t tls;               /* 1: the cookie may carry Secure and the __Host- prefix */
    uint32_t ticket_status;     /* 503, 429 or 200 */
    nap_str ticket_path;        /* NapTicketPath */
    uint32_t own_page;          /* NapTicketPage by its number; NAP_NONE: the built-in one */
    nap_str issued;             /* page only: the Nap-Ticket header of its refusal */
    uint32_t form_state;        /* page only: NAP_FORM_* */
    nap_str form_type, form_body;       /* with NAP_FORM_READ: Content-Type, and the whole body */
} nap_request;

/* How fast a body that is read without a permit must come, in bytes a second: lately, and once it has been waited
 * for so long, on average since reading began. 0: at any pace. */
typedef struct nap_pace { uint32_t lately, in_all, after_ms; } nap_pace;

typedef struct nap_access_calls {
    /* one more (1) or one fewer (-1) body, that of this access, is read without a permit in this child */
    void (*reading)(int more, const nap_access *a);
    nap_pace (*pace)(void);
    int (*holds)(uint32_t room, const nap_request *q);      /* 1: it brings a ticket that nobody has used */
    int (*refuses)(nap_access *a, const nap_request *q);    /* 1: it would be refused now; changes nothing */
    int (*step_out)(nap_access *a);     /* it must wait for more of its body: permit back. 1: it ran with one */
    nap_verdict (*step_in)(nap_access *a, uint64_t timeout_us);     /* its body is there. NAP_PASS: without a permit */
    void (*stay_out)(nap_access *a);    /* it stops waiting, and goes on without a permit */
    nap_verdict (*try_enter)(nap_access *a);
    /* in a room with sessions, with the first Cookie header; last: of this connection, or NULL. NAP_MORE with
     * `session` set: a member that has to wait; without: this header names no member */
    nap_verdict (*try_member)(nap_access *a, nap_str cookies, nap_known *last);
    nap_verdict (*enter)(nap_access *a, const nap_request *q);
    nap_verdict (*wait)(nap_access *a, uint64_t timeout_us, const nap_request *q);
    nap_verdict (*give_up)(nap_access *a, nap_give_up why, const nap_request *q);
    /* without a worker: its child's bell rings when it must look up. Its place; *due_us: within so long, anyhow */
    uint32_t (*park)(nap_access *a, uint64_t *due_us);
    void (*unpark)(nap_access *a);      /* a worker has it in hand again */
    int (*blocks)(nap_access *a);       /* it cannot be parked. 1: it waits on this worker; 0: it must give up */
    uint32_t (*bell)(uint32_t heard, uint64_t timeout_us);  /* sleeps until it rings; the next `heard` */
    void (*ring)(void);                 /* as the child ends */
    size_t (*woken)(const uint32_t *places, size_t n, uint32_t *which);     /* those to be looked at, as indices */
    void (*first_byte)(nap_access *a);  /* is out: a long answer is detached 60 s later */
    void (*writes)(nap_access *a, int begins);  /* a write that may wait for the reader; else it has ended */
    void (*detach)(nap_access *a);      /* the answer is made (or long): permit back, the worker stays in use */
    /* the end; always once after NAP_RUN, safe to repeat. When it was, for debts.bytes; 0: not known */
    uint64_t (*leave)(nap_access *a);
    void (*refusal)(nap_access *a, const nap_request *q);   /* its headers */
    void (*redeemed)(nap_access *a, const nap_request *q);  /* the headers, too: it had a ticket or began a session */
    /* an answer in a session is about to be sent, with these Set-Cookie headers. over: it ends the session */
    void (*answered)(nap_access *a, const nap_request *q, const nap_str *set, size_t n, int over);
    nap_str (*reason_name)(const nap_access *a);    /* why it was refused, or the fate of the ticket it redeemed */
    size_t (*ticket_id)(const nap_access *a, char out[17]);
} nap_access_calls;

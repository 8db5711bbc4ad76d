/* nap/work.h: TelePolling's events, and OXTHAS' balancers. */

/* What a poll is told. */
typedef struct nap_poll {
    uint64_t wait_us, period;   /* Tw, and the period's number */
    int64_t event;              /* its index */
    uint64_t tally;             /* 1: it came in the part of the period in which data is counted */
} nap_poll;

typedef struct nap_polls_calls {
    /* the parent: these events are in force, with what they had reserved; the index of each, -1: no room for it */
    void (*start)(const nap_conf *const *events, size_t n, int64_t *indices);
    int (*poll)(int64_t event, nap_poll *p);            /* 0: there is no such event */
    void (*polled)(int64_t event, uint64_t took_us);    /* its answer begins, so long after the request came */
} nap_polls_calls;

/* A member of a balancer that may be given work. */
typedef struct nap_member {
    uint64_t key;               /* a hash of the two names */
    nap_str balancer, name;
    uint32_t factor, own;       /* its load factor, per cent */
} nap_member;

enum { NAP_OX_OXTHAS = 1, NAP_OX_NAP };     /* laws */

/* A request that a balancer is to hand to one of its members; lives on its pool. */
typedef struct nap_task {
    const nap_conf *conf;       /* shim sets: the balancer's settings; NULL: none are made */
    uint32_t law, may_probe;    /* shim sets; may_probe 1: it can be done again elsewhere */
    uint64_t body;              /* shim sets: bytes of the request's body */
    uint64_t own_timeout_us;    /* shim sets: of the workers, where OxthasTimeout does not say */
    uint64_t timeout_us;        /* shim reads, of the attempt that is under way */
    uint32_t probe, under_way;  /* shim reads: it tests whether the member has recovered; `end` must follow */
    uint64_t own[4];
} nap_task;

/* No connection; no answer in time; it broke before one; a 5xx; nothing can be said, as the client went. */
typedef enum nap_ox_end {
    NAP_OX_ANSWERED, NAP_OX_CONNECT, NAP_OX_TIMED_OUT, NAP_OX_BROKEN, NAP_OX_STATUS, NAP_OX_GIVEN_UP
} nap_ox_end;

typedef struct nap_balancer_calls {
    int (*start)(void);         /* the parent: makes tables. 0: there are none */
    int (*choose)(nap_task *t, nap_str activity, nap_member *members, size_t n);    /* -1: the core cannot tell */
    void (*go)(nap_task *t, nap_str activity, nap_member *member);  /* whatever its state (a sticky session) */
    void (*end)(nap_task *t, nap_ox_end end, uint64_t bytes, uint64_t aside_us);    /* aside: sending to the client */
    uint32_t (*retries)(const nap_conf *conf);  /* how often a request may be done again */
} nap_balancer_calls;

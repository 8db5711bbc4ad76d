/* nap/conf.h: the configuration, and the server that it is for. */

#define NAP_ROOMS_MAX 256       /* of one configuration */
#define NAP_GATES_MAX 512       /* of all pages; each takes up to two megabytes of shared memory */
#define NAP_PAGES_MAX 16        /* of a room: 15 named ones beside its own */
#define NAP_EVENTS_MAX 64       /* of TelePolling */

typedef struct nap_conf nap_conf;   /* settings of one kind, laid out by the core in conf.size() bytes */

typedef enum nap_conf_kind {
    NAP_CONF_ROOM, NAP_CONF_SERVER, NAP_CONF_DEBTS, NAP_CONF_EVENT, NAP_CONF_BALANCER
} nap_conf_kind;

/* What the shim reads of a room, a page or the server. Texts end with a zero, live as long as the conf, and may be
 * empty. Numbers are NAP_UNSET until a directive sets them; after conf.finish none of a room's is. */
typedef struct nap_view {
    const char *name, *page;    /* page empty: the room itself, and what matches none of its pages */
    const char *cookie;         /* empty: nap-<room>, under TLS __Host-nap-<room> */
    const char *session_cookie; /* the application's; empty: one of ours */
    int64_t run_ready;          /* permits that it begins with */
    int64_t download, body, keep_form;  /* bytes, or negative: Off */
    int64_t admit_early, schedule_static, session;  /* 1: yes */
    const char *ticket_path, *agent;    /* the server's; empty: /nap-ticket, no NapStore */
    int64_t park, table_waiters;    /* the server's; park 1: On, 0: Off */
} nap_view;

/* The server as the MPM runs it, and what the shim has found out about the configuration. */
typedef struct nap_mpm {
    uint32_t server_limit, thread_limit;    /* children at most, threads of a child at most */
    uint32_t threads_per_child, threaded;   /* prefork: 1, 0 */
    uint32_t max_workers, cores;            /* MaxRequestWorkers, and processors online */
    uint32_t members;           /* of balancers that OXTHAS chooses for */
    uint32_t parked, on_workers;    /* accesses that may wait without a worker; 1: some wait on workers all the same */
    uint32_t debts;             /* 1: clients are charged */
} nap_mpm;

/* Without another word: 0 is good, and err[NAP_ERR_MAX] takes a sentence. */
typedef struct nap_conf_calls {
    size_t (*size)(void);
    /* nothing is set yet; with `room`: of its page of this name, else of the room, event ... of this name */
    int (*init)(nap_conf *conf, nap_conf_kind kind, nap_str name, const nap_conf *room, char *err);
    int (*set)(nap_conf *conf, nap_str directive, const nap_str *argv, size_t argc, char *err);
    int (*status)(nap_str directive, nap_str arg, char *err);   /* of a refusal; -1: none that may be set */
    void (*over)(nap_conf *into, const nap_conf *below);        /* its own settings, below's where it has none */
    int (*differ)(const nap_conf *a, const nap_conf *b);
    void (*runs)(nap_conf *server, const nap_mpm *mpm);         /* what the server runs on */
    void (*beside)(nap_conf *room, int64_t permits);            /* of its room's other gates, together */
    /* puts the defaults in, checks ranges and combinations; 1: err is a remark */
    int (*finish)(nap_conf *conf, const nap_conf *server, char *err);
    void (*view)(const nap_conf *conf, nap_view *view);
} nap_conf_calls;

/* The mapping that all children share; the shim keeps it over restarts of the module. */
typedef struct nap_segment { void *base; uint64_t size; int32_t fd; /* of the file behind it */ } nap_segment;

/* The parent, at start and at each graceful restart, in this order. */
typedef struct nap_server_calls {
    /* makes or takes over the segment. children_uid: the user who must be unable to replace the state file */
    int (*open)(nap_segment *segment, const nap_conf *server, size_t rooms, size_t gates, nap_str state_file,
                uint32_t children_uid, const nap_host *host, char *err);
    /* "id hex" lines of NapTicketKey (empty: a random key): are they good? in_force: puts them in force, too */
    int (*keys)(nap_str text, int in_force, char *err);
    /* tries NapTicketPage on every state of a page. keep: its number in this generation; -1: no good */
    int (*own_page)(nap_str path, int keep, char *err);
    void (*keep)(nap_str room, nap_str page);       /* all that are configured, before the first is entered */
    int (*enter)(const nap_conf *room, char *err);  /* its gate's index for nap_access.room, or -1; then its pages */
    void (*start)(int ticket_log);      /* all are entered. ticket_log: is there a NapTicketLog? */
    /* what is wrong with NapStore and its files? pipe not -1: tells the agent at its end all that it must know */
    int (*brief)(const nap_conf *server, nap_str auth, nap_str keys, int pipe, uint32_t pause_ms, char *err);
    void (*no_agent)(void);             /* it could not be started: this server runs alone */
    void (*tick)(void);                 /* every few seconds */
    void (*child_gone)(int pid);        /* takes back what it held */
    void (*close)(void);                /* the server ends: writes the state file */
    void (*child_init)(int pid);        /* a child begins */
} nap_server_calls;

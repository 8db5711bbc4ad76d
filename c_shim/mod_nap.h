/* mod_nap.h: what the shim's own files share.
 *
 *   mod_nap.c     table of contents: module record, hooks
 *   nap_conf.c    directives, <NapRoom>, check_config
 *   nap_use.c     NapUse in <Proxy>, and settings that bypass it
 *   nap_server.c  parent and child: segment, keys, logs
 *   nap_store.c   NapStore: the agent, which speaks with a fleet's store
 *   nap_pages.c   NapPage: which of a room's pages an access asks for
 *   nap_session.c NapSession: what starts and ends a session, what an answer says of it
 *   nap_access.c  admission and waiting: an access until it runs
 *   nap_answer.c  its answer: long ones, the permit's return, log notes
 *   nap_filter.c  files that filters run as programs
 *   nap_park.c    waiting without a worker
 *   nap_yard.c    the parked accesses, and the thread that watches over them
 *   nap_query.c   the nap-ticket parameter; does a request have a body?
 *   nap_page.c    the ticket page's way past other modules; handlers
 *   nap_call.c    the early call on any answer
 *   nap_body.c    the body of a request: before its access enters, and slow senders
 *   nap_form.c    the body of a refused POST
 *   nap_host.c    what the core may call
 *   nap_control.c nap-control: an administrator's form
 *   nap_bwshare.c mod_bwshare: directives, the charge of a request, refusals, its handlers
 *   nap_bytes.c   mod_bwshare: the charge of an answer's bytes
 *   nap_telepoll.c TelePolling: its directive, a poll, the headers of its answer
 *   nap_balancer.c OXTHAS: two methods for mod_proxy_balancer, and the choice of a member
 *   nap_attempt.c  OXTHAS: a request's attempts, until a member has answered
 *
 * nap.h is the contract with the core. If anything goes wrong here, the request passes.
 */
#ifndef MOD_NAP_H
#define MOD_NAP_H

#include <httpd.h>
#include <http_config.h>
#include <http_connection.h>
#include <http_core.h>
#include <http_log.h>
#include <http_protocol.h>
#include <http_request.h>
#include <ap_expr.h>
#include <mpm_common.h>
#include <scoreboard.h>
#include <util_filter.h>
#include <apr_hash.h>
#include <apr_portable.h>
#include <apr_strings.h>

#include "nap.h"

APLOG_USE_MODULE(nap);

/* Everything below is the shim's own. Hidden visibility says so: otherwise each use would cost an instruction
 * for the linker's table. */
#pragma GCC visibility push(hidden)

/* The same record as nap_module, by a name that httpd does not see. */
extern module nap_itself;

/* Code that few requests reach is kept out of line: inlined, every request would set up its
 * registers and stack. */
#define NAP_SELDOM __attribute__((noinline, cold))

/* Before every other module's hook, also before mod_log_forensic's REALLY_FIRST. */
#define NAP_FIRST (APR_HOOK_REALLY_FIRST - 10)
#define NAP_LAST (APR_HOOK_REALLY_LAST + 10)

/* Each pointer in a list, which may be NULL. */
#define NAP_EACH(item, list) \
    for (int item##_at = 0; (list) && item##_at < (list)->nelts && \
         ((item) = APR_ARRAY_IDX(list, item##_at, __typeof__(item)), 1); item##_at++)

/* NapEngine; NAP_UNSET: not configured, which means On. */
enum { NAP_ENGINE_OFF = 0, NAP_ENGINE_ON = 1, NAP_ENGINE_DRY_RUN = 2 };

/* A ticket page of the administrator's own; each file has one record. */
typedef struct nap_own_page {
    const char *path;                /* NULL: the built-in page (NapTicketPage None) */
    const ap_directive_t *where;     /* the first NapTicketPage that names it */
    uint32_t number;                 /* in the core; NAP_NONE: it could not be loaded */
} nap_own_page;

/* A page of a room: a class of accesses with a gate of its own. */
typedef struct nap_page {
    nap_conf *conf;                  /* its room's values fill what it leaves unset */
    nap_view view;
    const ap_directive_t *where;
    const ap_regex_t *regex;         /* NULL: `prefix` is the whole test */
    const char *prefix;              /* what a path must begin with to be worth a look */
    size_t prefix_len;
    unsigned exact : 1;              /* ... and end with */
    unsigned query : 1;              /* the test is of path and query */
    const char *shared;              /* room=: its gate is that room's page of the same name */
    struct nap_room *owner;          /* the room whose gate it uses: that one, or its own */
    int index;                       /* of the gate; -1: none, the room's own gate is used */
} nap_page;

/* Accesses that are served sooner than others of their page. */
typedef struct nap_priority {
    uint32_t number;
    const ap_expr_info_t *expr;
} nap_priority;

/* A room. NapUse may name it before its section is read: then `section` is still NULL. */
typedef struct nap_room {
    nap_conf *conf;
    nap_view view;
    const ap_directive_t *section;   /* its <NapRoom>; NULL: not defined (yet) */
    apr_array_header_t *exempt;      /* of const ap_expr_info_t *, NULL: none */
    apr_array_header_t *priorities;  /* of nap_priority *, NULL: none */
    apr_array_header_t *pages;       /* of nap_page *, in order; NULL: none */
    const nap_page *starts;          /* NapSession start=; NULL: whatever page is asked for */
    const nap_page *ends;            /* end=; NULL: none */
    apr_array_header_t *uses;        /* of const ap_directive_t *: every NapUse that names it; NULL: none */
    const char *cookie;              /* part of its ticket cookie's name: worth a closer look */
    const char *remark;              /* logged at start */
    int ticket_status;               /* NapTicketStatus inside the room, or NAP_UNSET */
    const nap_own_page *own_page;    /* NapTicketPage inside the room, or NULL */
    int index;                       /* in the segment; -1: not scheduled */
} nap_room;

/* Settings of the whole server; made anew each time the configuration is read. */
typedef struct nap_site {
    nap_conf *conf;
    nap_view view;
    nap_mpm mpm;
    apr_hash_t *rooms;               /* name -> nap_room */
    apr_array_header_t *in_order;    /* the same, as first named */
    apr_array_header_t *own_pages;   /* of nap_own_page *; NULL: none */
    const char *state_file;          /* absolute paths; NULL: not set */
    const char *key_file;
    const char *store_auth;          /* NapStoreAuth */
    const char *log_name;            /* a path, or "|command" */
    apr_file_t *log;                 /* NapTicketLog, open from post_config on */
    const char *ticket_path;         /* NapTicketPath, or its default */
    const char *control_path;        /* NapControl; NULL: Off */
    module *headers;                 /* mod_headers; NULL: not loaded */
    /* Hooks are registered by the first directive that needs them: a site that does not use them pays nothing. */
    int admits_early;                /* the hook of NapAdmit early is there */
    int admits_filtered;             /* the hook for files that filters run as programs */
    int has_sessions;                /* the hooks of NapSession are there */
    int calls;                       /* ... of the early call */
    int parks;                       /* ... of NapPark */
    int owes;                        /* ... of mod_bwshare: BwShare On or DryRun was read */
    apr_array_header_t *events;      /* TelePolling's, of struct nap_event *; NULL: none, and no hooks */
    int generation;                  /* of the server, when this child began */
    const char *pid_file;            /* as this child saw it; NULL: not known */
    volatile uint32_t *pid_file_gone; /* shared with the children: the file is gone, but the server runs */
} nap_site;

/* Per directory. Unset: NULL or NAP_UNSET. The server's own exists only when a directive has set
 * something in it, so that httpd need not merge it otherwise. */
typedef struct nap_dir {
    nap_room *room;                  /* NapUse; &nap_no_room: None */
    int engine;
    int ticket_status;
    const nap_own_page *own_page;
    struct nap_bwshare *bwshare;     /* nap_bwshare.c; the server's own is not here */
    const struct nap_event *event;   /* nap_telepoll.c */
    struct nap_oxthas *oxthas;       /* nap_balancer.c */
} nap_dir;

/* What a request charges its client: nap_bwshare.c, and its answer: nap_bytes.c. */
typedef struct nap_charge {
    nap_visit visit;
    int64_t charged;                 /* bytes, so far */
    int64_t headers;                 /* of HTTP/2, packed after our filter; else 0 */
    int64_t marked;                  /* bytes that have marks between them */
    struct progress *progress;       /* what the marks report; NULL: there are none */
    int begun;                       /* the headers have passed */
    int known;                       /* all of the answer was charged at its start */
    int pieces;                      /* what passes goes on piece by piece */
    nap_reserved reserved;           /* bytes charged before they were sent, the last such */
} nap_charge;

#define NAP_BW_PIECE (256 * 1024)    /* bytes; a longer answer may be cut */

/* An access at the chain's first request, and the ticket page at its own request. */
typedef struct nap_handle {
    request_rec *refused;            /* the request that got the 503; NULL: none */
    nap_room *room;                  /* the room of the chain's first request that lies in one */
    const request_rec *named;        /* that request */
    const nap_dir *dir;              /* the settings that go with it */
    const nap_page *scheduled;       /* the page it asks for; NULL: none of those with a name */
    const nap_room *owner;           /* whose gate and tickets: `room`, or the room that shares the page */
    const char *asset;               /* of a page: the name of the file under it; NULL: itself */
    nap_poll *poll;                  /* what its client is told; NULL: no poll */
    nap_str ticket_query;            /* nap-ticket=, taken out of the URL */
    apr_bucket_brigade *body;        /* a page being made */
    apr_off_t sent;                  /* bytes seen by the filter, headers and chunking too */
    unsigned passes;                 /* brigades seen by it */
    unsigned made : 1;               /* by the application: it may start or end sessions */
    unsigned entered : 1;            /* the core has decided */
    unsigned gone : 1;               /* the client hung up while it waited */
    unsigned holds : 1;              /* a permit, or at least its worker: `leave` must follow */
    unsigned detached : 1;           /* its permit is back, its worker still busy */
    unsigned charged : 1;            /* its client is charged, and for bytes as they pass */
    unsigned in_debt : 1;            /* refused for its client's debts */
    unsigned owed : 1;               /* the same, or it would have been; a log note names the debt */
    unsigned noted : 1;              /* waited, refused or had a ticket: log notes */
    unsigned page : 1;               /* this request is NapTicketPath's */
    unsigned uploads : 1;            /* `upload` and `body_us` are there */
    unsigned fixup : 1;              /* enters in its last fixup, where it can be parked */
    nap_access access;               /* cleared up to `rest`, as what follows is not */
    request_rec *first;              /* the chain's first request */
    const char *method;              /* as received: an ErrorDocument's is GET */
    const char *form_type;           /* of a refused POST: Content-Type, Content-Length; NULL: none */
    const char *form_length;
    nap_charge charge;
    struct nap_body *upload;         /* nap_body.c: the body it was sent, with NapBody; */
    uint64_t body_us;                /* how long that was read before it entered */
    unsigned looked;                 /* from the second brigade on: where its reader was last checked, */
    int stalled_ms;                  /* and how long the reader has kept it waiting */
} nap_handle;

/* What a connection's filter works on. It lives as long as the connection: adding a filter to each
 * request would cost as much as the rest of this module. */
typedef struct nap_line {
    nap_handle *now;        /* the access whose answer passes and whose permit, or on event
                             * whose worker, is still held; NULL: none */
    nap_handle *charged;    /* the one whose client is charged for what passes; NULL: none */
    nap_client client;      /* the client that asked here last */
    nap_known *known;       /* by its Cookie header; NULL: not in a room with sessions */
    struct nap_parked *parked;  /* the access parked here; NULL: none */
    enum { NAP_NEVER_AROUND = -1, NAP_AROUND = 1 } around;  /* our process_connection runs around the others';
                             * 0: it is not now */
    const request_rec *bare;    /* the last request, if it has no body */
    const request_rec *follows; /* redirected by mod_rewrite's handler, inside ours; or NULL */
} nap_line;

/* The address as IPv6 has it; all zeros: there is none. */
static inline void nap_address(uint8_t out[16], const apr_sockaddr_t *a)
{
    memset(out, 0, 16);
    if (a && a->family == APR_INET) {
        memset(out + 10, 0xff, 2);
        memcpy(out + 12, &a->sa.sin.sin_addr, 4);
    }
#if APR_HAVE_IPV6
    else if (a && a->family == APR_INET6) {
        memcpy(out, &a->sa.sin6.sin6_addr, 16);
    }
#endif
}

/* The core, and the site. core NULL: nothing works, everything passes. */
extern const nap_core *nap_the_core;
extern nap_site *nap_the_site;
extern nap_room nap_no_room;
extern const nap_dir nap_dir_unset;
extern const nap_host nap_the_host;

static inline const nap_dir *nap_dir_of(const request_rec *r)
{
    const nap_dir *dir = ap_get_module_config(r->per_dir_config, &nap_itself);

    return dir ? dir : &nap_dir_unset;
}

/* mod_rewrite in a directory: the redirected request is another one of the chain. */
static inline int nap_is_redirect(const request_rec *r)
{
    return r->handler && r->handler[0] == 'r' && !strcmp(r->handler, "redirect-handler");
}

/* The handle that hangs on this very request, or NULL. */
static inline nap_handle *nap_handle_at(const request_rec *r)
{
    return ap_get_module_config(r->request_config, &nap_itself);
}

static inline nap_line *nap_line_of(const conn_rec *c)
{
    return ap_get_module_config(c->conn_config, &nap_itself);
}

static inline request_rec *nap_first(request_rec *r)
{
    while (r->prev)
        r = r->prev;
    return r;
}

static inline request_rec *nap_last(request_rec *r)
{
    while (r->next)
        r = r->next;
    return r;
}

/* Its descriptor; -1: there is none, or it is closed. */
static inline int nap_descriptor(apr_socket_t *socket)
{
    apr_os_sock_t fd = -1;

    if (socket)
        apr_os_sock_get(&fd, socket);
    return fd;
}

static inline int nap_has_body(const request_rec *r)
{
    const char *length = apr_table_get(r->headers_in, "Content-Length");

    return (length && strcmp(length, "0")) || apr_table_get(r->headers_in, "Transfer-Encoding");
}

static inline nap_str nap_str_of(const char *s)
{
    nap_str str = { s, s ? strlen(s) : 0 };
    return str;
}

static inline nap_str nap_header(const request_rec *r, const char *name)
{
    return nap_str_of(apr_table_get(r->headers_in, name));
}

/* A read that does not block has brought nothing: so far nothing has come. */
static inline int nap_is_nothing(apr_status_t rv, const apr_bucket_brigade *bb)
{
    return APR_STATUS_IS_EAGAIN(rv) || (rv == APR_SUCCESS && APR_BRIGADE_EMPTY(bb));
}

/* The end of a body comes with it. */
static inline int nap_is_end(const apr_bucket_brigade *bb)
{
    return !APR_BRIGADE_EMPTY(bb) && APR_BUCKET_IS_EOS(APR_BRIGADE_LAST(bb));
}

/* nap_conf.c */
extern const command_rec nap_directives[];
nap_conf *nap_conf_make(apr_pool_t *p, nap_conf_kind kind);
nap_conf *nap_conf_make_named(apr_pool_t *p, nap_conf_kind kind, const char *name, const nap_conf *room, char *err);
nap_conf *nap_conf_merge(apr_pool_t *p, const nap_conf *below, const nap_conf *own);
void nap_conf_look(const nap_conf *conf, nap_view *view);
const char *nap_conf_set(cmd_parms *cmd, nap_conf *conf, int argc, char *const argv[]);
const char *nap_conf_status(cmd_parms *cmd, const char *arg, int *status);
const char *nap_conf_engine(cmd_parms *cmd, const char *arg, int *engine);
void nap_list_add(apr_pool_t *p, apr_array_header_t **list, const void *item);
const char *nap_expr_add(cmd_parms *cmd, const char *text, apr_array_header_t **list);
int nap_expr_holds(request_rec *r, const ap_expr_info_t *expr, const char *directive);
int nap_expr_any(request_rec *r, const apr_array_header_t *list, const char *directive);
void *nap_dir_create(apr_pool_t *p, char *path);
void *nap_dir_merge(apr_pool_t *p, void *base, void *add);
nap_dir *nap_dir_set(cmd_parms *cmd, void *conf);
int nap_site_create(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp);
int nap_complain(server_rec *s, apr_pool_t *p, const ap_directive_t *where, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
int nap_site_check(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp, server_rec *s);

/* nap_use.c */
const char *nap_section_word(const ap_directive_t *section, const char *name, apr_pool_t *p);
void nap_use_tell(server_rec *s, const nap_room *room, apr_pool_t *p);

/* nap_server.c */
int nap_server_start(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp, server_rec *s);
int nap_keys_check(server_rec *s, apr_pool_t *p);
void nap_server_measure(nap_mpm *mpm);
void nap_child_start(apr_pool_t *pchild, server_rec *s);
void nap_child_status(server_rec *s, pid_t pid, ap_generation_t gen, int slot, mpm_child_status state);
int nap_server_tick(apr_pool_t *p, server_rec *s);
int nap_child_stopping(void);
int nap_server_stopping(void);

/* nap_store.c */
int nap_store_check(server_rec *s, apr_pool_t *p);
void nap_store_start(server_rec *s, apr_pool_t *pconf, int segment);
void nap_store_tick(void);
void nap_store_child(void);

/* nap_pages.c */
nap_page *nap_page_make(cmd_parms *cmd, nap_room *room, const char *name, const char *regex,
                        const char *option, const char **err);
nap_page *nap_page_named(const nap_room *room, const char *name);
const nap_page *nap_page_asked(const nap_room *room, const request_rec *first, const request_rec *r);
const char *nap_page_regex(cmd_parms *cmd, nap_page *page, const char *title, const char *text);
int nap_page_matches(const nap_page *page, const request_rec *first, const request_rec *r);
int nap_pages_check(server_rec *s, nap_room *room, apr_pool_t *p);
size_t nap_pages_gates(const nap_room *room);

/* nap_access.c */
nap_handle *nap_handle_make(request_rec *r);
int nap_carries_ticket(request_rec *r, const nap_handle *h);
void nap_request_fill(nap_request *q, nap_handle *h, request_rec *r);
void nap_access_hook_early(void);
void nap_access_hook_filtered(void);
int nap_access_again(nap_handle *h);
int nap_access_refused(request_rec *r, nap_handle *h);
int nap_access_look_up(request_rec *r, nap_handle *h, nap_request *q);
int nap_access_wait_here(request_rec *r, nap_handle *h, nap_request *q);
int nap_str_add(void *list, const char *key, const char *value);
int nap_access_late(request_rec *r);
apr_status_t nap_access_leave_late(void *access);

/* nap_answer.c */
int nap_line_open(conn_rec *c, void *socket);
int nap_answer_end(request_rec *r);
void nap_answer_register(apr_pool_t *p);

/* nap_park.c */
typedef struct nap_parked nap_parked;
void nap_park_hook(void);
void nap_park_check(server_rec *s, apr_pool_t *p, const nap_view *view, nap_mpm *mpm);
int nap_park_around(const conn_rec *c);
int nap_park_may(const request_rec *r);
int nap_park(request_rec *r, nap_handle *h, const nap_request *q);
int nap_park_handler(request_rec *r);
void nap_park_start(apr_pool_t *pchild, server_rec *s);

/* nap_filter.c */
void nap_filter_read(apr_pool_t *p);
int nap_filter_can_run(void);
int nap_filters_run(const request_rec *r);

/* nap_body.c */
void nap_body_register(apr_pool_t *p);
int nap_body_await(request_rec *r, nap_handle *h);

/* nap_session.c */
const char *nap_session_patterns(cmd_parms *cmd, nap_room *room, int *argc, char **argv);
int nap_session_check(server_rec *s, nap_room *room, apr_pool_t *p);
int nap_session_starts(const nap_handle *h);
void nap_session_hook(void);

/* nap_call.c */
void nap_call_hook(void);
void nap_call_start(void);

/* nap_form.c */
void nap_form_note(request_rec *r, nap_handle *h);
void nap_form_read(nap_request *q, nap_handle *h, request_rec *r);

/* nap_control.c */
int nap_control_handler(request_rec *r);

/* nap_bwshare.c */
extern const char nap_bwshare_page_name[];
void *nap_bwshare_merge(apr_pool_t *p, void *base, void *add);
const char *nap_bwshare_set(cmd_parms *cmd, void *dir, int argc, char *const argv[]);
const char *nap_bwshare_set_status(cmd_parms *cmd, void *dir, const char *arg);
const char *nap_bwshare_engine(cmd_parms *cmd, void *dir, const char *arg);
const char *nap_bwshare_off(cmd_parms *cmd, void *dir, int argc, char *const argv[]);
const char *nap_bwshare_exempt(cmd_parms *cmd, void *dir, const char *arg);
void nap_bwshare_begin(apr_pool_t *pconf);
int nap_bwshare_check(server_rec *s, apr_pool_t *p);
void nap_bwshare_start(server_rec *s);
int nap_bwshare_access(request_rec *r);
int nap_bwshare_status(const nap_handle *h);
int nap_bwshare_page(request_rec *r);
int nap_bwshare_handler(request_rec *r);

/* nap_bytes.c */
int nap_bytes_body(nap_handle *h, apr_bucket_brigade *bb, apr_off_t length, int ends, uint64_t now);
apr_off_t nap_bytes_cut(apr_bucket_brigade *bb, apr_bucket_brigade *rest);
apr_status_t nap_bytes_settle(void *handle);

/* nap_telepoll.c */
const char *nap_telepoll_set(cmd_parms *cmd, void *dir, int argc, char *const argv[]);
void nap_telepoll_start(void);
int nap_telepoll_access(request_rec *r);

/* nap_balancer.c */
struct nap_oxthas *nap_oxthas_merge(apr_pool_t *p, struct nap_oxthas *b, struct nap_oxthas *a);
const char *nap_oxthas_set(cmd_parms *cmd, void *dir, int argc, char *const argv[]);
const char *nap_oxthas_activity(cmd_parms *cmd, void *dir, int argc, char *const argv[]);
void nap_balancer_begin(apr_pool_t *pconf);
uint32_t nap_balancer_members(server_rec *s);
void nap_balancer_start(server_rec *s, uint32_t members);

/* nap_query.c */
int nap_query_take(request_rec *r);
void nap_query_register(apr_pool_t *p);

/* nap_page.c */
int nap_page_show(request_rec *r, nap_wanted *wanted);
int nap_page_refuse(request_rec *r, nap_handle *h, nap_request *q);
int nap_page_translate(request_rec *r);
int nap_page_handler(request_rec *r);
void nap_page_register(void);
int nap_page_fixup(request_rec *r);
int nap_server_status(request_rec *r, int flags);

#pragma GCC visibility pop

#endif

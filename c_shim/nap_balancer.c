/* nap_balancer.c: OXTHAS: lbmethod oxthas and nap of mod_proxy_balancer.
 *
 * mod_proxy asks a balancer's method for a worker (find) and hands the request to a scheme's handler.
 * We run before that handler (hand_over). If an attempt fails and may be made again, we send it to
 * another member ourselves, so mod_proxy sees one attempt only. Its own failover, which takes a member
 * out for everybody, is not needed. The core is told how each attempt ended.
 *
 * mod_nap may be loaded without mod_proxy, so nothing here links to it: it uses optional functions and
 * hooks where they exist, and else mod_proxy's symbols by name, from its own handle.
 *
 *   find ─► hand_over ─┬─► proxy_http ... ─► request_sent ─► (answer) watch ─► OK
 *                      └── again, elsewhere ◄── timeout, 5xx, no connection
 */
#include <ap_mpm.h>
#include <ap_provider.h>
#include <apr_dso.h>
#include <apr_optional.h>
#include <apr_optional_hooks.h>
#include <mod_proxy.h>
#include <util_filter.h>

#include "mod_nap.h"

/* A kind of request, and the members that may get it. */
typedef struct activity {
    const char *name;
    ap_regex_t *path;
    apr_array_header_t *members;    /* of const char *; NULL: all */
} activity;

/* Per directory; <Proxy> is one. */
typedef struct nap_oxthas {
    nap_conf *conf;                 /* NULL: nothing is set */
    apr_array_header_t *activities; /* of activity *, NULL: none */
} nap_oxthas;

/* A request on its way through a balancer that uses our methods. */
typedef struct call {
    request_rec *r;
    nap_task task;
    const nap_oxthas *settings;
    const activity *activity;       /* as configured; NULL: by the path's first segment */
    const char *kind;               /* its name */
    proxy_balancer *balancer;
    proxy_worker *worker;           /* of the current attempt */
    apr_array_header_t *tried;      /* of proxy_worker * */
    int another;                    /* another member could be tried after this one */
    int attempt;                    /* from 0 */
    ap_filter_t *filter;
    ap_conf_vector_t *own_dir;      /* r's, while errors are kept from the client */
    ap_conf_vector_t *override_dir;
    apr_table_t *headers_out;       /* r's, before the first attempt */
    struct patience *patience;      /* for the member, while its answer is awaited; else NULL */
    int keepalives;
    apr_off_t bytes;
    apr_time_t aside;               /* spent on sending to the client */
    unsigned idempotent : 1;        /* and without a body */
    unsigned inside : 1;            /* a scheme's handler runs */
    unsigned again : 1;             /* ... and may be followed by another */
    unsigned sent : 1;              /* the request has gone to the member, by HTTP */
    unsigned answered : 1;          /* and an answer is going to the client */
    unsigned broken : 1;            /* ... which the member has not completed */
} call;

static const nap_oxthas unset;

static int directives;              /* an Oxthas... directive was read */
static int works;                   /* there are tables */
static module *mod_proxy;           /* NULL: not loaded */
static ap_filter_rec_t *watch_filter;

/* What mod_proxy offers, found at run time. */
static APR_OPTIONAL_FN_TYPE(proxy_balancer_get_best_worker) *best_worker;
static int (*run_scheme_handler)(request_rec *, proxy_worker *, proxy_server_conf *, char *,
                                 const char *, apr_port_t);
static apr_status_t (*initialize_worker)(proxy_worker *, server_rec *, apr_pool_t *);

/* ---- Settings --------------------------------------------------------------------------------- */

static nap_oxthas *settings_set(cmd_parms *cmd, void *conf)
{
    nap_dir *dir = nap_dir_set(cmd, conf);

    directives = 1;
    if (!dir->oxthas) {
        dir->oxthas = apr_pcalloc(cmd->pool, sizeof *dir->oxthas);
        dir->oxthas->conf = nap_conf_make(cmd->pool, NAP_CONF_BALANCER);
    }
    return dir->oxthas;
}

nap_oxthas *nap_oxthas_merge(apr_pool_t *p, nap_oxthas *b, nap_oxthas *a)
{
    nap_oxthas *both;

    if (!a || !b || a == b)
        return a ? a : b;
    both = apr_pmemdup(p, a, sizeof *a);
    if (nap_the_core) {
        both->conf = apr_pmemdup(p, a->conf, nap_the_core->conf.size());
        nap_the_core->conf.over(both->conf, b->conf);
    }
    /* the first match counts, so the nearer settings come first */
    if (!both->activities)
        both->activities = b->activities;
    else if (b->activities)
        both->activities = apr_array_append(p, a->activities, b->activities);
    return both;
}

const char *nap_oxthas_set(cmd_parms *cmd, void *dir, int argc, char *const argv[])
{
    return nap_conf_set(cmd, settings_set(cmd, dir)->conf, argc, argv);
}

const char *nap_oxthas_activity(cmd_parms *cmd, void *dir, int argc, char *const argv[])
{
    nap_oxthas *own = settings_set(cmd, dir);
    activity *a = apr_pcalloc(cmd->pool, sizeof *a);
    char *names, *last;

    if (argc < 2 || argc > 3)
        return "OxthasActivity: wants a name and a regular expression of paths, then perhaps "
               "members= with names of members, with commas between them";
    if (!*argv[0] || strlen(argv[0]) > NAP_NAME_MAX)
        return apr_psprintf(cmd->pool, "OxthasActivity: \"%.60s\" is not a name; use 1 to %d bytes",
                            argv[0], NAP_NAME_MAX);
    a->name = argv[0];
    a->path = ap_pregcomp(cmd->pool, argv[1], AP_REG_EXTENDED | AP_REG_NOSUB);
    if (!a->path)
        return apr_psprintf(cmd->pool, "OxthasActivity: \"%.60s\" is not a regular expression",
                            argv[1]);
    if (argc == 3) {
        if (strncmp(argv[2], "members=", 8) || !argv[2][8])
            return apr_psprintf(cmd->pool, "OxthasActivity: \"%.60s\" is not members= with names",
                                argv[2]);
        a->members = apr_array_make(cmd->pool, 2, sizeof(char *));
        names = apr_pstrdup(cmd->pool, argv[2] + 8);
        for (char *name = apr_strtok(names, ",", &last); name; name = apr_strtok(NULL, ",", &last))
            APR_ARRAY_PUSH(a->members, const char *) = name;
    }
    if (!own->activities)
        own->activities = apr_array_make(cmd->pool, 4, sizeof a);
    APR_ARRAY_PUSH(own->activities, activity *) = a;
    return NULL;
}

/* ---- A request's kind, and its members -------------------------------------------------------- */

static const char *first_segment(apr_pool_t *p, const char *uri)
{
    size_t len = strcspn(uri + (*uri == '/'), "/?");

    uri += *uri == '/';
    return len ? apr_pstrmemdup(p, uri, len < NAP_NAME_MAX ? len : NAP_NAME_MAX) : "/";
}

static void classify(call *c)
{
    const apr_array_header_t *all = c->settings->activities;

    for (int i = 0; all && i < all->nelts; i++) {
        const activity *a = APR_ARRAY_IDX(all, i, activity *);

        if (!ap_regexec(a->path, c->r->uri, 0, NULL, 0)) {
            c->activity = a;
            c->kind = a->name;
            return;
        }
    }
    c->kind = first_segment(c->r->pool, c->r->uri);
}

/* By its route, its URL, or its host:port. */
static int is_named(const proxy_worker *worker, const char *name, apr_pool_t *p)
{
    const proxy_worker_shared *s = worker->s;

    return !strcmp(s->route, name) || !ap_cstr_casecmp(s->name_ex, name) ||
           !ap_cstr_casecmp(apr_psprintf(p, "%s:%d", s->hostname_ex, (int)s->port), name);
}

static int is_capable(const call *c, const proxy_worker *worker)
{
    const apr_array_header_t *names = c->activity ? c->activity->members : NULL;

    for (int i = 0; names && i < names->nelts; i++)
        if (is_named(worker, APR_ARRAY_IDX(names, i, const char *), c->r->pool))
            return 1;
    return !names;
}

static int was_tried(const call *c, const proxy_worker *worker)
{
    for (int i = 0; c->tried && i < c->tried->nelts; i++)
        if (APR_ARRAY_IDX(c->tried, i, proxy_worker *) == worker)
            return 1;
    return 0;
}

/* Not tried yet by this request. */
static int is_left(const call *c, const proxy_worker *worker)
{
    return is_capable(c, worker) && !was_tried(c, worker);
}

/* mod_proxy would use it. */
static int is_open(const proxy_worker *worker)
{
    return PROXY_WORKER_IS_USABLE(worker) && !PROXY_WORKER_IS_DRAINING(worker);
}

/* The members that mod_proxy's own rules allow: lbset, spares, standbys, drained and failed ones. */
typedef struct gathering {
    const call *c;
    proxy_worker **workers;
    int n, most;
} gathering;

/* Called for each of them, where a stock method compares two. */
static int gather(proxy_worker *current, proxy_worker *best, void *baton)
{
    gathering *g = baton;

    if (g->n == g->most || !is_left(g->c, current))
        return 0;
    g->workers[g->n++] = current;
    return 1;
}

static gathering members_of(call *c)
{
    const apr_array_header_t *all = c->balancer->workers;
    gathering g = { c, NULL, 0, all->nelts };

    g.workers = apr_palloc(c->r->pool, (size_t)(g.most + 1) * sizeof *g.workers);
    if (!best_worker)
        best_worker = APR_RETRIEVE_OPTIONAL_FN(proxy_balancer_get_best_worker);
    if (best_worker) {
        best_worker(c->balancer, c->r, gather, &g);
        return g;
    }
    for (int i = 0; i < all->nelts; i++) {      /* a mod_proxy that keeps its rules to itself */
        proxy_worker *worker = APR_ARRAY_IDX(all, i, proxy_worker *);

        if (is_open(worker))
            gather(worker, NULL, &g);
    }
    return g;
}

static nap_member member_of(const call *c, const proxy_worker *worker)
{
    const proxy_hashes *b = &c->balancer->s->hash, *w = &worker->s->hash;
    uint64_t own = (uint64_t)w->def << 32 | w->fnv, whose = (uint64_t)b->fnv << 32 | b->def;
    nap_member m = { .key = own ^ whose * 0x9e3779b97f4a7c15u,
                     .balancer = nap_str_of(c->balancer->s->name),
                     .name = nap_str_of(worker->s->name_ex),
                     .factor = worker->s->lbfactor > 0 ? (uint32_t)worker->s->lbfactor : 100 };

    return m;
}

/* Without the core: the member that has least to do. */
static proxy_worker *least_busy(const gathering *g)
{
    proxy_worker *least = g->n ? g->workers[0] : NULL;

    for (int i = 1; i < g->n; i++)
        if (g->workers[i]->s->busy < least->s->busy)
            least = g->workers[i];
    return least;
}

/* Are that many members left, counting those of another lbset, standbys and spares? mod_proxy's rules come to
 * those once all that were tried are excluded. */
static int are_left(const call *c, int wanted)
{
    const apr_array_header_t *all = c->balancer->workers;

    for (int i = 0; i < all->nelts && wanted > 0; i++) {
        const proxy_worker *worker = APR_ARRAY_IDX(all, i, proxy_worker *);

        wanted -= is_open(worker) && is_left(c, worker);
    }
    return wanted <= 0;
}

/* Chooses a member for the attempt of this number. */
static proxy_worker *choose(call *c, int attempt)
{
    gathering g = members_of(c);
    nap_member *members = apr_palloc(c->r->pool, (size_t)(g.n + 1) * sizeof *members);
    int at = -1;

    c->another = are_left(c, 2);        /* the one that is chosen now, and one more */
    if (!works || !nap_the_core || !g.n)
        return least_busy(&g);
    /* if a probe fails, another member must be able to do it */
    c->task.may_probe = c->idempotent && c->another &&
                        attempt < (int)nap_the_core->balancer.retries(c->settings->conf);
    for (int i = 0; i < g.n; i++)
        members[i] = member_of(c, g.workers[i]);
    at = nap_the_core->balancer.choose(&c->task, nap_str_of(c->kind), members,
                                 (size_t)g.n);
    return at >= 0 && at < g.n ? g.workers[at] : least_busy(&g);
}

/* ---- A call ----------------------------------------------------------------------------------- */

static const char call_key[] = "mod_nap:call";

static call *call_at(const request_rec *r)
{
    void *c = NULL;

    apr_pool_userdata_get(&c, call_key, r->pool);
    return c && ((call *)c)->r == r ? c : NULL;
}

/* Whatever came between: no attempt stays under way. */
static apr_status_t call_end(void *data)
{
    call *c = data;

    if (c->task.under_way && nap_the_core)
        nap_the_core->balancer.end(&c->task, NAP_OX_GIVEN_UP, 0, 0);
    return APR_SUCCESS;
}

static int is_idempotent(request_rec *r)
{
    switch (r->method_number) {
    case M_GET:
    case M_OPTIONS:
    case M_PUT:
    case M_DELETE:
    case M_TRACE:
        return !ap_request_has_body(r) && !apr_table_get(r->headers_in, "Upgrade");
    }
    return 0;
}

static apr_uint64_t body_of(const request_rec *r)
{
    const char *length = apr_table_get(r->headers_in, "Content-Length");
    apr_off_t n = 0;

    return length && ap_parse_strict_length(&n, length) ? (apr_uint64_t)n : 0;
}

/* The time-out that mod_proxy sets on a new connection. */
static apr_interval_time_t own_timeout(const request_rec *r, const proxy_balancer *balancer,
                                       const proxy_worker *worker)
{
    const proxy_server_conf *conf = balancer->sconf;

    return worker && worker->s->timeout_set ? worker->s->timeout
           : conf && conf->timeout_set ? conf->timeout : r->server->timeout;
}

/* The longest of the members' time-outs: without OxthasTimeout no member is given up earlier. */
static apr_interval_time_t longest_timeout(const request_rec *r, const proxy_balancer *balancer)
{
    apr_interval_time_t longest = 0;

    for (int i = 0; i < balancer->workers->nelts; i++) {
        const proxy_worker *worker = APR_ARRAY_IDX(balancer->workers, i, proxy_worker *);
        apr_interval_time_t own = own_timeout(r, balancer, worker);

        longest = own > longest ? own : longest;
    }
    return longest;
}

static call *call_make(request_rec *r, proxy_balancer *balancer)
{
    const nap_dir *dir = nap_dir_of(r);
    call *c = apr_pcalloc(r->pool, sizeof *c);

    c->r = r;
    c->balancer = balancer;
    c->settings = dir->oxthas ? dir->oxthas : &unset;
    c->idempotent = is_idempotent(r);
    c->task.conf = c->settings->conf;
    c->task.law = strcmp(balancer->lbmethod->name, "nap") ? NAP_OX_OXTHAS : NAP_OX_NAP;
    c->task.body = body_of(r);
    c->task.own_timeout_us = (uint64_t)longest_timeout(r, balancer);
    classify(c);
    apr_pool_userdata_setn(c, call_key, NULL, r->pool);
    apr_pool_cleanup_register(r->pool, c, call_end, apr_pool_cleanup_null);
    return c;
}

/* ---- The methods ------------------------------------------------------------------------------ */

static proxy_worker *find(proxy_balancer *balancer, request_rec *r)
{
    call *c = call_at(r);

    if (!c || c->balancer != balancer)
        c = call_make(r, balancer);
    else
        call_end(c);
    c->worker = choose(c, 0);
    return c->worker;
}

static apr_status_t nothing_to_do(proxy_balancer *balancer, server_rec *s)
{
    return APR_SUCCESS;
}

/* A sticky session has gone to its member: hand_over tells the core. */
static apr_status_t stuck(proxy_balancer *balancer, proxy_worker *elected, server_rec *s)
{
    return APR_SUCCESS;
}

static const proxy_balancer_method oxthas = { "oxthas", find, NULL, nothing_to_do, nothing_to_do,
                                              stuck };
static const proxy_balancer_method nap = { "nap", find, NULL, nothing_to_do, nothing_to_do, stuck };

static int is_ours(const proxy_balancer *balancer)
{
    return balancer && (balancer->lbmethod == &oxthas || balancer->lbmethod == &nap);
}

/* ---- An attempt ------------------------------------------------------------------------------- */

/* Statuses that another member may not answer with. Sorted, as mod_proxy uses a binary search. */
static const int failures[] = { HTTP_INTERNAL_SERVER_ERROR, HTTP_BAD_GATEWAY,
                                HTTP_SERVICE_UNAVAILABLE, HTTP_GATEWAY_TIME_OUT };

static int less(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* A copy of r's settings with which mod_proxy keeps such answers back (ProxyErrorOverride); NULL: it
 * does so already. */
static ap_conf_vector_t *overriding(request_rec *r)
{
    const proxy_dir_conf *own = ap_get_module_config(r->per_dir_config, mod_proxy);
    proxy_dir_conf *dir;
    ap_conf_vector_t *vector;

    if (own->error_override && (!own->error_override_codes || !own->error_override_codes->nelts))
        return NULL;
    dir = apr_pmemdup(r->pool, own, sizeof *own);
    dir->error_override_codes = own->error_override && own->error_override_codes
        ? apr_array_copy(r->pool, own->error_override_codes)
        : apr_array_make(r->pool, 4, sizeof(int));
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++)
        APR_ARRAY_PUSH(dir->error_override_codes, int) = failures[i];
    qsort(dir->error_override_codes->elts, (size_t)dir->error_override_codes->nelts, sizeof(int),
          less);
    dir->error_override = 1;
    /* merged with nothing: a copy with the same pointers */
    vector = ap_merge_per_dir_configs(r->pool, r->per_dir_config,
                                      ap_create_per_dir_config(r->pool));
    ap_set_module_config(vector, mod_proxy, dir);
    return vector;
}

/* mod_proxy_fcgi does not return such a status but answers with httpd's own page for it, so the
 * application's own answer is let through. */
static int answers_itself(const proxy_worker *worker)
{
    return !ap_cstr_casecmp(worker->s->scheme, "fcgi");
}

/* The client sees nothing of this attempt unless it is answered: watch and undo reverse this. */
static void keep_back(call *c)
{
    request_rec *r = c->r;

    if (!c->headers_out)
        c->headers_out = apr_table_copy(r->pool, r->headers_out);
    if (c->idempotent && !answers_itself(c->worker)) {
        if (!c->override_dir)
            c->override_dir = overriding(r);
        if (c->override_dir) {
            c->own_dir = r->per_dir_config;
            r->per_dir_config = c->override_dir;
        }
    }
    /* on a kept-alive connection mod_proxy_http would close it to make the client retry */
    c->keepalives = r->connection->keepalives;
    if (c->idempotent)
        r->connection->keepalives = 0;
}

/* GATEWAY_INTERFACE of a request that has not been sent. These schemes write CGI's variables once they
 * have a connection; there is no other sign of the sending. */
static const char not_sent[] = "CGI/1.1";

static int speaks_cgi(const proxy_worker *worker)
{
    const char *scheme = worker->s->scheme;

    return !ap_cstr_casecmp(scheme, "fcgi") || !ap_cstr_casecmp(scheme, "scgi") ||
           !ap_cstr_casecmp(scheme, "uwsgi");
}

static void begin(call *c, int again)
{
    request_rec *r = c->r;

    c->again = again != 0;
    c->sent = c->answered = c->broken = 0;
    c->bytes = 0;
    c->aside = 0;
    apr_table_setn(r->headers_in, "Nap-Attempt", apr_itoa(r->pool, c->attempt + 1));
    if (!apr_table_get(r->headers_in, "Idempotency-Key")) {
        unsigned char random[16];
        char *key = apr_palloc(r->pool, 2 * sizeof random + 1);

        apr_generate_random_bytes(random, sizeof random);
        ap_bin2hex(random, sizeof random, key);
        apr_table_setn(r->headers_in, "Idempotency-Key", key);
    }
    if (speaks_cgi(c->worker))
        apr_table_setn(r->subprocess_env, "GATEWAY_INTERFACE", not_sent);
    if (c->again)
        keep_back(c);
    if (!c->filter)
        c->filter = ap_add_output_filter_handle(watch_filter, c, r, r->connection);
    c->inside = 1;
}

/* Restores what keep_back changed. It must be back before the answer begins. */
static void give_back(call *c)
{
    if (c->own_dir)
        c->r->per_dir_config = c->own_dir;
    c->own_dir = NULL;
    if (c->again)
        c->r->connection->keepalives = c->keepalives;
    c->again = 0;
}

/* A socket to a member, and the time-out that mod_proxy had set on it. */
struct patience {
    apr_socket_t *socket;
    apr_interval_time_t timeout;
};

static apr_status_t restore(void *data)
{
    const struct patience *own = data;

    apr_socket_timeout_set(own->socket, own->timeout);
    return APR_SUCCESS;
}

/* create_req: mod_proxy_http has sent the request and is about to read the answer. The time-out is restored
 * before anybody else can have the connection, as the answer's pool goes first; and a kept connection may be
 * free before the answer's end passes here. A request that no other member may get just waits. */
static int request_sent(request_rec *r, request_rec *answer)
{
    call *c = call_at(r);
    apr_interval_time_t ours;
    struct patience own;

    if (!c || !c->inside)
        return DECLINED;
    c->sent = 1;
    ours = (apr_interval_time_t)c->task.timeout_us;
    own.socket = ap_get_conn_socket(answer->connection);
    if (!c->again || !c->idempotent || ours <= 0 || !own.socket ||
        apr_socket_timeout_get(own.socket, &own.timeout) || (own.timeout >= 0 && ours >= own.timeout))
        return DECLINED;
    c->patience = apr_pmemdup(answer->pool, &own, sizeof own);
    apr_pool_cleanup_register(answer->pool, c->patience, restore, apr_pool_cleanup_null);
    apr_socket_timeout_set(own.socket, ours);
    return OK;
}

/* The answer passes: it is the client's now, and the time that the client takes is not the member's. */
static apr_status_t watch(ap_filter_t *f, apr_bucket_brigade *bb)
{
    call *c = f->ctx;
    apr_time_t before;
    apr_status_t rv;

    if (!c->inside) {
        c->filter = NULL;
        ap_remove_output_filter(f);
        return ap_pass_brigade(f->next, bb);
    }
    if (!c->answered) {
        c->answered = 1;
        give_back(c);
        if (c->patience && !APR_BRIGADE_EMPTY(bb) && !APR_BUCKET_IS_EOS(APR_BRIGADE_LAST(bb)))
            restore(c->patience);
    }
    for (apr_bucket *b = APR_BRIGADE_FIRST(bb); b != APR_BRIGADE_SENTINEL(bb);
         b = APR_BUCKET_NEXT(b)) {
        if (AP_BUCKET_IS_ERROR(b))
            c->broken = 1;
        else if (!APR_BUCKET_IS_METADATA(b) && b->length != (apr_size_t)-1)
            c->bytes += (apr_off_t)b->length;
    }
    before = apr_time_now();
    rv = ap_pass_brigade(f->next, bb);
    c->aside += apr_time_now() - before;
    return rv;
}

/* 0: the member has not got the request. mod_proxy_ajp's 503 is also for requests it deems repeatable. */
static int was_sent(const call *c)
{
    if (speaks_cgi(c->worker))
        return apr_table_get(c->r->subprocess_env, "GATEWAY_INTERFACE") != not_sent;
    return c->sent;
}

static nap_ox_end judge(const call *c, int status)
{
    const request_rec *r = c->r;
    int overridden = apr_table_get(r->notes, "proxy-error-override") != NULL;

    if (r->connection->aborted || status == SUSPENDED)
        return NAP_OX_GIVEN_UP;
    if (status == OK || status == DONE || overridden) {
        int answer = overridden && ap_is_HTTP_ERROR(status) ? status : r->status;

        if (answer == HTTP_SWITCHING_PROTOCOLS)
            return NAP_OX_GIVEN_UP;
        if (c->broken)
            return NAP_OX_BROKEN;
        return ap_is_HTTP_SERVER_ERROR(answer) ? NAP_OX_STATUS : NAP_OX_ANSWERED;
    }
    if (!ap_is_HTTP_SERVER_ERROR(status))
        return NAP_OX_GIVEN_UP;
    if (!was_sent(c) && status == HTTP_SERVICE_UNAVAILABLE)
        return NAP_OX_CONNECT;
    if (status == HTTP_GATEWAY_TIME_OUT || apr_table_get(r->notes, "proxy_timedout"))
        return NAP_OX_TIMED_OUT;
    return NAP_OX_BROKEN;
}

static int may_go_on(const call *c, nap_ox_end end, int again)
{
    if (!again || c->answered || end == NAP_OX_ANSWERED || end == NAP_OX_GIVEN_UP)
        return 0;
    /* any request that was never sent may be sent elsewhere: mod_proxy does that too */
    return c->idempotent || end == NAP_OX_CONNECT;
}

/* Makes sure that nothing of the failed attempt reaches the client. */
static void undo(call *c)
{
    request_rec *r = c->r;

    r->status = HTTP_OK;
    r->status_line = NULL;
    r->headers_out = apr_table_copy(r->pool, c->headers_out);
    r->content_type = NULL;
    r->content_encoding = NULL;
    apr_table_unset(r->notes, "proxy-error-override");
    apr_table_unset(r->notes, "proxy_timedout");
    apr_table_unset(r->notes, "error-notes");
}

/* Are all members alike? If not, others replace one that is taken out. */
static int are_peers(const proxy_balancer *balancer)
{
    const proxy_worker *first = APR_ARRAY_IDX(balancer->workers, 0, proxy_worker *);

    for (int i = 0; i < balancer->workers->nelts; i++) {
        const proxy_worker *worker = APR_ARRAY_IDX(balancer->workers, i, proxy_worker *);

        if (worker->s->lbset != first->s->lbset || PROXY_WORKER_IS_STANDBY(worker) ||
            PROXY_WORKER_IS_SPARE(worker))
            return 0;
    }
    return 1;
}

/* mod_proxy takes a member that it cannot connect to out for `retry` seconds. Unless somebody has set
 * that, it is kept usable: the core's probes find out sooner when it is back. */
static void keep_usable(const call *c, unsigned before)
{
    proxy_worker_shared *s = c->worker->s;

    if (!s->retry_set && !(before & PROXY_WORKER_IN_ERROR) && are_peers(c->balancer))
        s->status &= ~(unsigned)PROXY_WORKER_IN_ERROR;
}

static apr_status_t not_busy(void *data)
{
    proxy_worker *worker = data;

    if (worker->s->busy)
        worker->s->busy--;
    return APR_SUCCESS;
}

/* Another member, set up as mod_proxy_balancer does it for one it has chosen. Returns its URL, or NULL. */
static char *next_member(call *c, proxy_server_conf *conf, const char *url)
{
    request_rec *r = c->r;
    size_t prefix = strlen(c->worker->s->name_ex);
    proxy_worker *next;

    if (strncmp(url, c->worker->s->name_ex, prefix))
        return NULL;
    if (!c->tried)
        c->tried = apr_array_make(r->pool, 4, sizeof(proxy_worker *));
    APR_ARRAY_PUSH(c->tried, proxy_worker *) = c->worker;
    if (PROXY_THREAD_LOCK(c->balancer) != APR_SUCCESS)
        return NULL;
    next = choose(c, c->attempt + 1);
    if (next)
        next->s->elected++;
    PROXY_THREAD_UNLOCK(c->balancer);
    if (!next || initialize_worker(next, r->server, conf->pool) != APR_SUCCESS)
        return NULL;
    c->worker = next;
    next->s->busy++;
    apr_pool_cleanup_register(r->pool, next, not_busy, apr_pool_cleanup_null);
    apr_table_setn(r->subprocess_env, "BALANCER_WORKER_NAME", next->s->name_ex);
    apr_table_setn(r->subprocess_env, "BALANCER_WORKER_ROUTE", next->s->route);
    if (*c->balancer->s->sticky)
        apr_table_setn(r->subprocess_env, "BALANCER_ROUTE_CHANGED", "1");
    return apr_pstrcat(r->pool, next->s->name_ex, url + prefix, NULL);
}

/* For a member that we did not choose (a sticky session). */
static void go_to(call *c, proxy_worker *worker)
{
    nap_member member;

    c->worker = worker;
    member = member_of(c, worker);
    nap_the_core->balancer.go(&c->task, nap_str_of(c->kind), &member);
    if (c->balancer->s->sticky_force)
        return;
    c->tried = apr_array_make(c->r->pool, 4, sizeof(proxy_worker *));
    APR_ARRAY_PUSH(c->tried, proxy_worker *) = worker;
    c->another = are_left(c, 1);
}

/* scheme_handler, before all other modules'. */
static int hand_over(request_rec *r, proxy_worker *worker, proxy_server_conf *conf, char *url,
                     const char *proxyhost, apr_port_t proxyport)
{
    call *c = call_at(r);
    int status, retries;

    if (!works || !nap_the_core || (c && c->inside) || !is_ours(worker->balancer))
        return DECLINED;
    if (!c || c->balancer != worker->balancer)
        c = call_make(r, worker->balancer);
    if (c->worker != worker || !c->task.under_way)
        go_to(c, worker);
    retries = (int)nap_the_core->balancer.retries(c->settings->conf);
    for (;; c->attempt++) {
        unsigned before = c->worker->s->status;
        int again = c->attempt < retries && c->another && !proxyhost;
        nap_ox_end end;
        char *next = NULL;

        begin(c, again);
        status = run_scheme_handler(r, c->worker, conf, url, proxyhost, proxyport);
        c->inside = 0;
        c->patience = NULL;     /* its connection is back in its pool, or closed */
        if (r->eos_sent || r->next)     /* answered past our filter, which ap_die removes */
            c->answered = 1;
        give_back(c);
        end = judge(c, status);
        nap_the_core->balancer.end(&c->task, end, (uint64_t)c->bytes,
                             (uint64_t)c->aside);
        if (end != NAP_OX_ANSWERED && end != NAP_OX_GIVEN_UP)
            keep_usable(c, before);
        if (may_go_on(c, end, again))
            next = next_member(c, conf, url);
        if (!next)
            break;
        ap_log_rerror(APLOG_MARK, APLOG_INFO, 0, r, "%s: attempt %d failed (status %d), next: %s",
                      c->balancer->s->name, c->attempt + 1, status, c->worker->s->name_ex);
        undo(c);
        url = next;
    }
    if (c->filter) {
        ap_remove_output_filter(c->filter);
        c->filter = NULL;
    }
    /* mod_proxy would take the first member out, and ask for another */
    if (ap_is_HTTP_SERVER_ERROR(status))
        apr_table_setn(r->notes, "proxy-error-override", "1");
    return status;
}

/* ---- At start --------------------------------------------------------------------------------- */

static apr_dso_handle_sym_t symbol(apr_dso_handle_t *dso, const char *name)
{
    apr_dso_handle_sym_t sym = NULL;

    return apr_dso_sym(&sym, dso, name) == APR_SUCCESS ? sym : NULL;
}

/* pre_config: modules are loaded, directives not yet read. */
void nap_balancer_begin(apr_pool_t *pconf)
{
    typedef void hook(int (*)(request_rec *, proxy_worker *, proxy_server_conf *, char *,
                              const char *, apr_port_t), const char *const *, const char *const *,
                      int);
    apr_dso_handle_t *dso = NULL;
    hook *hook_scheme_handler;

    directives = works = 0;
    best_worker = NULL;
    mod_proxy = ap_find_linked_module("mod_proxy.c");
    if (!mod_proxy || !ap_find_linked_module("mod_proxy_balancer.c"))
        return;
    dso = mod_proxy->dynamic_load_handle;
    if (!dso && apr_dso_load(&dso, NULL, pconf) != APR_SUCCESS)   /* compiled into httpd */
        return;
    hook_scheme_handler = (hook *)symbol(dso, "proxy_hook_scheme_handler");
    *(void **)&run_scheme_handler = symbol(dso, "proxy_run_scheme_handler");
    *(void **)&initialize_worker = symbol(dso, "ap_proxy_initialize_worker");
    ap_register_provider(pconf, PROXY_LBMETHOD, "oxthas", "0", &oxthas);
    ap_register_provider(pconf, PROXY_LBMETHOD, "nap", "0", &nap);
    if (!hook_scheme_handler || !run_scheme_handler || !initialize_worker)
        return;
    hook_scheme_handler(hand_over, NULL, NULL, APR_HOOK_REALLY_FIRST);
    APR_OPTIONAL_HOOK(proxy, create_req, request_sent, NULL, NULL, APR_HOOK_MIDDLE);
    watch_filter = ap_register_output_filter("NAP_BALANCER", watch, NULL, AP_FTYPE_RESOURCE - 1);
    works = 1;
}

/* The number of members of all balancers, including those that may be added at run time; 0 if no balancer
 * uses our methods. */
uint32_t nap_balancer_members(server_rec *s)
{
    uint32_t members = 0;
    int used = 0;

    for (; works && s; s = s->next) {
        proxy_server_conf *conf = ap_get_module_config(s->module_config, mod_proxy);

        for (int i = 0; i < conf->balancers->nelts; i++) {
            proxy_balancer *b = (proxy_balancer *)conf->balancers->elts + i;

            members += (uint32_t)(b->workers->nelts + (b->growth > 0 ? b->growth : 0));
            used |= is_ours(b);
        }
    }
    return used ? members : 0;
}

void nap_balancer_start(server_rec *s, uint32_t members)
{
    if (!works && mod_proxy && ap_find_linked_module("mod_proxy_balancer.c"))
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, s, "mod_nap: lbmethod oxthas and nap choose only "
                     "by how busy members are: this mod_proxy lacks functions they need");
    else if (!works)                /* not reported: nobody has asked for it */
        ap_log_error(APLOG_MARK, directives ? APLOG_WARNING : APLOG_DEBUG, 0, s, "mod_nap: "
                     "lbmethod oxthas and nap are off: mod_proxy_balancer is not loaded");
    else if (members)
        works = nap_the_core && nap_the_core->balancer.start();
    else
        works = 0;
}

/* nap_attempt.c: OXTHAS: a request's attempts at a balancer's members.
 *
 * We run before the scheme's handler (hand_over). If an attempt fails and may be made again, we send it
 * to another member ourselves, so mod_proxy sees one attempt only. Its own failover, which takes a member
 * out for everybody, is not needed. The core is told how each attempt ended.
 *
 *   find ─► hand_over ─┬─► proxy_http ... ─► request_sent ─► (answer) watch ─► OK
 *                      └── again, elsewhere ◄── timeout, 5xx, no connection
 */
#include "nap_balancer.h"

#include <apr_optional_hooks.h>

static ap_filter_rec_t *watch_filter;

/* What mod_proxy offers, found at run time. */
static __typeof__(proxy_run_scheme_handler) *run_scheme_handler;
static __typeof__(ap_proxy_initialize_worker) *initialize_worker;

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
    const proxy_dir_conf *own = ap_get_module_config(r->per_dir_config, nap_mod_proxy);
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
    ap_set_module_config(vector, nap_mod_proxy, dir);
    return vector;
}

/* The client sees nothing of this attempt unless it is answered: watch and undo reverse this. */
static void keep_back(call *c)
{
    request_rec *r = c->r;

    if (!c->headers_out)
        c->headers_out = apr_table_copy(r->pool, r->headers_out);
    /* mod_proxy_fcgi does not return such a status but answers with httpd's own page for it, so the
     * application's own answer is let through */
    if (c->idempotent && ap_cstr_casecmp(c->worker->s->scheme, "fcgi")) {
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
    call *c = nap_balancer_call(r);
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
        if (c->patience && !APR_BRIGADE_EMPTY(bb) && !nap_is_end(bb))
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
    const proxy_worker *first = APR_ARRAY_IDX(balancer->workers, 0, proxy_worker *), *worker;

    NAP_EACH(worker, balancer->workers)
        if (worker->s->lbset != first->s->lbset || PROXY_WORKER_IS_STANDBY(worker) ||
            PROXY_WORKER_IS_SPARE(worker))
            return 0;
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
    nap_list_add(r->pool, &c->tried, c->worker);
    if (PROXY_THREAD_LOCK(c->balancer) != APR_SUCCESS)
        return NULL;
    next = nap_balancer_choose(c, c->attempt + 1);
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
    member = nap_balancer_member(c, worker);
    nap_the_core->balancer.go(&c->task, nap_str_of(c->kind), &member);
    if (c->balancer->s->sticky_force)
        return;
    c->tried = NULL;
    nap_list_add(c->r->pool, &c->tried, worker);
    c->another = nap_balancer_has_left(c, 1);
}

/* scheme_handler, before all other modules'. */
static int hand_over(request_rec *r, proxy_worker *worker, proxy_server_conf *conf, char *url,
                     const char *proxyhost, apr_port_t proxyport)
{
    call *c = nap_balancer_call(r);
    int status, retries;

    if (!nap_the_core || (c && c->inside) || !nap_balancer_is_ours(worker->balancer))
        return DECLINED;
    if (!c || c->balancer != worker->balancer)
        c = nap_balancer_call_make(r, worker->balancer);
    if (c->worker != worker || !c->task.under_way)
        go_to(c, worker);
    retries = (int)nap_the_core->balancer.retries(c->task.conf);
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

/* At start. 0: this mod_proxy lacks something. */
int nap_attempt_begin(apr_dso_handle_t *dso)
{
    __typeof__(proxy_hook_scheme_handler) *hook_scheme_handler;

    if (apr_dso_sym((void **)&hook_scheme_handler, dso, "proxy_hook_scheme_handler") ||
        apr_dso_sym((void **)&run_scheme_handler, dso, "proxy_run_scheme_handler") ||
        apr_dso_sym((void **)&initialize_worker, dso, "ap_proxy_initialize_worker"))
        return 0;
    hook_scheme_handler(hand_over, NULL, NULL, APR_HOOK_REALLY_FIRST);
    APR_OPTIONAL_HOOK(proxy, create_req, request_sent, NULL, NULL, APR_HOOK_MIDDLE);
    watch_filter = ap_register_output_filter("NAP_BALANCER", watch, NULL, AP_FTYPE_RESOURCE - 1);
    return 1;
}

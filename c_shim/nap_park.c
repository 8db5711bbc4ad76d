/* nap_park.c: waiting without a worker, on event.
 *
 * The life of a parked connection:
 *
 * 1. The last fixup has a place for its access and returns SUSPENDED (nap_park). httpd's process_connection
 *    ends in CONN_STATE_SUSPENDED; ours runs around it.
 * 2. Ours turns that into a state in which the MPM waits until the connection's socket can be read (let_go).
 *    From here on the socket's descriptor is an eventfd, so the MPM does not poll the client. The access
 *    stands in the child's yard (nap_yard.c).
 * 3. A thread of each child, the keeper, hears the child's bell when one of them is woken. It also watches
 *    for clients that have gone, and for the time by which each access must look up, which is before httpd's
 *    Timeout is over. To make an access look up, it writes to its eventfd.
 * 4. A worker calls process_connection: the socket gets its own descriptor back, and the access leaves the
 *    yard (take_up). Ours asks the core. The access waits on, is refused, or goes on where the last fixup had
 *    stopped: with the handler.
 *
 * A request that mod_rewrite redirects within httpd (a front controller in .htaccess) enters inside
 * mod_rewrite's handler, which must return. Each step out to our own handler, which is around it, is made to
 * do nothing (be_silent, nap_park_handler). From our handler SUSPENDED is returned as usual.
 *
 * An access that cannot be parked waits on a worker, as with other MPMs. These are streams of HTTP/2 (not a
 * connection of the MPM's), other redirects within httpd, and accesses that enter before authorization
 * (NapAdmit early) or from a handler. When descriptors are short, all do so while workers last. So do the
 * last that come to a child that ends (listener_may_be_gone).
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "nap_park.h"

#define PLACES 16384            /* unless NapTables sets another number; fewer with little memory */
#define EACH_TAKES (32 * 1024)  /* bytes of a parked access, with its connection */
#define OF_MEMORY 8             /* all of them take at most an eighth of it */
#define FACTOR "AsyncRequestWorkerFactor"
#define FACTOR_OF_EVENT "2"
#define FACTOR_IS_OURS "mod_nap-" FACTOR

#ifndef AP_MPMQ_CAN_WAITIO
#define CONN_STATE_ASYNC_WAITIO CONN_STATE_SUSPENDED    /* httpd before 2.4.63: nothing is parked (cannot_park) */
#endif

/* ---- The server -------------------------------------------------------------------------------- */

/* Why no access can be parked here; NULL: it can. */
static const char *cannot_park(void)
{
#ifdef AP_MPMQ_CAN_WAITIO
    int can = 0;

    if (!ap_mpm_query(AP_MPMQ_CAN_WAITIO, &can) && can)
        return NULL;
    return "this MPM cannot wait for a connection without a worker; event can";
#else
    return "this httpd is older than 2.4.63";
#endif
}

/* The last value of a directive in the whole configuration; NULL: it is not there. */
static const char *value_of(const ap_directive_t *d, const char *name)
{
    const char *found = NULL;

    for (; d; d = d->next) {
        const char *here = !ap_cstr_casecmp(d->directive, name) ? d->args : value_of(d->first_child, name);

        if (here)
            found = here;
    }
    return found;
}

/* Gives event's directive this value, as if it stood in the configuration. NULL: done, else why not. */
static const char *give_factor(server_rec *s, apr_pool_t *p, const char *value)
{
    module *mpm = ap_top_module;
    const command_rec *command = ap_find_command_in_modules(FACTOR, &mpm);
    ap_directive_t line = { .directive = FACTOR, .args = value, .filename = "mod_nap" };
    cmd_parms cmd = { .limited = -1, .pool = p, .server = s, .cmd = command, .directive = &line };

    if (!command || command->args_how != TAKE1)
        return "event has no such directive";
    if (apr_pool_create(&cmd.temp_pool, p))
        return "no memory";
    return command->AP_TAKE1(&cmd, NULL, value);
}

/* The files that a child may open: the most that it can raise its limit to. */
static double files_of_child(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_max == RLIM_INFINITY ? INT_MAX : (double)limit.rlim_max;
}

/* event takes no more connections in a child than its threads, plus the factor for each idle thread. The
 * factor is large enough for all who may wait in one child while every other thread runs, within the
 * descriptors there are. */
static unsigned factor_for(const nap_mpm *mpm)
{
    double threads = mpm->threads_per_child ? mpm->threads_per_child : 1;
    double factor = 2 * mpm->parked / threads, most = (files_of_child() - NAP_YARD_OWN) / 2 / threads - 1;

    if (factor > most)
        factor = most;
    return factor < 2 ? 2 : (unsigned)factor;
}

/* Streams of HTTP/2 wait on workers: may there be any? */
static int speaks_http2(const server_rec *s)
{
    if (!ap_find_linked_module("mod_http2.c"))
        return 0;
    for (; s; s = s->next) {
        const core_server_config *core = ap_get_core_module_config(s->module_config);

        if (ap_array_str_contains(core->protocols, "h2") || ap_array_str_contains(core->protocols, "h2c"))
            return 1;
    }
    return 0;
}

/* The default number of places. A container has less memory than its machine. */
static double places_by_memory(void)
{
    double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE), limit, places;
    FILE *file = fopen("/sys/fs/cgroup/memory.max", "re");

    if (file) {
        if (fscanf(file, "%lf", &limit) == 1 && limit < memory)
            memory = limit;
        fclose(file);
    }
    places = memory / OF_MEMORY / EACH_TAKES;
    return places > PLACES || places < 1 ? PLACES : places;
}

/* Accesses that may wait without a worker. `why`: what makes them fewer than the places, which is either the
 * connections that event takes with the given factor, or the descriptors, both of two children (an idle
 * server has two). 0 if that is no more than can wait on workers. */
static uint32_t places_for(const nap_view *view, const nap_mpm *mpm, apr_pool_t *p, const char *given,
                           const char **why)
{
    double places = view->table_waiters > 0 ? (double)view->table_waiters : places_by_memory();
    double children = mpm->max_workers < 2 * mpm->threads_per_child ? 1 : 2;
    double by_files = children * (files_of_child() - NAP_YARD_OWN) / 3;
    double by_factor = given ? children * mpm->threads_per_child * atof(given) / 2 : places;
    double most = by_files < by_factor ? by_files : by_factor;

    if (places <= most)
        return (uint32_t)places;
    *why = by_files < by_factor
         ? apr_psprintf(p, "a child may open %.0f files at most (ulimit -Hn)", files_of_child())
         : apr_psprintf(p, "with " FACTOR " %s event takes few connections (mod_nap sets it where it is not given)",
                        given);
    return most > mpm->max_workers ? (uint32_t)most : 0;
}

/* event keeps its factor over a graceful restart, so a factor that we set must be undone. */
static void set_factor(server_rec *s, apr_pool_t *p, const nap_mpm *mpm, const char *given)
{
    apr_pool_t *process = s->process->pool;
    const char *value = apr_psprintf(p, "%u", factor_for(mpm)), *why;
    void *ours = NULL;

    apr_pool_userdata_get(&ours, FACTOR_IS_OURS, process);
    if (given || (!mpm->parked && !ours))
        return;
    if (!mpm->parked)
        value = FACTOR_OF_EVENT;
    why = give_factor(s, p, value);
    apr_pool_userdata_set(mpm->parked && !why ? process : NULL, FACTOR_IS_OURS, NULL, process);
    if (why)
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, s, "mod_nap: NapPark: " FACTOR " %s: %s", value, why);
    else if (mpm->parked)
        ap_log_error(APLOG_MARK, APLOG_INFO, 0, s, "mod_nap: NapPark: " FACTOR " %s is in force, as none is given: "
                     "event takes connections for all who may wait", value);
}

/* check_config: what must be settled before anything is parked. */
void nap_park_check(server_rec *s, apr_pool_t *p, const nap_view *view, nap_mpm *mpm)
{
    const char *given = value_of(ap_conftree, FACTOR), *cannot = cannot_park(), *few = NULL;
    int wanted = view->park == 1;

    if (given)
        given = ap_getword_conf(p, &given);
    mpm->parked = !cannot && nap_the_site->parks && view->park ? places_for(view, mpm, p, given, &few) : 0;
    mpm->on_workers = nap_the_site->admits_early || speaks_http2(s);
    if (mpm->on_workers && mpm->parked > mpm->max_workers)
        mpm->parked = mpm->max_workers;       /* there are no more places than that */
    if (cannot && wanted)
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, s,
                     "mod_nap: NapPark: %s; waiting accesses hold workers", cannot);
    else if (few && !mpm->parked)
        ap_log_error(APLOG_MARK, wanted ? APLOG_WARNING : APLOG_NOTICE, 0, s,
                     "mod_nap: NapPark: %s; waiting accesses hold workers", few);
    else if (few)
        ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, s, "mod_nap: NapPark: %s; so %u may wait", few, mpm->parked);
    set_factor(s, p, mpm, given);
}

/* ---- A connection ------------------------------------------------------------------------------ */

/* May requests on c wait without a worker? The first value of `around` in its line. */
int nap_park_around(const conn_rec *c)
{
    return nap_yard_descriptors > 0 && !c->master && c->cs ? 0 : NAP_NEVER_AROUND;
}

/* May r wait without a worker? Asked in its last fixup. */
int nap_park_may(const request_rec *r)
{
    const nap_line *line = nap_line_of(r->connection);

    return !r->main && !r->connection->clogging_input_filters && line && line->around == NAP_AROUND &&
           (!r->prev || r->prev == line->follows);
}

static void bell_close(nap_parked *p)
{
    if (p->bell >= 0)
        close(p->bell);
    p->bell = -1;
}

/* Leaves the yard; its socket gets its own descriptor back. */
static void take_up(nap_parked *p)
{
    if (p->client < 0)
        return;
    nap_yard_out(p);
    if (nap_descriptor(p->socket) == p->bell) {
        apr_os_sock_put(&p->socket, &p->client, p->r->connection->pool);
    }
    else {                      /* the MPM has closed the eventfd instead of the client */
        close(p->client);
        p->bell = -1;
    }
    p->client = -1;
}

/* The request's pool goes. If it is still parked, the MPM has closed its connection, and log_transaction will
 * not run. */
static apr_status_t end(void *parked)
{
    nap_parked *p = parked;
    nap_line *line = nap_line_of(p->r->connection);

    take_up(p);
    bell_close(p);
    if (line->parked == p) {
        ap_log_error(APLOG_MARK, APLOG_INFO, 0, p->r->server,
                     "mod_nap: the connection of a parked access has been closed");
        line->parked = NULL;
        nap_the_core->access.leave(&p->h->access);
    }
    return APR_SUCCESS;
}

/* The code that called a redirect then ends it with DONE: it discards no body and sends no end. */
static void be_silent(request_rec *r)
{
    r->connection->keepalive = AP_CONN_CLOSE;
    r->eos_sent = 1;
}

/* May event's listener have ended, so that nobody would wake a parked access? In a child that ends it does so as
 * soon as it counts no connection, and ours may have been counted after that. Until the MPM says that the child
 * ends, the listener has not looked at its count, and ours is in it by now. If another access is parked here, its
 * connection has been counted all the time. */
static int listener_may_be_gone(void)
{
    return nap_child_stopping() && nap_yard_is_empty();
}

/* The access has a place. What its last fixup returns then; OK: it cannot be parked. */
int nap_park(request_rec *r, nap_handle *h, const nap_request *q)
{
    nap_line *line = nap_line_of(r->connection);
    nap_parked *p;

    if (listener_may_be_gone())
        return OK;
    p = apr_pcalloc(r->pool, sizeof *p);
    p->r = r;
    p->h = h;
    p->q = *q;
    p->socket = ap_get_conn_socket(r->connection);
    p->client = -1;
    p->bell = p->socket ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
    /* the lowest free number; the last ones are kept for accesses that run */
    if (p->bell < 0 || p->bell >= nap_yard_descriptors) {
        bell_close(p);
        return OK;
    }
    apr_pool_cleanup_register(r->pool, p, end, apr_pool_cleanup_null);
    line->parked = p;
    p->keepalive = r->connection->keepalive;
    if (!r->prev)
        return SUSPENDED;
    be_silent(r);
    return DONE;
}

static const ap_LINK_process_connection_t *behind, *behind_end;     /* the hooks after ours; set when a child starts */

/* Runs around mod_rewrite's handler, which redirects r. Only if r is the first, or ours is also around the
 * redirect that led to it: an error's document, or what a program redirects to, has to return. */
int nap_park_handler(request_rec *r)
{
    nap_line *line = nap_line_of(r->connection);
    const request_rec *outer;
    int rc;

    if (!nap_the_site->parks || !nap_is_redirect(r) || !line || line->around != NAP_AROUND ||
        line->follows == r || r->main || (r->prev && r->prev != line->follows))
        return DECLINED;
    outer = line->follows;
    line->follows = r;
    rc = ap_run_handler(r);
    line->follows = outer;
    if (!line->parked)
        return rc;
    if (r->prev) {
        be_silent(r);
        return DONE;
    }
    r->connection->keepalive = line->parked->keepalive;
    for (request_rec *silent = line->parked->r; silent != r; silent = silent->prev)
        silent->eos_sent = 0;
    return SUSPENDED;
}

/* From here on it is the MPM's. If the yard has no room for it, the eventfd is readable at once: a worker
 * takes it up, and waits. */
static NAP_SELDOM void let_go(conn_rec *c, nap_parked *p)
{
    int client = nap_descriptor(p->socket);
    uint64_t one = 1;

    c->cs->state = CONN_STATE_ASYNC_WAITIO;
    c->cs->sense = CONN_SENSE_WANT_READ;
    if (c->aborted || client < 0)
        return;                 /* the MPM closes the connection */
    p->no_room = !nap_yard_in(p, client);
    if (p->no_room && write(p->bell, &one, sizeof one) < 0)
        return;                 /* then the client's next byte wakes it, or Timeout */
    p->client = client;
    apr_os_sock_put(&p->socket, &p->bell, c->pool);
}

/* It has looked up, and goes on as in ap_process_async_request(), after the redirects that led to it. */
static void go_on(request_rec *r, int status)
{
    conn_rec *c = r->connection;
    request_rec *first = nap_first(r);

    if (ap_extended_status)
        ap_time_process_request(c->sbh, START_PREQUEST);
    if (status == DECLINED) {
        nap_telepoll_access(r);     /* the one fixup after ours */
        status = ap_invoke_handler(r);
    }
    if (status == SUSPENDED) {  /* the handler itself waits */
        c->cs->state = CONN_STATE_SUSPENDED;
        apr_thread_mutex_unlock(r->invoke_mtx);
        return;
    }
    apr_thread_mutex_unlock(r->invoke_mtx);
    if (ap_is_HTTP_VALID_RESPONSE(status))
        r->status = HTTP_OK;    /* otherwise an error's document would fail in turn */
    ap_die(status, r);
    if (r != first)
        ap_die(OK, first);
    ap_process_request_after_handler(first);
    if (c->cs->state != CONN_STATE_WRITE_COMPLETION && c->cs->state != CONN_STATE_SUSPENDED)
        c->cs->state = CONN_STATE_LINGER;
}

static NAP_SELDOM int look_up(conn_rec *c, nap_line *line)
{
    nap_parked *p = line->parked;
    request_rec *r = p->r;
    int status;

    take_up(p);
    c->cs->state = CONN_STATE_HANDLER;
    ap_update_child_status(c->sbh, SERVER_BUSY_WRITE, r);   /* the MPM counts idle workers by that */
    apr_thread_mutex_lock(r->invoke_mtx);
    status = p->no_room ? nap_access_wait_here(r, p->h, &p->q) : nap_access_look_up(r, p->h, &p->q);
    if (status == SUSPENDED) {
        apr_thread_mutex_unlock(r->invoke_mtx);
        let_go(c, p);
        return OK;
    }
    line->parked = NULL;
    bell_close(p);
    go_on(r, status);
    return OK;
}

/* process_connection, around everybody else's. */
static int process(conn_rec *c)
{
    nap_line *line = nap_line_of(c);
    int rc = DECLINED;

    if (!line || line->around)
        return DECLINED;
    if (line->parked)
        return look_up(c, line);
    line->around = NAP_AROUND;
    for (const ap_LINK_process_connection_t *hook = behind; rc == DECLINED && hook < behind_end; hook++)
        rc = hook->pFunc(c);
    line->around = 0;
    if (line->parked && c->cs->state == CONN_STATE_SUSPENDED)
        let_go(c, line->parked);
    return rc;
}

/* pre_close_connection, of a parked one when Timeout is over or the server stops. */
static int close_parked(conn_rec *c)
{
    nap_line *line = nap_line_of(c);

    if (line && line->parked)
        take_up(line->parked);
    return OK;
}

void nap_park_start(apr_pool_t *pchild, server_rec *s)
{
    const apr_array_header_t *links = ap_hook_get_process_connection();

    nap_yard_start(pchild, s);
    if (!nap_the_site->parks)
        return;
    /* running all hooks again instead, ours too, would cost every request */
    behind = (const ap_LINK_process_connection_t *)links->elts;
    behind_end = behind + links->nelts;
    while ((behind++)->pFunc != process)
        ;
}

void nap_park_hook(void)
{
    if (nap_the_site->parks || !nap_the_site->view.park || cannot_park())
        return;
    nap_the_site->parks = 1;
    ap_hook_process_connection(process, NULL, NULL, NAP_FIRST);
    ap_hook_pre_close_connection(close_parked, NULL, NULL, NAP_FIRST);
}

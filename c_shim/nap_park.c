/* nap_park.c: waiting without a worker, on event.
 *
 * The life of a parked connection:
 *
 * 1. The last fixup has a place for its access and returns SUSPENDED (nap_park). httpd's process_connection
 *    ends in CONN_STATE_SUSPENDED; ours is around it, and makes of that a state in which the MPM waits until
 *    the connection's socket can be read (wait_on).
 * 2. The MPM lets go of the connection (suspend_connection). From here on its socket has an eventfd for a
 *    descriptor, so that what it polls is not the client. The access stands in the child's yard.
 * 3. A thread of each child, the keeper, hears the child's bell when one of them is woken. It watches for
 *    clients who have gone, too, and for the time at which each must look up at the latest, which is before
 *    httpd's Timeout is over. Whoever is to look up has his eventfd written to.
 * 4. A worker takes the connection up (resume_connection): the socket has its own descriptor again, the access
 *    has left the yard. Our process_connection asks the core, and waits on, refuses, or goes on where the last
 *    fixup had stopped: with the handler.
 *
 * Who cannot be parked waits on a worker, as everywhere else: streams of HTTP/2 (theirs is no connection of the
 * MPM's), redirects within httpd (they are called by a handler, which must come back), who enters before his
 * authorization (NapAdmit early) or from a handler, and whoever comes when descriptors are short, while workers last.
 */
#include <ap_mpm.h>
#include <apr_portable.h>
#include <http_request.h>
#include <scoreboard.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "mod_nap.h"

#define TICK_US 250000          /* between two looks at all who are parked */
#define MANY 256                /* clients that have gone, seen at a time */
#define PLACES 16384            /* that there are unless NapTables says how many */
#define SPARED 256              /* descriptors that nobody is parked with */

/* One who waits without a worker. */
struct nap_parked {
    request_rec *r;
    nap_handle *h;
    nap_request q;              /* what the core was told when it entered */
    apr_socket_t *socket;
    int bell;                   /* eventfd */
    int client;                 /* the client's descriptor while the socket has the eventfd; else -1 */
    size_t at;                  /* in the yard, one-based; 0: not there */
    int no_room;                /* there was no room for him in it */
};

/* Who is parked in this child: columns, as they are looked through often. */
static struct {
    pthread_mutex_t lock;
    size_t n, size;
    uint32_t *places;           /* of the core's */
    apr_time_t *due;            /* when he must look up at the latest */
    nap_parked **who;
    unsigned char *told;        /* to look up */
    uint32_t *which;            /* for the core's answer */
} yard = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int clients = -1;        /* epoll: their clients */
static int descriptors;          /* that this child may have */
static pthread_t keeper;
static int keeper_runs;
static volatile int keeper_ends;

/* Microseconds of a clock that nobody sets. */
static apr_time_t ticks(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (apr_time_t)t.tv_sec * APR_USEC_PER_SEC + t.tv_nsec / 1000;
}

/* ---- The yard ---------------------------------------------------------------------------------- */

/* For one more. 0: there is no memory. */
static int yard_grow(void)
{
    size_t size = yard.size ? 2 * yard.size : 256;
    void *places, *due, *who, *told, *which;

    if (yard.n < yard.size)
        return 1;
    /* each stands as it was where a later one fails */
    if ((places = realloc(yard.places, size * sizeof *yard.places)))
        yard.places = places;
    if ((due = realloc(yard.due, size * sizeof *yard.due)))
        yard.due = due;
    if ((who = realloc(yard.who, size * sizeof *yard.who)))
        yard.who = who;
    if ((told = realloc(yard.told, size)))
        yard.told = told;
    if ((which = realloc(yard.which, size * sizeof *yard.which)))
        yard.which = which;
    if (!places || !due || !who || !told || !which)
        return 0;
    yard.size = size;
    return 1;
}

/* Under the lock: he is to look up. */
static void tell(size_t at)
{
    uint64_t one = 1;

    if (yard.told[at])
        return;
    yard.told[at] = 1;
    if (write(yard.who[at]->bell, &one, sizeof one) < 0)
        yard.told[at] = 0;      /* at the next tick again */
}

/* How long he may stay in the yard, in microseconds: the MPM closes what has waited for Timeout. */
static apr_time_t stay_of(const nap_parked *p, uint64_t due)
{
    apr_time_t ours = p->r->server->timeout, mpm = p->r->connection->base_server->timeout;
    apr_time_t most = (ours < mpm ? ours : mpm) / 2;

    return due < (uint64_t)most ? (apr_time_t)due : most;
}

/* 0: there is no room for him. */
static int yard_in(nap_parked *p, int client)
{
    struct epoll_event e = { .events = EPOLLRDHUP | EPOLLONESHOT, .data.ptr = p };
    uint64_t due = 0, rung;
    uint32_t woken;
    int is_in;

    if (read(p->bell, &rung, sizeof rung) < 0)
        rung = 0;               /* nobody has */
    pthread_mutex_lock(&yard.lock);
    is_in = yard_grow() && !epoll_ctl(clients, EPOLL_CTL_ADD, client, &e);
    if (is_in) {
        yard.places[yard.n] = nap_the_core->park(&p->h->access, &due);
        yard.due[yard.n] = ticks() + stay_of(p, due);
        yard.who[yard.n] = p;
        yard.told[yard.n] = 0;
        p->at = ++yard.n;
        if (nap_the_core->woken(&yard.places[p->at - 1], 1, &woken))
            tell(p->at - 1);
    }
    pthread_mutex_unlock(&yard.lock);
    return is_in;
}

static void yard_out(nap_parked *p)
{
    pthread_mutex_lock(&yard.lock);
    if (p->at) {
        size_t at = p->at - 1, last = --yard.n;

        epoll_ctl(clients, EPOLL_CTL_DEL, p->client, NULL);
        yard.places[at] = yard.places[last];
        yard.due[at] = yard.due[last];
        yard.who[at] = yard.who[last];
        yard.told[at] = yard.told[last];
        yard.who[at]->at = at + 1;
        p->at = 0;
    }
    pthread_mutex_unlock(&yard.lock);
    nap_the_core->unpark(&p->h->access);
}

/* ---- The keeper -------------------------------------------------------------------------------- */

static void tell_who_was_woken(void)
{
    size_t n = nap_the_core->woken(yard.places, yard.n, yard.which);

    for (size_t i = 0; i < n; i++)
        tell(yard.which[i]);
}

static void tell_whose_time_has_come(apr_time_t by)
{
    int all = nap_server_stopping();

    for (size_t i = 0; i < yard.n; i++)
        if (all || yard.due[i] <= by)
            tell(i);
}

static void tell_whose_client_has_gone(void)
{
    struct epoll_event events[MANY];
    int n;

    do {
        n = epoll_wait(clients, events, MANY, 0);
        for (int i = 0; i < n; i++) {
            const nap_parked *p = events[i].data.ptr;

            tell(p->at - 1);
        }
    } while (n == MANY);
}

static void *keep(void *none)
{
    uint32_t heard = 0;
    apr_time_t next = 0;

    while (!keeper_ends) {
        apr_time_t now = ticks();

        heard = nap_the_core->bell(heard, now < next ? (uint64_t)(next - now) : 0);
        now = ticks();
        pthread_mutex_lock(&yard.lock);
        tell_who_was_woken();
        if (now >= next) {
            next = now + TICK_US;
            tell_whose_time_has_come(next);
            tell_whose_client_has_gone();
        }
        pthread_mutex_unlock(&yard.lock);
    }
    return NULL;
}

static apr_status_t keeper_end(void *none)
{
    keeper_ends = 1;
    if (keeper_runs)
        pthread_join(keeper, NULL);
    keeper_runs = 0;
    return APR_SUCCESS;
}

/* Each who is parked has two descriptors: as many as are needed, if they may be had. */
static void raise_descriptors(void)
{
    rlim_t wanted = 2 * (rlim_t)nap_the_site->conf.parked + nap_the_site->conf.threads_per_child + 4 * SPARED;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit))
        return;
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (!getrlimit(RLIMIT_NOFILE, &limit))
        descriptors = limit.rlim_cur < INT_MAX ? (int)limit.rlim_cur : INT_MAX;
}

/* A child. Without a keeper everybody waits on his worker. */
void nap_park_start(apr_pool_t *pchild, server_rec *s)
{
    pthread_attr_t attr;

    if (!nap_the_site->conf.parked || !nap_the_core)
        return;
    raise_descriptors();
    clients = epoll_create1(EPOLL_CLOEXEC);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 * 1024);
    keeper_ends = 0;
    keeper_runs = clients >= 0 && !pthread_create(&keeper, &attr, keep, NULL);
    pthread_attr_destroy(&attr);
    if (!keeper_runs)
        ap_log_error(APLOG_MARK, APLOG_ERR, errno, s, "mod_nap: NapPark: no thread for those who are parked; "
                     "they wait on workers");
    apr_pool_pre_cleanup_register(pchild, NULL, keeper_end);
}

/* ---- The server -------------------------------------------------------------------------------- */

/* Why nobody can be parked here; NULL: everybody can. */
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

/* Accesses that may wait without a worker. */
uint32_t nap_park_places(const nap_server_conf *conf)
{
    if (conf->park != 1 || cannot_park())
        return 0;
    return conf->table_waiters > 0 ? (uint32_t)conf->table_waiters : PLACES;
}

/* The value of a directive that stands once for the server; NULL: it is not there. */
static const char *value_of(const ap_directive_t *d, const char *name)
{
    const char *found = NULL;

    for (; d && !found; d = d->next)
        found = !ap_cstr_casecmp(d->directive, name) ? d->args : value_of(d->first_child, name);
    return found;
}

/* check_config: what is to be known before anybody is parked. event takes no more connections in a child than its
 * threads and AsyncRequestWorkerFactor for each that is idle. */
void nap_park_tell(server_rec *s, const nap_server_conf *conf)
{
    const char *why = cannot_park(), *given;
    double factor, connections;

    if (conf->park != 1)
        return;
    if (why) {
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, s, "mod_nap: NapPark On: %s; who waits holds a worker", why);
        return;
    }
    given = value_of(ap_conftree, "AsyncRequestWorkerFactor");
    factor = given ? atof(given) : 2;
    connections = conf->max_workers * (1 + factor);
    if (conf->max_workers && connections < conf->parked)
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, s, "mod_nap: NapPark On: MPM event takes at most %.0f connections "
                     "(MaxRequestWorkers %u, AsyncRequestWorkerFactor %g); with AsyncRequestWorkerFactor %u it takes "
                     "the %u that may wait", connections, conf->max_workers, factor,
                     (conf->parked + conf->max_workers - 1) / conf->max_workers, conf->parked);
}

/* ---- A connection ------------------------------------------------------------------------------ */

/* May r wait without a worker? Asked in its last fixup. */
int nap_park_may(const request_rec *r)
{
    const conn_rec *c = r->connection;
    const nap_line *line;

    if (!keeper_runs || r->prev || r->main || c->master || !c->cs || c->clogging_input_filters)
        return 0;
    line = nap_line_of(c);
    return line && line->around;
}

static void bell_close(nap_parked *p)
{
    if (p->bell >= 0)
        close(p->bell);
    p->bell = -1;
}

/* The request's pool goes. Where he is parked still the MPM has closed his connection, and no log_transaction
 * comes. */
static apr_status_t end(void *parked)
{
    nap_parked *p = parked;
    nap_line *line = nap_line_of(p->r->connection);

    bell_close(p);
    if (line->parked == p) {
        ap_log_error(APLOG_MARK, APLOG_INFO, 0, p->r->server, "mod_nap: the connection of one who was parked has "
                     "been closed");
        line->parked = NULL;
        nap_the_core->leave(&p->h->access);
    }
    return APR_SUCCESS;
}

/* The access has a place: 1: its last fixup returns SUSPENDED. 0: it cannot be parked. */
int nap_park(request_rec *r, nap_handle *h, const nap_request *q)
{
    nap_line *line = nap_line_of(r->connection);
    nap_parked *p = apr_palloc(r->pool, sizeof *p);

    p->r = r;
    p->h = h;
    p->q = *q;
    p->socket = ap_get_conn_socket(r->connection);
    p->client = -1;
    p->at = 0;
    p->no_room = 0;
    p->bell = p->socket ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
    /* the lowest number that is free: near the end the rest is for those who run */
    if (p->bell < 0 || p->bell >= descriptors - SPARED) {
        bell_close(p);
        return 0;
    }
    apr_pool_cleanup_register(r->pool, p, end, apr_pool_cleanup_null);
    line->parked = p;
    return 1;
}

#ifdef AP_MPMQ_CAN_WAITIO
static void wait_on(conn_rec *c)
{
    c->cs->state = CONN_STATE_ASYNC_WAITIO;
    c->cs->sense = CONN_SENSE_WANT_READ;
}

/* suspend_connection. Where he finds no room in the yard the eventfd is readable at once: a worker takes him up,
 * and waits. */
void nap_park_suspend(conn_rec *c, request_rec *r)
{
    nap_line *line = nap_line_of(c);
    nap_parked *p = line ? line->parked : NULL;
    apr_os_sock_t client = -1;
    uint64_t one = 1;

    if (!p || c->master || p->client >= 0 || c->cs->state != CONN_STATE_ASYNC_WAITIO ||
        apr_os_sock_get(&client, p->socket) || client < 0)
        return;
    p->no_room = !yard_in(p, client);
    if (p->no_room && write(p->bell, &one, sizeof one) < 0)
        return;                 /* the client's next byte, or Timeout */
    p->client = client;
    apr_os_sock_put(&p->socket, &p->bell, c->pool);
}

/* resume_connection */
void nap_park_resume(conn_rec *c, request_rec *r)
{
    nap_line *line = nap_line_of(c);
    nap_parked *p = line ? line->parked : NULL;
    apr_os_sock_t has = -1;

    if (!p || p->client < 0)
        return;
    yard_out(p);
    apr_os_sock_get(&has, p->socket);
    if (has == p->bell) {
        apr_os_sock_put(&p->socket, &p->client, c->pool);
    }
    else {                      /* the MPM has closed what it took for the client */
        close(p->client);
        p->bell = -1;
    }
    p->client = -1;
}

/* He has looked up, and the request goes on as it does in ap_process_async_request(). */
static void go_on(request_rec *r, int status)
{
    conn_rec *c = r->connection;

    if (ap_extended_status)
        ap_time_process_request(c->sbh, START_PREQUEST);
    if (status == DECLINED)
        status = ap_invoke_handler(r);
    if (status == SUSPENDED) {  /* a handler that waits by itself */
        c->cs->state = CONN_STATE_SUSPENDED;
        apr_thread_mutex_unlock(r->invoke_mtx);
        return;
    }
    apr_thread_mutex_unlock(r->invoke_mtx);
    if (ap_is_HTTP_VALID_RESPONSE(status))
        r->status = HTTP_OK;    /* no error in an error's document */
    ap_die(status, r);
    ap_process_request_after_handler(r);
    if (c->cs->state != CONN_STATE_WRITE_COMPLETION && c->cs->state != CONN_STATE_SUSPENDED)
        c->cs->state = CONN_STATE_LINGER;
}

static int look_up(conn_rec *c, nap_line *line)
{
    nap_parked *p = line->parked;
    request_rec *r = p->r;
    int status;

    c->cs->state = CONN_STATE_HANDLER;
    ap_update_child_status(c->sbh, SERVER_BUSY_WRITE, r);   /* the MPM counts idle workers by that */
    apr_thread_mutex_lock(r->invoke_mtx);
    status = p->no_room ? nap_access_wait_here(r, p->h, &p->q) : nap_access_look_up(r, p->h, &p->q);
    if (status == SUSPENDED) {
        apr_thread_mutex_unlock(r->invoke_mtx);
        wait_on(c);
        return OK;
    }
    line->parked = NULL;
    bell_close(p);
    go_on(r, status);
    return OK;
}

/* process_connection, around everybody else's. */
int nap_park_process(conn_rec *c)
{
    nap_line *line = nap_line_of(c);
    int rc;

    if (!line || line->around || c->master || !c->cs)
        return DECLINED;
    if (line->parked)
        return look_up(c, line);
    if (!keeper_runs)
        return DECLINED;
    line->around = 1;
    rc = ap_run_process_connection(c);
    line->around = 0;
    if (line->parked && c->cs->state == CONN_STATE_SUSPENDED)
        wait_on(c);
    return rc;
}
#endif

/* While the configuration is read: who does not want it does not pay for it. */
void nap_park_hook(void)
{
    if (nap_the_site->parks)
        return;
    nap_the_site->parks = 1;
#ifdef AP_MPMQ_CAN_WAITIO
    ap_hook_process_connection(nap_park_process, NULL, NULL, NAP_FIRST);
    ap_hook_suspend_connection(nap_park_suspend, NULL, NULL, NAP_LAST);
    ap_hook_resume_connection(nap_park_resume, NULL, NULL, NAP_FIRST);
#endif
}

/* nap_yard.c: the accesses that are parked in this child, and their keeper.
 *
 * The keeper is a thread that watches over all of them at once. It hears the child's bell, which the core
 * rings when one of them must look up. It also sees clients that have gone, and accesses whose time has come.
 * It only writes to their eventfds; a worker does the rest (nap_park.c).
 */
#include <apr_thread_proc.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "nap_park.h"

#define TICK_US 250000          /* between two looks at all parked accesses */
#define GRAIN_US 2000           /* between two looks for those whose time has come */
#define MANY 256                /* clients that have gone, seen at a time */
#define SPARED 256              /* descriptors that are not used for parking */

/* The accesses parked in this child, in columns, as they are scanned often. */
static struct {
    pthread_mutex_t lock;
    size_t n, size;
    uint32_t *places;           /* of the core's */
    apr_time_t *due;            /* the latest time to look up */
    nap_parked **who;
    unsigned char *told;        /* it has been told to look up */
    apr_time_t next;            /* when the keeper next looks whose time has come */
    uint32_t *which;            /* for the core's answer */
} yard = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int clients = -1;        /* epoll, of their clients */
atomic_int nap_yard_descriptors;
static pthread_t keeper;
static atomic_int keeper_runs, keeper_ends;

/* Microseconds of a clock that nobody sets. */
static apr_time_t ticks(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (apr_time_t)t.tv_sec * APR_USEC_PER_SEC + t.tv_nsec / 1000;
}

/* Room for all that may be parked in the server; what is not used costs no memory. 0: there is none. */
static int yard_make(size_t size)
{
    yard.size = size;
    yard.places = calloc(size, sizeof *yard.places);
    yard.due = calloc(size, sizeof *yard.due);
    yard.who = calloc(size, sizeof *yard.who);
    yard.told = calloc(size, sizeof *yard.told);
    yard.which = calloc(size, sizeof *yard.which);
    return yard.places && yard.due && yard.who && yard.told && yard.which;
}

/* Under the lock: tells it to look up. */
static void tell(size_t at)
{
    uint64_t one = 1;

    if (yard.told[at])
        return;
    yard.told[at] = 1;
    if (write(yard.who[at]->bell, &one, sizeof one) < 0)
        yard.told[at] = 0;      /* again at the next tick */
}

/* How long it may stay in the yard, in microseconds: the MPM closes a connection that waits for Timeout. */
static apr_time_t stay_of(const nap_parked *p, uint64_t due)
{
    apr_time_t ours = p->r->server->timeout, mpm = p->r->connection->base_server->timeout;
    apr_time_t most = (ours < mpm ? ours : mpm) / 2;

    return due < (uint64_t)most ? (apr_time_t)due : most;
}

/* 0: there is no room for it. */
int nap_yard_in(nap_parked *p, int client)
{
    struct epoll_event e = { .events = EPOLLRDHUP | EPOLLONESHOT, .data.ptr = p };
    uint64_t due = 0, rung;
    uint32_t woken;
    int is_in, sooner = 0;

    if (read(p->bell, &rung, sizeof rung) < 0)
        rung = 0;               /* it has not been rung */
    pthread_mutex_lock(&yard.lock);
    is_in = yard.n < yard.size && !epoll_ctl(clients, EPOLL_CTL_ADD, client, &e);
    if (is_in) {
        yard.places[yard.n] = nap_the_core->access.park(&p->h->access, &due);
        yard.due[yard.n] = ticks() + stay_of(p, due);
        yard.who[yard.n] = p;
        yard.told[yard.n] = 0;
        p->at = ++yard.n;
        sooner = yard.due[p->at - 1] < yard.next;
        if (sooner)
            yard.next = yard.due[p->at - 1];
        if (nap_the_core->access.woken(&yard.places[p->at - 1], 1, &woken))
            tell(p->at - 1);
    }
    pthread_mutex_unlock(&yard.lock);
    if (sooner)
        nap_the_core->access.ring();
    return is_in;
}

void nap_yard_out(nap_parked *p)
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
    nap_the_core->access.unpark(&p->h->access);
}

int nap_yard_is_empty(void)
{
    size_t n;

    pthread_mutex_lock(&yard.lock);
    n = yard.n;
    pthread_mutex_unlock(&yard.lock);
    return !n;
}

/* The earliest time of those whose time has not come. */
static apr_time_t tell_whose_time_has_come(apr_time_t by)
{
    apr_time_t earliest = APR_INT64_MAX;

    for (size_t i = 0; i < yard.n; i++) {
        if (yard.due[i] <= by)
            tell(i);
        if (!yard.told[i] && yard.due[i] < earliest)
            earliest = yard.due[i];
    }
    return earliest;
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

/* Under the lock. */
static void look(apr_time_t now, apr_time_t *tick)
{
    size_t woken = nap_the_core->access.woken(yard.places, yard.n, yard.which);

    for (size_t i = 0; i < woken; i++)
        tell(yard.which[i]);
    if (now < yard.next)
        return;
    if (now >= *tick) {
        *tick = now + TICK_US;
        if (nap_server_stopping())
            for (size_t i = 0; i < yard.n; i++)
                tell(i);
        tell_whose_client_has_gone();
    }
    yard.next = tell_whose_time_has_come(now + GRAIN_US);
    if (yard.next < now + GRAIN_US)
        yard.next = now + GRAIN_US;     /* for those that could not be told */
    if (yard.next > *tick)
        yard.next = *tick;
}

static void *keep(void *none)
{
    uint32_t heard = 0;
    apr_time_t tick = 0, next = 0;

    apr_setup_signal_thread();          /* signals go to the MPM's threads, except its own faults */
    while (!keeper_ends) {
        apr_time_t now = ticks();

        heard = nap_the_core->access.bell(heard, now < next ? (uint64_t)(next - now) : 0);
        pthread_mutex_lock(&yard.lock);
        look(ticks(), &tick);
        next = yard.next;
        pthread_mutex_unlock(&yard.lock);
    }
    return NULL;
}

static apr_status_t keeper_end(void *none)
{
    keeper_ends = 1;
    if (nap_the_core)
        nap_the_core->access.ring();   /* else it would sleep for a tick, and delay the child's end */
    if (keeper_runs)
        pthread_join(keeper, NULL);
    keeper_runs = nap_yard_descriptors = 0;
    return APR_SUCCESS;
}

/* Each parked access has two descriptors, and event takes half as many connections again (factor_for). Raises
 * the limit to what they need, if it may. How many there are then. */
static int raise_descriptors(void)
{
    rlim_t wanted = 3 * (rlim_t)nap_the_site->mpm.parked + nap_the_site->mpm.threads_per_child + NAP_YARD_OWN;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit))
        return 0;
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return 0;
    return limit.rlim_cur < INT_MAX ? (int)limit.rlim_cur : INT_MAX;
}

/* A child starts. Without a keeper every access waits on its worker. */
void nap_yard_start(apr_pool_t *pchild, server_rec *s)
{
    pthread_attr_t attr;
    int rc;

    if (!nap_the_site->mpm.parked || !nap_the_core)
        return;
    clients = epoll_create1(EPOLL_CLOEXEC);
    rc = clients < 0 ? errno : yard_make(nap_the_site->mpm.parked) ? 0 : ENOMEM;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 * 1024);
    keeper_ends = 0;
    if (!rc)
        rc = pthread_create(&keeper, &attr, keep, NULL);
    keeper_runs = !rc;
    nap_yard_descriptors = rc ? 0 : raise_descriptors() - SPARED;
    pthread_attr_destroy(&attr);
    if (!keeper_runs)
        ap_log_error(APLOG_MARK, APLOG_ERR, rc, s, "mod_nap: NapPark: the thread for parked accesses "
                     "cannot be started; they wait on workers");
    apr_pool_pre_cleanup_register(pchild, NULL, keeper_end);
}

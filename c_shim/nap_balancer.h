/* nap_balancer.h: a request's call of a balancer, for nap_balancer.c and nap_attempt.c. */
#ifndef NAP_BALANCER_H
#define NAP_BALANCER_H

#include <apr_dso.h>
#include <mod_proxy.h>

#include "mod_nap.h"

#pragma GCC visibility push(hidden)

/* A request on its way through a balancer that uses our methods. */
typedef struct call {
    request_rec *r;
    nap_task task;
    const struct activity *activity;    /* as configured; NULL: by the path's first segment */
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

/* nap_balancer.c */
extern module *nap_mod_proxy;       /* NULL: not loaded */
int nap_balancer_is_ours(const proxy_balancer *balancer);
call *nap_balancer_call(const request_rec *r);
call *nap_balancer_call_make(request_rec *r, proxy_balancer *balancer);
proxy_worker *nap_balancer_choose(call *c, int attempt);
nap_member nap_balancer_member(const call *c, const proxy_worker *worker);
int nap_balancer_has_left(const call *c, int wanted);

/* nap_attempt.c */
int nap_attempt_begin(apr_dso_handle_t *dso);

#pragma GCC visibility pop

#endif

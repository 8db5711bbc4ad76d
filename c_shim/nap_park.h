/* nap_park.h: an access that waits without a worker, for nap_park.c and nap_yard.c. */
#ifndef NAP_PARK_H
#define NAP_PARK_H

#include <stdatomic.h>

#include "mod_nap.h"

#define NAP_YARD_OWN 1024       /* descriptors of a child that parked accesses do not use */

/* An access that waits without a worker. */
struct nap_parked {
    request_rec *r;
    nap_handle *h;
    nap_request q;              /* what the core was told when it entered */
    apr_socket_t *socket;
    int bell;                   /* eventfd */
    int client;                 /* the client's descriptor while the socket has the eventfd; else -1 */
    size_t at;                  /* in the yard, one-based; 0: not there */
    int no_room;                /* the yard had no room for it */
    ap_conn_keepalive_e keepalive;  /* of its connection, if it was redirected */
};

/* nap_yard.c */
void nap_yard_start(apr_pool_t *pchild, server_rec *s);
int nap_yard_in(nap_parked *p, int client);
void nap_yard_out(nap_parked *p);
int nap_yard_is_empty(void);
extern atomic_int nap_yard_descriptors;     /* that parked accesses may have; not positive: all wait on workers */

#endif

/* nap_call.c: the early call, as a header on any answer.
 *
 * A holder who should come now is told so with any answer they get: `Nap-Call: now`. Scripts and
 * programs see it; the ticket page asks for itself (nap-status). The ticket is looked at when the
 * answer is about to be made, so an access that has just used it up is told nothing.
 *
 * As long as no tickets are out, no request is looked at; one without a ticket costs two looks at its
 * headers.
 */
#include "mod_nap.h"

static const uint32_t *const nowhere;
static const uint32_t *const *counts = &nowhere;

/* A cookie of ours, judged by part of its name: the core looks closer. */
static NAP_SELDOM int is_in(const char *cookie)
{
    const nap_room *room;

    NAP_EACH(room, nap_the_site->in_order)
        if (room->cookie && ap_strstr_c(cookie, room->cookie))
            return 1;
    return 0;
}

static NAP_SELDOM void tell(request_rec *r)
{
    nap_handle *h = nap_handle_make(nap_first(r));
    nap_request q;

    /* it has just been refused: there is no room */
    if (h->refused)
        return;
    nap_request_fill(&q, h, r);
    nap_the_core->pages.call(&q);
}

/* A request for the ticket's status gets the call in its answer. */
static int is_status(const request_rec *r)
{
    const nap_handle *h = nap_handle_at(r);

    return (h && h->asset && !strcmp(h->asset, "status")) ||
           (r->handler && !strcmp(r->handler, "nap-status"));
}

static int tickets_out(void)
{
    for (const uint32_t *const *count = counts; *count; count++) {
        if (__atomic_load_n(*count, __ATOMIC_RELAXED))
            return 1;
    }
    return 0;
}

static __attribute__((noinline)) void tell_holder(request_rec *r)
{
    const char *cookie = apr_table_get(r->headers_in, "Cookie");

    if (((cookie && is_in(cookie)) || apr_table_get(r->headers_in, "Nap-Ticket")) && !is_status(r))
        tell(r);
}

static void call(request_rec *r)
{
    if (tickets_out() && !r->main)
        tell_holder(r);
}

void nap_call_start(void)
{
    counts = nap_the_core->pages.tickets_out();
}

void nap_call_hook(void)
{
    if (nap_the_site->calls)
        return;
    nap_the_site->calls = 1;
    ap_hook_insert_filter(call, NULL, NULL, APR_HOOK_LAST);
    ap_hook_insert_error_filter(call, NULL, NULL, APR_HOOK_LAST);
}

/* nap_call.c: the early call on answers that nobody asked it of.
 *
 * Whoever brings a ticket and is to come now is told so with whatever he is answered: `Nap-Call: now`.
 * A script or a program hears it; the ticket page asks by itself (nap-status). It is looked at when the
 * answer is about to be made, so an access that has just used the ticket up is told nothing.
 *
 * The hooks are registered while the configuration is read, by the first <NapRoom>. As long as
 * nobody has a ticket nobody is looked at; who brings none costs two looks into his headers.
 */
#include "mod_nap.h"

static const uint32_t *const nowhere;
static const uint32_t *const *counts = &nowhere;

static int hooked;

/* A cookie of ours, by part of its name: the core looks closer. */
static NAP_SELDOM int is_in(const char *cookie)
{
    for (int i = 0; i < nap_the_site->in_order->nelts; i++) {
        const nap_room *room = APR_ARRAY_IDX(nap_the_site->in_order, i, const nap_room *);

        if (room->cookie && ap_strstr_c(cookie, room->cookie))
            return 1;
    }
    return 0;
}

static NAP_SELDOM void tell(request_rec *r)
{
    nap_handle *h = nap_handle_make(nap_first(r));
    nap_request q;

    /* refused this moment: there is no room */
    if (h->refused)
        return;
    nap_request_fill(&q, h, r);
    nap_the_core->call(&q);
}

/* Whoever asks where he stands is told in the answer itself. */
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

/* A child: whoever sells tickets is known. */
void nap_call_start(void)
{
    counts = nap_the_core->tickets_out();
}

/* Once per reading of the configuration: httpd takes all hooks away before it reads the next. */
void nap_call_begin(void)
{
    hooked = 0;
}

void nap_call_hook(void)
{
    if (hooked)
        return;
    hooked = 1;
    ap_hook_insert_filter(call, NULL, NULL, APR_HOOK_LAST);
    ap_hook_insert_error_filter(call, NULL, NULL, APR_HOOK_LAST);
}

/* nap_form.c: the body of a refused POST, for the page that keeps its form.
 *
 * It is read when the page is made: once, only if the core wants it, and only as much as comes within
 * a second. With `Expect: 100-continue` nothing comes, as httpd has answered already.
 */
#include "mod_nap.h"

#define PATIENCE_US APR_USEC_PER_SEC
#define PAUSE_US 10000

/* On refusal, while the request's headers are still as received. */
void nap_form_note(request_rec *r, nap_handle *h)
{
    if (strcmp(h->method, "POST"))
        return;
    h->form_type = apr_table_get(r->headers_in, "Content-Type");
    h->form_length = apr_table_get(r->headers_in, "Content-Length");
}

/* `want` bytes of r's body, or NULL: they did not come. Does not block: a stream of HTTP/2 has no
 * socket on which to set a time-out. */
static const char *read_body(request_rec *r, apr_size_t want)
{
    apr_bucket_brigade *bb = apr_brigade_create(r->pool, r->connection->bucket_alloc);
    char *buf = apr_palloc(r->pool, want + 1);
    apr_time_t until = apr_time_now() + PATIENCE_US;
    apr_size_t have = 0;

    while (have < want) {
        apr_size_t len = want - have;
        apr_status_t rv = ap_get_brigade(r->input_filters, bb, AP_MODE_READBYTES, APR_NONBLOCK_READ, len);

        if (nap_is_nothing(rv, bb)) {
            if (apr_time_now() >= until)
                return NULL;
            apr_sleep(PAUSE_US);
            continue;
        }
        if (rv || apr_brigade_flatten(bb, buf + have, &len))
            return NULL;
        have += len;
        if (nap_is_end(bb))
            break;
        apr_brigade_cleanup(bb);
    }
    return have == want ? buf : NULL;
}

/* What the page needs to know of the form of the refused access h; r is the page's request. A form is kept if it
 * is a POST of the site's own, no longer than NapKeepForm allows. */
void nap_form_read(nap_request *q, nap_handle *h, request_rec *r)
{
    request_rec *first = h->first;
    apr_off_t length;
    const char *body;
    nap_form form;

    if (strcmp(h->method, "POST") || h->room->view.keep_form < 0)
        return;
    form = (nap_form) {
        .fetch_site = nap_header(first, "Sec-Fetch-Site"),
        .origin = q->origin,
        .referer = nap_header(first, "Referer"),
        .scheme = nap_str_of(ap_http_scheme(first)),
        .host = nap_header(first, "Host"),
        .content_type = nap_str_of(h->form_type),
    };
    q->form_state = NAP_FORM_LOST;
    if (!h->form_length || !ap_parse_strict_length(&length, h->form_length) ||
        length > h->room->view.keep_form || !nap_the_core->pages.form_wanted(&form))
        return;
    body = read_body(r, (apr_size_t)length);
    if (!body)
        return;
    q->form_state = NAP_FORM_READ;
    q->form_type = form.content_type;
    q->form_body = (nap_str) { body, (size_t)length };
}

/* nap_control.c: nap-control, which receives an administrator's form.
 * It answers only at NapControl's path, whatever an .htaccess says, and only to POST. The <Location>
 * there says who may send it. The core checks the origin and the nonce.
 */
#include "mod_nap.h"

#define BODY_MAX 8192

/* The whole body, or NULL: it is longer than any of our forms, or did not come. */
static const char *body_of(request_rec *r, apr_size_t *len)
{
    char *buf = apr_palloc(r->pool, BODY_MAX + 1);
    long got;

    *len = 0;
    if (ap_setup_client_block(r, REQUEST_CHUNKED_DECHUNK))
        return NULL;
    if (!ap_should_client_block(r))
        return buf;
    do {
        got = ap_get_client_block(r, buf + *len, BODY_MAX + 1 - *len);
        *len += got > 0 ? (apr_size_t)got : 0;
    } while (got > 0 && *len <= BODY_MAX);
    return got == 0 ? buf : NULL;
}

/* Both orders carried out and orders rejected go to the log. */
static int answer(request_rec *r, int status, const char *said, const char *back)
{
    const char *who = r->user ? r->user : "no user name", *accept = apr_table_get(r->headers_in, "Accept");

    ap_log_rerror(APLOG_MARK, status == HTTP_OK ? APLOG_NOTICE : APLOG_WARNING, 0, r,
                  "mod_nap: nap-control (%s): %s%s", who, status == HTTP_OK ? "" : "not done: ", said);
    apr_table_setn(r->err_headers_out, "Cache-Control", "no-store");
    if (status == HTTP_OK && *back && accept && ap_strstr_c(accept, "text/html")) {     /* a browser */
        apr_table_setn(r->headers_out, "Location", apr_pstrdup(r->pool, back));
        return HTTP_SEE_OTHER;
    }
    r->status = status;
    ap_set_content_type(r, "text/plain; charset=utf-8");
    apr_table_setn(r->err_headers_out, "X-Content-Type-Options", "nosniff");
    ap_rprintf(r, "%s\n", said);
    return OK;
}

int nap_control_handler(request_rec *r)
{
    const char *path = nap_the_site->control_path;
    char *said = apr_pcalloc(r->pool, NAP_ERR_MAX), *back = apr_pcalloc(r->pool, NAP_ERR_MAX);
    apr_size_t len;
    nap_form form = {
        .fetch_site = nap_header(r, "Sec-Fetch-Site"),
        .origin = nap_header(r, "Origin"),
        .scheme = nap_str_of(ap_http_scheme(r)),
        .host = nap_header(r, "Host"),
        .content_type = nap_header(r, "Content-Type"),
        .nonce = nap_header(r, "X-Nap-Control"),
    };

    if (!path || strcmp(r->uri, path))
        return HTTP_NOT_FOUND;
    if (r->method_number != M_POST) {
        ap_allow_standard_methods(r, REPLACE_ALLOW, M_POST, -1);
        return HTTP_METHOD_NOT_ALLOWED;
    }
    form.body.ptr = body_of(r, &len);
    form.body.len = len;
    if (!form.body.ptr)
        return HTTP_REQUEST_ENTITY_TOO_LARGE;
    return answer(r, nap_the_core->pages.control(&form, said, back), said, back);
}

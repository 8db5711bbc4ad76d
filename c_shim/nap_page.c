/* nap_page.c: the ticket page's way through httpd, and the handlers.
 *
 * A refusal is answered with the page at once. In later requests of a chain, or where `Satisfy Any`
 * would go on asking, it redirects internally to NapTicketPath. `ProxyPass /` or `RewriteRule ^` would
 * take that request, or it would be asked for a password. So the page is sent before them, in
 * translate_name. Requested directly it shows the visitor's own ticket in the same way, if the site's
 * authorization lets them: a hook for each of httpd's steps would cost every other request.
 */
#include <mod_status.h>

#include "mod_nap.h"

/* The default of NapTicketPath until 2026. Pages that browsers still show ask there, and front ends may
 * still have rules for it. */
#define TICKET_PATH_BEFORE "/.nap/ticket"

static ap_filter_rec_t *cache_filter;

/* ---- The way there ---------------------------------------------------------------------------- */

static int init(ap_filter_t *filters)
{
    int status = OK;

    for (ap_filter_t *f = filters; f && status == OK; f = f->next)
        if (f->frec->filter_init_func)
            status = f->frec->filter_init_func(f);
    return status;
}

/* Does what ap_invoke_handler() does before it calls a handler: inserts filters and initializes them.
 * mod_filter's (AddOutputFilterByType) have no context before that. */
static int insert_filters(request_rec *r)
{
    int status;

    ap_run_insert_filter(r);
    status = init(r->input_filters);
    return status == OK ? init(r->output_filters) : status;
}

/* The access whose refusal led to r, or NULL. */
static nap_handle *refused(request_rec *r)
{
    nap_handle *h = r->prev ? nap_handle_at(nap_first(r)) : NULL;

    return h && h->refused ? h : NULL;
}

/* ---- Handlers ---------------------------------------------------------------------------------- */

static int send_page(request_rec *r, apr_bucket_brigade *bb)
{
    APR_BRIGADE_INSERT_TAIL(bb, apr_bucket_eos_create(r->connection->bucket_alloc));
    ap_pass_brigade(r->output_filters, bb);
    return OK;
}

/* Collects the core's answer to r. */
static apr_bucket_brigade *collect(request_rec *r)
{
    nap_handle *h = nap_handle_make(r);

    h->body = apr_brigade_create(r->pool, r->connection->bucket_alloc);
    r->no_cache = 1;          /* mod_cache obeys this even where it may store no-store */
    r->no_local_copy = 1;
    return h->body;
}

int nap_page_show(request_rec *r, nap_wanted *wanted)
{
    apr_bucket_brigade *bb = collect(r);
    nap_request q;

    nap_request_fill(&q, nap_handle_make(nap_first(r)), r);
    wanted->query = nap_str_of(r->args);
    nap_the_core->pages.page(wanted, &q);
    return send_page(r, bb);
}

/* A file that the page uses; its text lives as long as the module is loaded. */
static int asset(request_rec *r, const char *name)
{
    apr_bucket_alloc_t *list = r->connection->bucket_alloc;
    apr_bucket_brigade *bb = apr_brigade_create(r->pool, list);
    nap_str body;

    if (r->method_number != M_GET)
        return HTTP_METHOD_NOT_ALLOWED;
    if (!nap_the_core->pages.asset(r, nap_str_of(name), nap_str_of(r->args), &body))
        return HTTP_NOT_FOUND;
    ap_set_content_length(r, body.len);
    APR_BRIGADE_INSERT_TAIL(bb, apr_bucket_immortal_create(body.ptr, body.len, list));
    return send_page(r, bb);
}

/* Runs after the site's mod_headers rules, which may change other headers. But if this page were cached,
 * others would see this ticket. */
static apr_status_t set_cache(ap_filter_t *f, apr_bucket_brigade *bb)
{
    request_rec *r = f->r;

    apr_table_unset(r->headers_out, "Cache-Control");
    apr_table_unset(r->headers_out, "Expires");
    apr_table_unset(r->err_headers_out, "Expires");
    apr_table_setn(r->err_headers_out, "Cache-Control", f->ctx);
    ap_remove_output_filter(f);
    return ap_pass_brigade(f->next, bb);
}

static void keep_cache(request_rec *r)
{
    const char *value = apr_table_get(r->err_headers_out, "Cache-Control");

    if (!value)
        value = apr_table_get(r->headers_out, "Cache-Control");
    for (const ap_filter_t *f = r->output_filters; f && value; f = f->next) {
        if (!strncmp(f->frec->name, "fixup_headers_", 14) || !strcmp(f->frec->name, "mod_expires")) {
            ap_add_output_filter_handle(cache_filter, (void *)value, r, r->connection);
            return;
        }
    }
}

/* Answers r with the page of the refused access h, which q describes to the core. */
static int page_of(request_rec *r, nap_handle *h, nap_request *q)
{
    apr_bucket_brigade *bb = collect(r);
    nap_wanted wanted = { .kind = NAP_PAGE_TICKET, .access = h ? &h->access : NULL };
    int status;

    if (h) {
        nap_form_read(q, h, r);
        /* a redirect shares these headers with the refused request */
        q->issued = nap_str_of(apr_table_get(r->err_headers_out, "Nap-Ticket"));
    }
    status = nap_the_core->pages.page(&wanted, q);
    r->status = ap_is_HTTP_VALID_RESPONSE(status) ? status : HTTP_SERVICE_UNAVAILABLE;
    r->status_line = NULL;
    keep_cache(r);
    if (r->status == HTTP_OK)           /* a requested range does not apply to the page */
        ap_remove_output_filter_byhandle(r->output_filters, "byterange");
    return send_page(r, bb);
}

static int status_page(request_rec *r)
{
    conn_rec *c = r->connection;
    apr_bucket_brigade *bb;
    apr_time_t took;
    apr_int64_t again;
    nap_request q;

    if (r->method_number != M_GET)
        return HTTP_METHOD_NOT_ALLOWED;
    bb = collect(r);
    nap_request_fill(&q, nap_handle_make(nap_first(r)), r);
    took = apr_time_now() - nap_first(r)->request_time;
    again = nap_the_core->pages.status(&q, took > 0 ? (apr_uint64_t)took : 0);
    /* it would time out before they ask again, holding a process or thread meanwhile */
    if (!c->master && again > r->server->keep_alive_timeout)
        c->keepalive = AP_CONN_CLOSE;
    return send_page(r, bb);
}

/* nap-ticket: after a refusal its page, otherwise the visitor's own ticket. */
static int ticket_page(request_rec *r)
{
    const nap_handle *own = nap_handle_at(r);
    nap_handle *h = refused(r);
    nap_request q;

    if (own && own->asset && !strcmp(own->asset, "status"))
        return status_page(r);
    if (own && own->asset)
        return strcmp(own->asset, nap_bwshare_page_name) ? asset(r, own->asset)
                                                         : nap_bwshare_page(r);
    if (!h && r->prev && r->prev->status != HTTP_OK)
        return r->prev->status;               /* somebody else's error: not ours to explain */
    if (!h && r->method_number != M_GET)
        return HTTP_METHOD_NOT_ALLOWED;
    nap_request_fill(&q, h ? h : nap_handle_make(nap_first(r)), r);
    return page_of(r, h, &q);
}

/* `Header always` of the place where a visitor was refused (CORS, HSTS, frame rules) holds for the refusal
 * too, as for httpd's own errors there: mod_headers reads it from the request when its answer passes. 1: the
 * place has settings of its own. */
static int take_headers(request_rec *r, ap_conf_vector_t *place)
{
    module *headers = nap_the_site->headers;
    ap_conf_vector_t *both;
    void *theirs;

    if (!headers)
        return 0;
    theirs = ap_get_module_config(place, headers);
    if (!theirs || theirs == ap_get_module_config(r->per_dir_config, headers) ||
        theirs == ap_get_module_config(r->server->lookup_defaults, headers))
        return 0;
    /* merged with nothing: a copy with the same pointers */
    both = ap_merge_per_dir_configs(r->pool, r->per_dir_config, ap_create_per_dir_config(r->pool));
    ap_set_module_config(both, headers, theirs);
    r->per_dir_config = both;
    return 1;
}

/* Inserts filters for the page of a refusal that was made at `place`. Lines without `always` are for the
 * application's answers: their types, names and tags do not suit the page. */
static int insert_theirs(request_rec *r, ap_conf_vector_t *place)
{
    int taken = take_headers(r, place), status = insert_filters(r);

    if (taken && status == OK) {
        ap_remove_output_filter_byhandle(r->output_filters, "fixup_headers_out");
        ap_add_output_filter("FIXUP_HEADERS_ERR", NULL, r, r->connection);
    }
    return status;
}

/* Answers the refused request r without an internal redirect, which would cost 5,000 instructions. As in
 * one, what was found out for r's URL is dropped, and the settings of the page's URL apply. */
int nap_page_refuse(request_rec *r, nap_handle *h, nap_request *q)
{
    char *uri = r->uri;
    ap_conf_vector_t *dir = r->per_dir_config;
    int proxied = r->proxyreq, status;

    r->proxyreq = PROXYREQ_NONE;                    /* the answer is ours, and mod_proxy_html checks this */
    r->uri = (char *)nap_the_site->ticket_path;
    r->per_dir_config = r->server->lookup_defaults;
    r->output_filters = r->proto_output_filters;
    apr_table_clear(r->headers_out);
    r->content_type = r->content_encoding = NULL;
    r->content_languages = NULL;
    r->connection->keepalive = AP_CONN_CLOSE;       /* as after any other 503 */
    status = ap_location_walk(r);
    if (status == OK)
        status = ap_if_walk(r);
    if (status == OK) {
        r->handler = "nap-ticket";
        status = insert_theirs(r, dir);
    }
    if (status == OK) {
        page_of(r, h, q);
        status = DONE;
    }
    r->uri = uri;                                   /* for the log */
    r->per_dir_config = dir;
    r->proxyreq = proxied;
    return status;
}

/* If no module gives an answer, nobody can tell who asks: an error. */
static int decided(request_rec *r, int status)
{
    if (status != DECLINED)
        return status;
    ap_log_rerror(APLOG_MARK, APLOG_ERR, 0, r, "mod_nap: no module authorizes requests for %s", r->uri);
    return HTTP_INTERNAL_SERVER_ERROR;
}

/* Asks httpd's own authorization hooks in their order (ap_process_request_internal), and no others. */
static int authorize(request_rec *r)
{
    int any = ap_satisfies(r) == SATISFY_ANY, status;

    /* some modules want a name; there is no such file */
    r->filename = apr_pstrcat(r->pool, ap_document_root(r), r->uri, NULL);
    status = ap_run_header_parser(r);
    if (status != OK)
        return status;
    status = ap_run_access_checker(r);
    if ((status == OK) == any)
        return decided(r, status);
    status = ap_run_access_checker_ex(r);
    if (status != DECLINED && (status != OK || ap_run_force_authn(r) != OK))
        return status;
    status = ap_run_check_user_id(r);
    if (status == OK)
        status = r->user ? ap_run_auth_checker(r) : DECLINED;
    return decided(r, status);
}

/* httpd has applied <Location> and <If> already. */
static int answer(request_rec *r, int authorized)
{
    const nap_handle *h = refused(r);
    int status = authorized ? OK : authorize(r);

    if (status != OK)
        return status;
    r->handler = "nap-ticket";
    status = h ? insert_theirs(r, h->refused->per_dir_config) : insert_filters(r);
    if (status != OK)
        return status;
    status = ticket_page(r);
    return status == OK ? DONE : status;
}

/* The page itself, or a file below it: its style and script. A refused visitor has passed the site's
 * authorization (or, with NapAdmit early, has not come to it): the page shows nothing but their ticket.
 * Style and script are the same for everybody. */
static NAP_SELDOM int claim(request_rec *r, const char *path)
{
    size_t len = strlen(path);
    nap_handle *h;

    if (strncmp(r->uri, path, len) || (r->uri[len] && r->uri[len] != '/') || r->main ||
        !nap_the_core)
        return DECLINED;
    h = nap_handle_make(r);
    h->page = 1;
    h->asset = r->uri[len] ? r->uri + len + 1 : NULL;
    if (h->asset && !strcmp(h->asset, "status"))
        nap_bwshare_access(r);          /* a poll is charged as elsewhere, and never refused */
    return answer(r, h->asset || refused(r));
}

static int is_ours(const char *handler)
{
    return (handler[0] == 'n' && !strncmp(handler, "nap-", 4)) ||
           (handler[0] == 'b' && !strncmp(handler, "bwshare-", 8));
}

static NAP_SELDOM int answer_ours(request_rec *r)
{
    int status = insert_filters(r);

    if (status == OK)
        status = nap_page_handler(r);
    return status == OK ? DONE : status == DECLINED ? HTTP_NOT_FOUND : status;
}

/* A fixup after SetHandler. A request for one of our handlers that has passed authorization is answered here.
 * Later a front controller's rules or a Redirect in .htaccess (no such file: index.php) would take it away,
 * or it would enter a room. A proxied request is the backend's. */
int nap_page_fixup(request_rec *r)
{
    if (!r->handler || r->proxyreq || !is_ours(r->handler) || r->main || !nap_the_core)
        return DECLINED;
    return answer_ours(r);
}

int nap_page_translate(request_rec *r)
{
    const char *uri = r->uri, *path = nap_the_site->ticket_path;

    /* most paths differ in the first character after the "/" */
    if (!uri || uri[0] != '/' || (uri[1] != path[1] && uri[1] != TICKET_PATH_BEFORE[1]))
        return DECLINED;
    if (uri[1] == TICKET_PATH_BEFORE[1] && !nap_the_site->view.ticket_path[0])
        path = TICKET_PATH_BEFORE;
    return claim(r, path);
}

int nap_server_status(request_rec *r, int flags)
{
    nap_wanted wanted = { .kind = NAP_PAGE_STATUS, .lines = (flags & AP_STATUS_SHORT) != 0 };
    nap_request q = { .r = r };
    apr_bucket_brigade *bb;
    char *text;
    apr_size_t len;

    if (!nap_the_core)
        return OK;
    bb = collect(r);
    nap_the_core->pages.page(&wanted, &q);
    if (!apr_brigade_pflatten(bb, &text, &len, r->pool))
        ap_rwrite(text, (int)len, r);
    return OK;
}

/* A form sent from nap-preview's page comes back there, and is ignored. */
static int page_for_administrator(request_rec *r, nap_page_kind kind)
{
    nap_wanted wanted = { .kind = kind, .control = nap_str_of(nap_the_site->control_path),
                          .own = nap_str_of(r->uri) };

    if (r->method_number != M_GET && (kind != NAP_PAGE_PREVIEW || r->method_number != M_POST))
        return HTTP_METHOD_NOT_ALLOWED;
    return nap_page_show(r, &wanted);
}

static NAP_SELDOM int own_handler(request_rec *r)
{
    if (strncmp(r->handler, "nap-", 4))
        return DECLINED;
    if (!nap_the_core)
        return HTTP_NOT_FOUND;
    if (!strcmp(r->handler, "nap-ticket"))
        return ticket_page(r);
    if (!strcmp(r->handler, "nap-status"))
        return status_page(r);
    if (!strcmp(r->handler, "nap-info"))
        return page_for_administrator(r, NAP_PAGE_INFO);
    if (!strcmp(r->handler, "nap-metrics"))
        return page_for_administrator(r, NAP_PAGE_METRICS);
    if (!strcmp(r->handler, "nap-control"))
        return nap_control_handler(r);
    if (!strcmp(r->handler, "nap-preview"))
        return page_for_administrator(r, NAP_PAGE_PREVIEW);
    return DECLINED;
}

void nap_page_register(void)
{
    /* after mod_headers, before the filter that sends the headers */
    cache_filter = ap_register_output_filter("NAP-CACHE", set_cache, NULL, AP_FTYPE_PROTOCOL - 1);
}

/* Before mod_rewrite's handler, which redirects. */
int nap_page_handler(request_rec *r)
{
    switch (r->handler ? r->handler[0] : 0) {
    case 'n':
        return own_handler(r);
    case 'b':
        return nap_bwshare_handler(r);
    case 'r':
        return nap_park_handler(r);
    }
    return DECLINED;
}

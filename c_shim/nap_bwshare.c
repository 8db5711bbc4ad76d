/* nap_bwshare.c: mod_bwshare: per-client debts in files and bytes.
 *
 * A client's first request of a chain is charged one file in access_checker, before a costly login,
 * and refused there if he owes too much. Bytes are counted behind the content filters, headers
 * included: an answer of known length is charged when its headers pass and corrected when the
 * request's pool goes, others brigade by brigade, so that parallel downloads cannot slip through.
 * A brigade may hold a whole download of which nothing has been sent yet: marks between its pieces
 * tell how far it came.
 *
 * The hooks are registered while the configuration is read, by the first `BwShare On`: a site that
 * does not use this pays nothing.
 */
#include <mod_core.h>
#include <util_filter.h>

#include "mod_nap.h"

enum { BW_OFF = 0, BW_ON = 1, BW_DRY_RUN = 2 };

/* Behind NapTicketPath: where a refusal's page lies. */
const char nap_bwshare_page_name[] = "slow-down";

/* Limits of the server or of a virtual host. */
typedef struct limits {
    nap_bw_conf conf;
    uint32_t index;                 /* NAP_NONE: not known to the core */
    const ap_directive_t *where;    /* the last that set any */
} limits;

/* Per directory. Unset: NULL or NAP_UNSET. */
typedef struct nap_bwshare {
    int engine;
    int status;
    apr_array_header_t *exempt;     /* of const ap_expr_info_t * */
    limits *limits;
} nap_bwshare;

/* What an answer's marks say; lives with the connection: the last of them may go after the request. */
typedef struct progress {
    const conn_rec *c;
    int64_t sent;                   /* up to the last mark that went on while the client was there */
} progress;

/* A request's answer as it passes. */
typedef struct charge {
    nap_visit visit;
    int64_t charged;
    int64_t passed;                 /* behind us, sent or not */
    int64_t marked;                 /* of it, what has marks */
    progress *progress;             /* NULL: nothing has */
    unsigned begun : 1;
    unsigned known : 1;             /* all of it has been charged at its start */
} charge;

static limits server_limits;        /* where nobody sets any */
static int used;                    /* a BwShare On or DryRun was read */
static int works;                   /* there are tables to write to */
static ap_filter_rec_t *count_filter;

static void hook_in(void);

/* ---- Settings --------------------------------------------------------------------------------- */

/* Once per reading of the configuration. */
void nap_bwshare_begin(void)
{
    used = works = 0;
    if (nap_the_core)
        nap_the_core->conf_bw_init(&server_limits.conf);
    server_limits.index = NAP_NONE;
}

int nap_bwshare_used(void)
{
    return used;
}

static nap_bwshare *settings(cmd_parms *cmd, void *conf)
{
    nap_dir *dir = nap_dir_set(cmd, conf);

    if (!dir->bwshare) {
        dir->bwshare = apr_pcalloc(cmd->pool, sizeof *dir->bwshare);
        dir->bwshare->engine = dir->bwshare->status = NAP_UNSET;
    }
    return dir->bwshare;
}

/* A virtual host's limits over the server's; within a request only one of the two has any. */
static limits *limits_merge(apr_pool_t *p, limits *b, limits *a)
{
    limits *both;

    if (!a || !b || a == b)
        return a ? a : b;
    both = apr_pmemdup(p, a, sizeof *a);
    nap_the_core->conf_bw_over(&both->conf, &b->conf);
    return both;
}

nap_bwshare *nap_bwshare_merge(apr_pool_t *p, nap_bwshare *b, nap_bwshare *a)
{
    nap_bwshare *both;

    if (!a || !b)
        return a ? a : b;
    both = apr_pmemdup(p, a, sizeof *a);
    if (both->engine == NAP_UNSET)
        both->engine = b->engine;
    if (both->status == NAP_UNSET)
        both->status = b->status;
    if (!both->exempt)
        both->exempt = b->exempt;
    else if (b->exempt)
        both->exempt = apr_array_append(p, b->exempt, a->exempt);
    both->limits = nap_the_core ? limits_merge(p, b->limits, a->limits) : a->limits;
    return both;
}

const char *nap_bwshare_set(cmd_parms *cmd, void *dir, int argc, char *const argv[])
{
    nap_bw_directive which = (nap_bw_directive)(intptr_t)cmd->info;
    char *why = apr_pcalloc(cmd->pool, NAP_ERR_MAX);
    nap_str *words = apr_palloc(cmd->pool, (argc + 1) * sizeof *words);
    nap_bwshare *own;
    nap_bw_conf status, *conf = &status;

    if (!nap_the_core)
        return NULL;
    own = settings(cmd, dir);
    if (which == NAP_BW_STATUS) {
        nap_the_core->conf_bw_init(conf);
    }
    else {
        if (!own->limits) {
            own->limits = apr_pcalloc(cmd->pool, sizeof *own->limits);
            nap_the_core->conf_bw_init(&own->limits->conf);
            own->limits->index = NAP_NONE;
        }
        conf = &own->limits->conf;
        own->limits->where = cmd->directive;
    }
    for (int i = 0; i < argc; i++)
        words[i] = nap_str_of(argv[i]);
    if (nap_the_core->conf_bw(conf, which, words, argc, why))
        return why;
    if (which == NAP_BW_STATUS)
        own->status = (int)status.status;
    return NULL;
}

static void engine_set(cmd_parms *cmd, nap_dir *dir, int engine)
{
    settings(cmd, dir)->engine = engine;
    if (engine != BW_OFF && !used) {
        used = 1;
        hook_in();
    }
}

const char *nap_bwshare_engine(cmd_parms *cmd, void *dir, const char *arg)
{
    if (!strcasecmp(arg, "on"))
        engine_set(cmd, dir, BW_ON);
    else if (!strcasecmp(arg, "off"))
        engine_set(cmd, dir, BW_OFF);
    else if (!strcasecmp(arg, "dryrun"))
        engine_set(cmd, dir, BW_DRY_RUN);
    else
        return apr_psprintf(cmd->pool, "BwShare: \"%.60s\" is not known; use On, Off or DryRun", arg);
    return NULL;
}

const char *nap_bwshare_off(cmd_parms *cmd, void *dir, int argc, char *const argv[])
{
    int on = argc == 1 && (!strcmp(argv[0], "0") || !strcasecmp(argv[0], "off"));

    if (argc > 1 || (argc == 1 && !on && strcmp(argv[0], "1") && strcasecmp(argv[0], "on")))
        return "BW_throttle_off: wants nothing, or 1 or 0";
    engine_set(cmd, dir, on ? BW_ON : BW_OFF);
    return NULL;
}

const char *nap_bwshare_exempt(cmd_parms *cmd, void *dir, const char *arg)
{
    nap_bwshare *own = settings(cmd, dir);
    const char *err = NULL;
    const ap_expr_info_t *expr = ap_expr_parse_cmd(cmd, arg, 0, &err, NULL);

    if (err)
        return apr_psprintf(cmd->pool, "BwShareExempt: \"%.60s\" is not an expression: %s", arg,
                            err);
    if (!own->exempt)
        own->exempt = apr_array_make(cmd->pool, 2, sizeof expr);
    APR_ARRAY_PUSH(own->exempt, const ap_expr_info_t *) = expr;
    return NULL;
}

/* ---- check_config ------------------------------------------------------------------------------ */

/* Merged: a maximum and its rate may have been set in different places. */
int nap_bwshare_check(server_rec *s, apr_pool_t *p)
{
    char *err = apr_pcalloc(p, NAP_ERR_MAX);
    int rc = OK;

    for (server_rec *host = s; host; host = host->next) {
        const nap_dir *dir = ap_get_module_config(host->lookup_defaults, &nap_module);
        const limits *own = dir && dir->bwshare ? dir->bwshare->limits : NULL;

        if (own && nap_the_core->conf_bw_check(&own->conf, err))
            rc = nap_complain(host, p, own->where, err);
    }
    return rc;
}

/* ---- The parent at start ---------------------------------------------------------------------- */

/* Limits have an index before anybody is charged by them. */
void nap_bwshare_start(server_rec *s)
{
    nap_dir *main_dir = ap_get_module_config(s->lookup_defaults, &nap_module);

    if (!used)
        return;
    /* where the main server has some, its virtual hosts have them too */
    if (!main_dir || !main_dir->bwshare || !main_dir->bwshare->limits)
        server_limits.index = nap_the_core->bw_limits(&server_limits.conf, nap_str_of(""));
    for (server_rec *host = s; host; host = host->next) {
        nap_dir *dir = ap_get_module_config(host->lookup_defaults, &nap_module);
        limits *own = dir && dir->bwshare ? dir->bwshare->limits : NULL;

        if (own && own->index == NAP_NONE)
            own->index = nap_the_core->bw_limits(&own->conf, nap_str_of(
                host == s ? "" : apr_psprintf(s->process->pconf, "%s:%d", host->server_hostname,
                                              (int)(host->addrs ? host->addrs->host_port : 0))));
    }
    works = nap_the_core->bw_start();
}

/* ---- A request -------------------------------------------------------------------------------- */

static NAP_SELDOM int is_exempt(request_rec *r, const nap_bwshare *own)
{
    for (int i = 0; i < own->exempt->nelts; i++) {
        const char *err = NULL;

        if (ap_expr_exec(r, APR_ARRAY_IDX(own->exempt, i, const ap_expr_info_t *), &err) > 0)
            return 1;
        if (err)
            ap_log_rerror(APLOG_MARK, APLOG_DEBUG, 0, r, "BwShareExempt: %s", err);
    }
    return 0;
}

static void address(uint8_t out[16], const apr_sockaddr_t *a)
{
    memset(out, 0, 16);
    if (a && a->family == APR_INET) {
        memset(out + 10, 0xff, 2);
        memcpy(out + 12, &a->sa.sin.sin_addr, 4);
    }
#if APR_HAVE_IPV6
    else if (a && a->family == APR_INET6) {
        memcpy(out, &a->sa.sin6.sin6_addr, 16);
    }
#endif
}

/* The request is over: an answer that was cut short was not as long as was thought. */
static apr_status_t settle(void *data)
{
    charge *c = data;
    int64_t sent = c->passed;

    if (c->progress)
        sent += c->progress->sent - c->marked;
    if (sent != c->charged)
        nap_the_core->bw_bytes(&c->visit, sent - c->charged);
    return APR_SUCCESS;
}

/* ---- Marks between the pieces of a long brigade ---- */

enum {
    PIECE = 256 * 1024,             /* at least this between two marks */
    MARKS = 64                      /* at most, in a brigade: each costs some 300 bytes */
};

typedef struct mark {
    progress *of;
    int64_t length;                 /* of what lies before it */
} mark;

/* httpd is done with all that lies before: sent, or given up with the connection. */
static void mark_passed(void *data)
{
    mark *m = data;

    if (!m->of->c->aborted)
        m->of->sent += m->length;
    apr_bucket_free(m);
}

static apr_status_t mark_read(apr_bucket *b, const char **str, apr_size_t *len,
                              apr_read_type_e block)
{
    (void)b, (void)block;
    *str = NULL;
    *len = 0;
    return APR_SUCCESS;
}

static const apr_bucket_type_t mark_type = {
    "BWSHARE", 5, APR_BUCKET_METADATA, mark_passed, mark_read, apr_bucket_setaside_noop,
    apr_bucket_split_notimpl, apr_bucket_copy_notimpl
};

static void mark_behind(apr_bucket *last, progress *of, int64_t length)
{
    apr_bucket *b = apr_bucket_alloc(sizeof *b, last->list);
    mark *m = apr_bucket_alloc(sizeof *m, last->list);

    m->of = of;
    m->length = length;
    APR_BUCKET_INIT(b);
    b->free = apr_bucket_free;
    b->list = last->list;
    b->type = &mark_type;
    b->length = 0;
    b->start = 0;
    b->data = m;
    APR_BUCKET_INSERT_AFTER(last, b);
}

/* HTTP/2 carries its buckets to another connection and leaves such ones behind. */
static NAP_SELDOM void mark_pieces(charge *c, conn_rec *conn, apr_bucket_brigade *bb,
                                   int64_t length)
{
    int64_t piece = 0, most = length / MARKS > PIECE ? length / MARKS : PIECE;

    if (conn->master)
        return;
    if (!c->progress) {
        c->progress = apr_pcalloc(conn->pool, sizeof *c->progress);
        c->progress->c = conn;
    }
    for (apr_bucket *b = APR_BRIGADE_FIRST(bb); b != APR_BRIGADE_SENTINEL(bb);
         b = APR_BUCKET_NEXT(b)) {
        if (b->length == (apr_size_t)-1 || b->length == 0)
            continue;
        if (b->length > (apr_size_t)(most - piece))
            apr_bucket_split(b, most - piece);     /* where it cannot be, it goes whole */
        piece += b->length;
        if (piece < most)
            continue;
        mark_behind(b, c->progress, piece);
        c->marked += piece;
        piece = 0;
        b = APR_BUCKET_NEXT(b);
    }
}

/* HTTP/2 packs the headers behind us: what they would be without that. */
static int table_size(void *sum, const char *key, const char *value)
{
    *(int64_t *)sum += strlen(key) + strlen(value) + 4;
    return 1;
}

static NAP_SELDOM void count_headers(charge *c, const request_rec *r)
{
    apr_table_do(table_size, &c->passed, r->headers_out, NULL);
    apr_table_do(table_size, &c->passed, r->err_headers_out, NULL);
}

/* The length of all that will be sent, behind what has been; -1: not known. */
static apr_off_t length_known(request_rec *r)
{
    const char *length = apr_table_get(r->headers_out, "Content-Length");
    apr_off_t n = 0;

    if (!length || !*length || r->header_only || r->status == HTTP_NOT_MODIFIED)
        return -1;
    for (; *length >= '0' && *length <= '9'; length++) {
        if (n > INT64_MAX / 100)
            return -1;
        n = n * 10 + (*length - '0');
    }
    return *length ? -1 : n;
}

/* Behind the content filters and the headers, in front of chunking and TLS. */
static apr_status_t count(ap_filter_t *f, apr_bucket_brigade *bb)
{
    charge *c = f->ctx;
    int first = !c->begun;
    int64_t headers = 0, before;
    apr_off_t left;

    if (first) {
        c->begun = 1;
        if (f->r->connection->master)
            count_headers(c, f->r);
        headers = c->passed;
    }
    before = c->passed;
    for (apr_bucket *b = APR_BRIGADE_FIRST(bb); b != APR_BRIGADE_SENTINEL(bb);
         b = APR_BUCKET_NEXT(b))
        if (b->length != (apr_size_t)-1)
            c->passed += b->length;
    if (c->passed - before > PIECE)
        mark_pieces(c, f->r->connection, bb, c->passed - before);
    if (first && (left = length_known(f->r)) >= 0) {
        /* over HTTP/1 the headers come by themselves */
        c->known = 1;
        c->charged = (headers ? headers : c->passed) + left;
        nap_the_core->bw_bytes(&c->visit, c->charged);
    }
    else if (!c->known && c->passed > c->charged) {
        nap_the_core->bw_bytes(&c->visit, c->passed - c->charged);
        c->charged = c->passed;
    }
    return ap_pass_brigade(f->next, bb);
}

/* Waiting is told by Retry-After and by a page, unless the site has an ErrorDocument of its own. */
static NAP_SELDOM int refuse(request_rec *r, const nap_bwshare *own, charge *c)
{
    nap_handle *h = nap_handle_make(r);
    nap_request q;
    int status;

    c->visit.status = own->status == NAP_UNSET ? HTTP_TOO_MANY_REQUESTS : own->status;
    status = c->visit.status == HTTP_OK ? HTTP_TOO_MANY_REQUESTS : (int)c->visit.status;
    h->bwshare = &c->visit;
    nap_request_fill(&q, h, r);
    nap_the_core->bw_refusal(&c->visit, &q);
    if (!ap_response_code_string(r, ap_index_of_response(status)))
        ap_custom_response(r, status, apr_pstrcat(r->pool, nap_the_site->ticket_path, "/",
                                                  nap_bwshare_page_name, NULL));
    return status;
}

/* Refused, but perhaps not to be: a ticket in its prime window, DryRun. */
static NAP_SELDOM int may_pass(request_rec *r, charge *c)
{
    nap_str why = nap_the_core->bw_debt_name(&c->visit);
    const nap_room *room = nap_dir_of(r)->room;
    nap_request q;

    apr_table_setn(r->notes, "bwshare", apr_pstrmemdup(r->pool, why.ptr, why.len));
    if (c->visit.flags & NAP_BW_DRY)
        return 1;
    nap_request_fill(&q, nap_handle_make(r), r);
    return nap_the_core->bw_excuse(&c->visit, &q, room && room->index >= 0
                                   ? (uint32_t)room->index : NAP_NONE);
}

/* access_checker: of a chain of redirects the first request only. */
static int bwshare_access(request_rec *r)
{
    const nap_bwshare *own = nap_dir_of(r)->bwshare;
    const nap_handle *h;
    const limits *by;
    uint8_t client[16];
    charge *c;

    if (!own || own->engine <= BW_OFF || !works || r->main || r->prev)
        return DECLINED;
    by = own->limits ? own->limits : &server_limits;
    if (by->index == NAP_NONE || (own->exempt && is_exempt(r, own)))
        return DECLINED;
    h = nap_handle_at(r);
    c = apr_pcalloc(r->pool, sizeof *c);
    c->visit.limits = by->index;
    c->visit.flags = (own->engine == BW_DRY_RUN ? NAP_BW_DRY : 0) |
                     (h && h->page ? NAP_BW_EXCUSED : 0);
    address(client, r->useragent_addr);
    if (nap_the_core->bw_enter(&c->visit, client) && !may_pass(r, c))
        return refuse(r, own, c);
    if (c->visit.key) {
        ap_add_output_filter_handle(count_filter, c, r, r->connection);
        apr_pool_cleanup_register(r->pool, c, settle, apr_pool_cleanup_null);
    }
    return DECLINED;
}

/* Fixups: `Satisfy Any` thought nothing of a refusal. */
static int bwshare_late(request_rec *r)
{
    const nap_handle *h = nap_handle_at(r);

    if (!h || !h->bwshare || r->prev)
        return DECLINED;
    return h->bwshare->status == HTTP_OK ? HTTP_TOO_MANY_REQUESTS : (int)h->bwshare->status;
}

static void hook_in(void)
{
    ap_hook_fixups(bwshare_late, NULL, NULL, APR_HOOK_REALLY_FIRST);
    ap_hook_check_access(bwshare_access, NULL, NULL, APR_HOOK_REALLY_FIRST,
                         AP_AUTH_INTERNAL_PER_CONF);
    count_filter = ap_register_output_filter("BWSHARE", count, NULL, AP_FTYPE_PROTOCOL + 5);
}

/* ---- Handlers --------------------------------------------------------------------------------- */

/* The page of a refusal; asked for directly there is nothing to see. */
int nap_bwshare_page(request_rec *r)
{
    const nap_handle *h = r->prev ? nap_handle_at(nap_first(r)) : NULL;
    apr_bucket_brigade *bb;
    nap_request q;

    if (!h || !h->bwshare)
        return r->prev && r->prev->status != HTTP_OK ? r->prev->status : HTTP_NOT_FOUND;
    bb = nap_page_open(r);
    nap_request_fill(&q, (nap_handle *)h, r);
    nap_the_core->bw_page(h->bwshare, &q);
    r->status = (int)h->bwshare->status;
    r->status_line = NULL;
    return nap_page_answer(r, bb);
}

static NAP_SELDOM int statistics(request_rec *r, int trace)
{
    apr_bucket_brigade *bb;
    nap_request q;

    if (!nap_the_core || !works)
        return HTTP_NOT_FOUND;
    if (r->method_number != M_GET)
        return HTTP_METHOD_NOT_ALLOWED;
    bb = nap_page_open(r);
    nap_request_fill(&q, nap_handle_make(nap_first(r)), r);
    nap_the_core->bw_info(&q, trace, nap_str_of(r->args));
    return nap_page_answer(r, bb);
}

/* What the visitor himself owes by the limits that hold here. */
static NAP_SELDOM int mine(request_rec *r)
{
    const nap_bwshare *own = nap_dir_of(r)->bwshare;
    const limits *by = own && own->limits ? own->limits : &server_limits;
    apr_bucket_brigade *bb;
    nap_request q;

    if (!nap_the_core || !works || by->index == NAP_NONE)
        return HTTP_NOT_FOUND;
    if (r->method_number != M_GET)
        return HTTP_METHOD_NOT_ALLOWED;
    bb = nap_page_open(r);
    nap_request_fill(&q, nap_handle_make(nap_first(r)), r);
    nap_the_core->bw_mine(&q, by->index, nap_str_of(r->args));
    return nap_page_answer(r, bb);
}

/* bwshare-info, bwshare-trace and bwshare-mine, with either spelling. */
int nap_bwshare_handler(request_rec *r)
{
    const char *name = r->handler;

    if (strncmp(name, "bwshare", 7) || (name[7] != '-' && name[7] != '_'))
        return DECLINED;
    if (!strcmp(name + 8, "info"))
        return statistics(r, 0);
    if (!strcmp(name + 8, "mine"))
        return mine(r);
    return strcmp(name + 8, "trace") ? DECLINED : statistics(r, 1);
}

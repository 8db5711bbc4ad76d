/* nap_bwshare.c: mod_bwshare: per-client debts in files and bytes.
 *
 * A client's first request of a chain is charged one file in access_checker, before a costly login,
 * and refused there if the client owes too much. The bytes of its answer are charged as they pass
 * (nap_bytes.c).
 *
 * Settings of the server or a virtual host are kept apart from a directory's: merged into it, they
 * would be merged anew with every request.
 */
#include <mod_core.h>

#include "mod_nap.h"

/* The path of a refusal's page, below NapTicketPath. */
const char nap_bwshare_page_name[] = "slow-down";

/* Limits of the server or of a virtual host. */
typedef struct limits {
    nap_conf *conf;
    uint32_t index;                 /* NAP_NONE: not known to the core */
    const ap_directive_t *where;    /* the last that set any */
} limits;

/* Of the server, a virtual host or a directory. Unset: NULL or NAP_UNSET. */
typedef struct nap_bwshare {
    int engine;
    int status;
    apr_array_header_t *exempt;     /* of const ap_expr_info_t * */
    limits *limits;                 /* a directory has none */
} nap_bwshare;

static limits server_limits;        /* where none are set */
static int works;                   /* there are tables to write to */

/* ---- Settings --------------------------------------------------------------------------------- */

void nap_bwshare_begin(apr_pool_t *pconf)
{
    works = 0;
    server_limits.conf = nap_conf_make(pconf, NAP_CONF_DEBTS);
    server_limits.index = NAP_NONE;
}

static nap_bwshare *of_server(const server_rec *s)
{
    return ap_get_module_config(s->module_config, &nap_itself);
}

static nap_bwshare *settings(cmd_parms *cmd, void *conf)
{
    nap_bwshare *own = cmd->path ? nap_dir_set(cmd, conf)->bwshare : of_server(cmd->server);

    if (own)
        return own;
    own = apr_pcalloc(cmd->pool, sizeof *own);
    own->engine = own->status = NAP_UNSET;
    if (cmd->path)
        nap_dir_set(cmd, conf)->bwshare = own;
    else
        ap_set_module_config(cmd->server->module_config, &nap_itself, own);
    return own;
}

void *nap_bwshare_merge(apr_pool_t *p, void *base, void *add)
{
    nap_bwshare *both, *b = base, *a = add;

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
    if (!both->limits) {
        both->limits = b->limits;
    }
    else if (nap_the_core && b->limits && b->limits != a->limits) {
        both->limits = apr_pmemdup(p, a->limits, sizeof *a->limits);
        both->limits->conf = nap_conf_merge(p, b->limits->conf, a->limits->conf);
    }
    return both;
}

const char *nap_bwshare_set(cmd_parms *cmd, void *dir, int argc, char *const argv[])
{
    nap_bwshare *own = settings(cmd, dir);

    if (!own->limits) {
        own->limits = apr_pcalloc(cmd->pool, sizeof *own->limits);
        own->limits->conf = nap_conf_make(cmd->pool, NAP_CONF_DEBTS);
        own->limits->index = NAP_NONE;
    }
    own->limits->where = cmd->directive;
    return nap_conf_set(cmd, own->limits->conf, argc, argv);
}

const char *nap_bwshare_set_status(cmd_parms *cmd, void *dir, const char *arg)
{
    return nap_conf_status(cmd, arg, &settings(cmd, dir)->status);
}

static void engine_set(cmd_parms *cmd, nap_dir *dir, int engine)
{
    settings(cmd, dir)->engine = engine;
    if (engine == NAP_ENGINE_OFF || nap_the_site->owes)
        return;
    nap_the_site->owes = 1;
    ap_hook_check_access(nap_bwshare_access, NULL, NULL, APR_HOOK_REALLY_FIRST, AP_AUTH_INTERNAL_PER_CONF);
}

const char *nap_bwshare_engine(cmd_parms *cmd, void *dir, const char *arg)
{
    int engine;
    const char *err = nap_conf_engine(cmd, arg, &engine);

    if (!err)
        engine_set(cmd, dir, engine);
    return err;
}

const char *nap_bwshare_off(cmd_parms *cmd, void *dir, int argc, char *const argv[])
{
    int on = argc == 1 && (!strcmp(argv[0], "0") || !strcasecmp(argv[0], "off"));

    if (argc > 1 || (argc == 1 && !on && strcmp(argv[0], "1") && strcasecmp(argv[0], "on")))
        return "BW_throttle_off: wants nothing, or 1 or 0";
    engine_set(cmd, dir, on ? NAP_ENGINE_ON : NAP_ENGINE_OFF);
    return NULL;
}

const char *nap_bwshare_exempt(cmd_parms *cmd, void *dir, const char *arg)
{
    return nap_expr_add(cmd, arg, &settings(cmd, dir)->exempt);
}

/* check_config. Merged: a maximum and its rate may have been set in different places. */
int nap_bwshare_check(server_rec *s, apr_pool_t *p)
{
    char *err = apr_pcalloc(p, NAP_ERR_MAX);
    int rc = OK;

    for (server_rec *host = s; host; host = host->next) {
        const limits *own = of_server(host) ? of_server(host)->limits : NULL;

        if (own && nap_the_core->conf.finish(own->conf, nap_the_site->conf, err))
            rc = nap_complain(host, p, own->where, "%s", err);
    }
    return rc;
}

/* Identifies debts over restarts: the name alone may belong to another host, at another address. */
static const char *host_name(const server_rec *host, apr_pool_t *p)
{
    return apr_psprintf(p, "%s:%d %s", host->server_hostname,
                        (int)(host->addrs ? host->addrs->host_port : 0),
                        host->addrs && host->addrs->virthost ? host->addrs->virthost : "");
}

/* The parent: gives limits an index, before anybody is charged by them. */
void nap_bwshare_start(server_rec *s)
{
    if (!nap_the_site->owes)
        return;
    /* where the main server has some, its virtual hosts have them too */
    if (!of_server(s) || !of_server(s)->limits)
        server_limits.index = nap_the_core->debts.limits(server_limits.conf, nap_str_of(""));
    for (server_rec *host = s; host; host = host->next) {
        limits *own = of_server(host) ? of_server(host)->limits : NULL;

        if (own && own->index == NAP_NONE)
            own->index = nap_the_core->debts.limits(own->conf, nap_str_of(
                host == s ? "" : host_name(host, s->process->pconf)));
    }
    works = nap_the_core->debts.start();
}

/* ---- A request -------------------------------------------------------------------------------- */

static const limits *limits_of(const nap_bwshare *server)
{
    return server && server->limits ? server->limits : &server_limits;
}

/* Retry-After and a page tell how long to wait, unless the site has an ErrorDocument of its own. */
static NAP_SELDOM int refuse(request_rec *r, nap_handle *h)
{
    nap_visit *v = &h->charge.visit;
    const nap_bwshare *own = nap_dir_of(r)->bwshare;
    const char *wait, *reason;
    nap_request q;
    int status;

    if (!own || own->status == NAP_UNSET)
        own = of_server(r->server);
    v->status = own && own->status != NAP_UNSET ? own->status : HTTP_TOO_MANY_REQUESTS;
    status = nap_bwshare_status(h);
    h->in_debt = 1;
    nap_request_fill(&q, h, r);
    nap_the_core->debts.refusal(v, &q);
    /* for an error page of the site's own, which sees them with REDIRECT_ in front */
    if ((wait = apr_table_get(r->err_headers_out, "Retry-After")))
        apr_table_setn(r->subprocess_env, "NAP_BWSHARE_WAIT", wait);
    if ((reason = apr_table_get(r->notes, "bwshare")))
        apr_table_setn(r->subprocess_env, "NAP_BWSHARE_REASON", reason);
    if (!ap_response_code_string(r, ap_index_of_response(status)))
        ap_custom_response(r, status, apr_pstrcat(r->pool, nap_the_site->ticket_path, "/",
                                                  nap_bwshare_page_name, NULL));
    return status;
}

/* Is this a holder's request for their ticket's status, which they were told to make? */
static NAP_SELDOM int is_poll(request_rec *r)
{
    const core_dir_config *core = ap_get_core_module_config(r->per_dir_config);
    const char *handler = core->handler, *err = NULL;

    if (core->expr_handler)         /* from SetHandler, which httpd evaluates later */
        handler = ap_expr_str_exec(r, core->expr_handler, &err);
    return !err && handler && !strcmp(handler, "nap-status");
}

static uint32_t index_of(const nap_room *room)
{
    return room && room->index >= 0 ? (uint32_t)room->index : NAP_NONE;
}

/* Over the limits, but may pass all the same: a poll, a ticket in its prime window, a session's
 * member, DryRun. */
static NAP_SELDOM int may_pass(request_rec *r, nap_handle *h)
{
    nap_visit *v = &h->charge.visit;
    const nap_room *room = nap_dir_of(r)->room;
    const nap_page *page = room && room->pages ? nap_page_asked(room, h->first, r) : NULL;
    nap_request q;
    nap_str why;
    int passes;

    if (is_poll(r))
        v->flags |= NAP_BW_EXCUSED;
    nap_request_fill(&q, h, r);
    passes = nap_the_core->debts.excuse(v, &q, index_of(room), index_of(page ? page->owner : room));
    if (passes && v->key)
        return 1;
    h->owed = 1;
    why = nap_the_core->debts.debt_name(v);
    apr_table_setn(r->notes, "bwshare", apr_pstrmemdup(r->pool, why.ptr, why.len));
    return passes;
}

/* Let in: the client's bytes are counted as they pass. A tunnel's do not pass as an answer. */
static void count(request_rec *r, nap_handle *h, nap_line *line)
{
    if (r->method_number == M_CONNECT)
        return;
    h->charged = 1;
    line->charged = h;
    if (r->connection->master)      /* the stream's pool may go before its answer has */
        apr_pool_cleanup_register(r->pool, h, nap_bytes_settle, apr_pool_cleanup_null);
}

/* Of `reserved` only the length needs to be zero: clearing all of it would be a call of memset, and cost
 * three times as much. */
static inline void charge_begin(nap_charge *c, uint32_t by, uint32_t flags)
{
    c->visit = (nap_visit){ .limits = by, .flags = flags };
    c->charged = c->headers = c->marked = 0;
    c->progress = NULL;
    c->begun = c->known = c->pieces = 0;
    c->reserved.bytes = 0;
}

/* access_checker: only for the first request of a chain. Requests that are never refused are charged. */
int nap_bwshare_access(request_rec *r)
{
    const nap_bwshare *all = of_server(r->server), *own = nap_dir_of(r)->bwshare;
    int engine = own && own->engine != NAP_UNSET ? own->engine : all ? all->engine : NAP_ENGINE_OFF;
    nap_line *line = nap_line_of(r->connection);
    const limits *by = limits_of(all);
    uint8_t client[16];
    nap_handle *h;

    if (engine <= NAP_ENGINE_OFF || !works || !line || r->main || r->prev || by->index == NAP_NONE)
        return DECLINED;
    if ((all && all->exempt && nap_expr_any(r, all->exempt, "BwShareExempt")) ||
        (own && own->exempt && nap_expr_any(r, own->exempt, "BwShareExempt")))
        return DECLINED;
    h = nap_handle_make(r);
    charge_begin(&h->charge, by->index,
                 (engine == NAP_ENGINE_DRY_RUN ? NAP_BW_DRY : 0) | (h->page ? NAP_BW_EXCUSED : 0));
    nap_address(client, r->useragent_addr);
    if (nap_the_core->debts.enter(&h->charge.visit, &line->client, client) && !may_pass(r, h))
        return refuse(r, h);
    if (h->charge.visit.key)
        count(r, h, line);
    return DECLINED;
}

int nap_bwshare_status(const nap_handle *h)
{
    return h->charge.visit.status == HTTP_OK ? HTTP_TOO_MANY_REQUESTS : (int)h->charge.visit.status;
}

/* ---- Handlers --------------------------------------------------------------------------------- */

/* The page of a refusal; requested directly, it has nothing to show. */
int nap_bwshare_page(request_rec *r)
{
    const nap_handle *h = r->prev ? nap_handle_at(nap_first(r)) : NULL;
    nap_wanted wanted = { .kind = NAP_PAGE_SLOW_DOWN };

    if (!h || !h->in_debt)
        return r->prev && r->prev->status != HTTP_OK ? r->prev->status : HTTP_NOT_FOUND;
    wanted.visit = &h->charge.visit;
    r->status = (int)h->charge.visit.status;
    r->status_line = NULL;
    return nap_page_show(r, &wanted);
}

/* bwshare-info, bwshare-trace and bwshare-mine, with either spelling. The last tells visitors what they owe by
 * the limits that hold here. */
int nap_bwshare_handler(request_rec *r)
{
    const char *name = r->handler;
    nap_wanted wanted = { .limits = limits_of(of_server(r->server))->index };

    if (strncmp(name, "bwshare", 7) || (name[7] != '-' && name[7] != '_'))
        return DECLINED;
    if (!strcmp(name + 8, "info"))
        wanted.kind = NAP_PAGE_DEBTS;
    else if (!strcmp(name + 8, "trace"))
        wanted.kind = NAP_PAGE_TRACE;
    else if (!strcmp(name + 8, "mine"))
        wanted.kind = NAP_PAGE_MINE;
    else
        return DECLINED;
    if (!nap_the_core || !works || (wanted.kind == NAP_PAGE_MINE && wanted.limits == NAP_NONE))
        return HTTP_NOT_FOUND;
    return r->method_number == M_GET ? nap_page_show(r, &wanted) : HTTP_METHOD_NOT_ALLOWED;
}

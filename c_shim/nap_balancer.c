/* nap_balancer.c: OXTHAS: lbmethod oxthas and nap of mod_proxy_balancer.
 *
 * mod_proxy asks a balancer's method for a worker (find) and hands the request to a scheme's handler.
 * nap_attempt.c runs before that handler.
 *
 * mod_nap may be loaded without mod_proxy, so nothing here links to it: it uses optional functions and
 * hooks where they exist, and else mod_proxy's symbols by name, from its own handle.
 */
#include <ap_provider.h>

#include "nap_balancer.h"

/* A kind of request, and the members that may get it. */
typedef struct activity {
    const char *name;
    ap_regex_t *path;
    apr_array_header_t *members;    /* of const char *; NULL: all */
} activity;

/* Per directory; <Proxy> is one. */
typedef struct nap_oxthas {
    nap_conf *conf;                 /* NULL: nothing is set */
    apr_array_header_t *activities; /* of activity *, NULL: none */
} nap_oxthas;

module *nap_mod_proxy;

static int directives;              /* an Oxthas... directive was read */
static int works;                   /* there are tables */
static APR_OPTIONAL_FN_TYPE(proxy_balancer_get_best_worker) *best_worker;   /* mod_proxy's */

/* ---- Settings --------------------------------------------------------------------------------- */

static nap_oxthas *settings_set(cmd_parms *cmd, void *conf)
{
    nap_dir *dir = nap_dir_set(cmd, conf);

    directives = 1;
    if (!dir->oxthas) {
        dir->oxthas = apr_pcalloc(cmd->pool, sizeof *dir->oxthas);
        dir->oxthas->conf = nap_conf_make(cmd->pool, NAP_CONF_BALANCER);
    }
    return dir->oxthas;
}

nap_oxthas *nap_oxthas_merge(apr_pool_t *p, nap_oxthas *b, nap_oxthas *a)
{
    nap_oxthas *both;

    if (!a || !b || a == b)
        return a ? a : b;
    both = apr_pmemdup(p, a, sizeof *a);
    if (nap_the_core)
        both->conf = nap_conf_merge(p, b->conf, a->conf);
    /* the first match counts, so the nearer settings come first */
    if (!both->activities)
        both->activities = b->activities;
    else if (b->activities)
        both->activities = apr_array_append(p, a->activities, b->activities);
    return both;
}

const char *nap_oxthas_set(cmd_parms *cmd, void *dir, int argc, char *const argv[])
{
    return nap_conf_set(cmd, settings_set(cmd, dir)->conf, argc, argv);
}

const char *nap_oxthas_activity(cmd_parms *cmd, void *dir, int argc, char *const argv[])
{
    nap_oxthas *own = settings_set(cmd, dir);
    activity *a = apr_pcalloc(cmd->pool, sizeof *a);
    char *names, *last;

    if (argc < 2 || argc > 3)
        return "OxthasActivity: wants a name and a regular expression of paths, then perhaps "
               "members= with names of members, with commas between them";
    if (!*argv[0] || strlen(argv[0]) > NAP_NAME_MAX)
        return apr_psprintf(cmd->pool, "OxthasActivity: \"%.60s\" is not a name; use 1 to %d bytes",
                            argv[0], NAP_NAME_MAX);
    a->name = argv[0];
    a->path = ap_pregcomp(cmd->pool, argv[1], AP_REG_EXTENDED | AP_REG_NOSUB);
    if (!a->path)
        return apr_psprintf(cmd->pool, "OxthasActivity: \"%.60s\" is not a regular expression",
                            argv[1]);
    if (argc == 3) {
        if (strncmp(argv[2], "members=", 8) || !argv[2][8])
            return apr_psprintf(cmd->pool, "OxthasActivity: \"%.60s\" is not members= with names",
                                argv[2]);
        a->members = apr_array_make(cmd->pool, 2, sizeof(char *));
        names = apr_pstrdup(cmd->pool, argv[2] + 8);
        for (char *name = apr_strtok(names, ",", &last); name; name = apr_strtok(NULL, ",", &last))
            nap_list_add(cmd->pool, &a->members, name);
    }
    nap_list_add(cmd->pool, &own->activities, a);
    return NULL;
}

/* ---- A request's kind, and its members -------------------------------------------------------- */

static void classify(call *c, const apr_array_header_t *activities)
{
    const char *path = c->r->uri + (*c->r->uri == '/');
    size_t segment = strcspn(path, "/?");
    const activity *a;

    NAP_EACH(a, activities) {
        if (!ap_regexec(a->path, c->r->uri, 0, NULL, 0)) {
            c->activity = a;
            c->kind = a->name;
            return;
        }
    }
    c->kind = segment ? apr_pstrmemdup(c->r->pool, path, segment < NAP_NAME_MAX ? segment : NAP_NAME_MAX) : "/";
}

/* By its route, its URL, or its host:port. */
static int is_named(const proxy_worker *worker, const char *name, apr_pool_t *p)
{
    const proxy_worker_shared *s = worker->s;

    return !strcmp(s->route, name) || !ap_cstr_casecmp(s->name_ex, name) ||
           !ap_cstr_casecmp(apr_psprintf(p, "%s:%d", s->hostname_ex, (int)s->port), name);
}

static int is_capable(const call *c, const proxy_worker *worker)
{
    const apr_array_header_t *names = c->activity ? c->activity->members : NULL;
    const char *name;

    NAP_EACH(name, names)
        if (is_named(worker, name, c->r->pool))
            return 1;
    return !names;
}

/* Not tried yet by this request. */
static int is_left(const call *c, const proxy_worker *worker)
{
    const proxy_worker *tried;

    NAP_EACH(tried, c->tried)
        if (tried == worker)
            return 0;
    return is_capable(c, worker);
}

/* The members that mod_proxy's own rules allow: lbset, spares, standbys, drained and failed ones. */
typedef struct gathering {
    const call *c;
    proxy_worker **workers;
    int n, most;
} gathering;

/* Called for each of them, where a stock method compares two. */
static int gather(proxy_worker *current, proxy_worker *best, void *baton)
{
    gathering *g = baton;

    if (g->n == g->most || !is_left(g->c, current))
        return 0;
    g->workers[g->n++] = current;
    return 1;
}

static gathering members_of(call *c)
{
    gathering g = { c, NULL, 0, c->balancer->workers->nelts };

    g.workers = apr_palloc(c->r->pool, (size_t)(g.most + 1) * sizeof *g.workers);
    if (!best_worker)
        best_worker = APR_RETRIEVE_OPTIONAL_FN(proxy_balancer_get_best_worker);
    if (best_worker)            /* mod_proxy has it */
        best_worker(c->balancer, c->r, gather, &g);
    return g;
}

nap_member nap_balancer_member(const call *c, const proxy_worker *worker)
{
    const proxy_hashes *b = &c->balancer->s->hash, *w = &worker->s->hash;
    uint64_t own = (uint64_t)w->def << 32 | w->fnv, whose = (uint64_t)b->fnv << 32 | b->def;
    nap_member m = { .key = own ^ whose * 0x9e3779b97f4a7c15u,
                     .balancer = nap_str_of(c->balancer->s->name),
                     .name = nap_str_of(worker->s->name_ex),
                     .factor = worker->s->lbfactor > 0 ? (uint32_t)worker->s->lbfactor : 100 };

    return m;
}

/* Without the core: the member that has least to do. */
static proxy_worker *least_busy(const gathering *g)
{
    proxy_worker *least = g->n ? g->workers[0] : NULL;

    for (int i = 1; i < g->n; i++)
        if (g->workers[i]->s->busy < least->s->busy)
            least = g->workers[i];
    return least;
}

/* Are that many members left, counting those of another lbset, standbys and spares? mod_proxy's rules come to
 * those once all that were tried are excluded. */
int nap_balancer_has_left(const call *c, int wanted)
{
    const proxy_worker *worker;

    NAP_EACH(worker, c->balancer->workers)
        wanted -= wanted > 0 && PROXY_WORKER_IS_USABLE(worker) && !PROXY_WORKER_IS_DRAINING(worker) &&
                  is_left(c, worker);
    return wanted <= 0;
}

/* Chooses a member for the attempt of this number. */
proxy_worker *nap_balancer_choose(call *c, int attempt)
{
    gathering g = members_of(c);
    nap_member *members = apr_palloc(c->r->pool, (size_t)(g.n + 1) * sizeof *members);
    int at = -1;

    c->another = nap_balancer_has_left(c, 2);     /* the one that is chosen now, and one more */
    if (!works || !nap_the_core || !g.n)
        return least_busy(&g);
    /* if a probe fails, another member must be able to do it */
    c->task.may_probe = c->idempotent && c->another &&
                        attempt < (int)nap_the_core->balancer.retries(c->task.conf);
    for (int i = 0; i < g.n; i++)
        members[i] = nap_balancer_member(c, g.workers[i]);
    at = nap_the_core->balancer.choose(&c->task, nap_str_of(c->kind), members,
                                 (size_t)g.n);
    return at >= 0 && at < g.n ? g.workers[at] : least_busy(&g);
}

/* ---- A call ----------------------------------------------------------------------------------- */

static const char call_key[] = "mod_nap:call";

call *nap_balancer_call(const request_rec *r)
{
    void *c = NULL;

    apr_pool_userdata_get(&c, call_key, r->pool);
    return c && ((call *)c)->r == r ? c : NULL;
}

/* Whatever came between: no attempt stays under way. */
static apr_status_t call_end(void *data)
{
    call *c = data;

    if (c->task.under_way && nap_the_core)
        nap_the_core->balancer.end(&c->task, NAP_OX_GIVEN_UP, 0, 0);
    return APR_SUCCESS;
}

static int is_idempotent(request_rec *r)
{
    int m = r->method_number;

    return (m == M_GET || m == M_OPTIONS || m == M_PUT || m == M_DELETE || m == M_TRACE) &&
           !ap_request_has_body(r) && !apr_table_get(r->headers_in, "Upgrade");
}

static apr_uint64_t body_of(const request_rec *r)
{
    const char *length = apr_table_get(r->headers_in, "Content-Length");
    apr_off_t n = 0;

    return length && ap_parse_strict_length(&n, length) ? (apr_uint64_t)n : 0;
}

/* The longest time-out that mod_proxy sets on a connection to a member: without OxthasTimeout none is given up
 * earlier. */
static apr_interval_time_t longest_timeout(const request_rec *r, const proxy_balancer *balancer)
{
    const proxy_server_conf *conf = balancer->sconf;
    apr_interval_time_t usual = conf && conf->timeout_set ? conf->timeout : r->server->timeout, longest = 0;
    const proxy_worker *worker;

    NAP_EACH(worker, balancer->workers) {
        apr_interval_time_t own = worker->s->timeout_set ? worker->s->timeout : usual;

        longest = own > longest ? own : longest;
    }
    return longest;
}

call *nap_balancer_call_make(request_rec *r, proxy_balancer *balancer)
{
    const nap_oxthas *settings = nap_dir_of(r)->oxthas;
    call *c = apr_pcalloc(r->pool, sizeof *c);

    c->r = r;
    c->balancer = balancer;
    c->idempotent = is_idempotent(r);
    c->task.conf = settings ? settings->conf : NULL;
    c->task.law = strcmp(balancer->lbmethod->name, "nap") ? NAP_OX_OXTHAS : NAP_OX_NAP;
    c->task.body = body_of(r);
    c->task.own_timeout_us = (uint64_t)longest_timeout(r, balancer);
    classify(c, settings ? settings->activities : NULL);
    apr_pool_userdata_setn(c, call_key, NULL, r->pool);
    apr_pool_cleanup_register(r->pool, c, call_end, apr_pool_cleanup_null);
    return c;
}

/* ---- The methods ------------------------------------------------------------------------------ */

static proxy_worker *find(proxy_balancer *balancer, request_rec *r)
{
    call *c = nap_balancer_call(r);

    if (!c || c->balancer != balancer)
        c = nap_balancer_call_make(r, balancer);
    else
        call_end(c);
    c->worker = nap_balancer_choose(c, 0);
    return c->worker;
}

static apr_status_t nothing_to_do(proxy_balancer *balancer, server_rec *s)
{
    return APR_SUCCESS;
}

/* A sticky session has gone to its member: hand_over tells the core. */
static apr_status_t stuck(proxy_balancer *balancer, proxy_worker *elected, server_rec *s)
{
    return APR_SUCCESS;
}

static const proxy_balancer_method oxthas = { "oxthas", find, NULL, nothing_to_do, nothing_to_do,
                                              stuck };
static const proxy_balancer_method nap = { "nap", find, NULL, nothing_to_do, nothing_to_do, stuck };

int nap_balancer_is_ours(const proxy_balancer *balancer)
{
    return works && balancer &&
           (balancer->lbmethod == &oxthas || balancer->lbmethod == &nap);
}

/* ---- At start --------------------------------------------------------------------------------- */

/* pre_config: modules are loaded, directives not yet read. */
void nap_balancer_begin(apr_pool_t *pconf)
{
    apr_dso_handle_t *dso = NULL;

    directives = works = 0;
    best_worker = NULL;
    nap_mod_proxy = ap_find_linked_module("mod_proxy.c");
    if (!nap_mod_proxy || !ap_find_linked_module("mod_proxy_balancer.c"))
        return;
    dso = nap_mod_proxy->dynamic_load_handle;
    if (!dso && apr_dso_load(&dso, NULL, pconf) != APR_SUCCESS)   /* compiled into httpd */
        return;
    ap_register_provider(pconf, PROXY_LBMETHOD, "oxthas", "0", &oxthas);
    ap_register_provider(pconf, PROXY_LBMETHOD, "nap", "0", &nap);
    works = nap_attempt_begin(dso);
}

/* The number of members of all balancers, including those that may be added at run time; 0 if no balancer
 * uses our methods. */
uint32_t nap_balancer_members(server_rec *s)
{
    uint32_t members = 0;
    int used = 0;

    for (; works && s; s = s->next) {
        proxy_server_conf *conf = ap_get_module_config(s->module_config, nap_mod_proxy);

        for (int i = 0; i < conf->balancers->nelts; i++) {
            proxy_balancer *b = (proxy_balancer *)conf->balancers->elts + i;

            members += (uint32_t)(b->workers->nelts + (b->growth > 0 ? b->growth : 0));
            used |= nap_balancer_is_ours(b);
        }
    }
    return used ? members : 0;
}

void nap_balancer_start(server_rec *s, uint32_t members)
{
    if (!works && nap_mod_proxy && ap_find_linked_module("mod_proxy_balancer.c"))
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, s, "mod_nap: lbmethod oxthas and nap choose only "
                     "by how busy members are: this mod_proxy lacks functions they need");
    else if (!works)                /* not reported: nobody has asked for it */
        ap_log_error(APLOG_MARK, directives ? APLOG_WARNING : APLOG_DEBUG, 0, s, "mod_nap: "
                     "lbmethod oxthas and nap are off: mod_proxy_balancer is not loaded");
    else if (members)
        works = nap_the_core && nap_the_core->balancer.start();
    else
        works = 0;
}

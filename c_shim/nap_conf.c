/* nap_conf.c: directives.
 *
 * Values are parsed by the core (crates/nap-core/src/conf/), which also has the defaults and ranges. Here is
 * only what needs httpd: sections, expressions, flags, paths. A room is known by its name from the first
 * <NapRoom> or NapUse that mentions it, so the order in the file does not matter. nap_site_check, which
 * configtest runs too, finds names that are not defined.
 */
#include <unixd.h>

#include "mod_nap.h"

const nap_core *nap_the_core;
nap_site *nap_the_site;
nap_room nap_no_room;             /* NapUse None */
const nap_dir nap_dir_unset = { .engine = NAP_UNSET, .ticket_status = NAP_UNSET };

static nap_room *room_open;       /* the <NapRoom> being read */
static nap_page *page_open;       /* the <NapPage> in it */

/* ---- Where settings live ------------------------------------------------------------------ */

/* None for the server: nap_dir_set makes its own. */
void *nap_dir_create(apr_pool_t *p, char *path)
{
    return path ? apr_pmemdup(p, &nap_dir_unset, sizeof nap_dir_unset) : NULL;
}

/* The settings that a directive writes to; conf: what httpd found for it. */
nap_dir *nap_dir_set(cmd_parms *cmd, void *conf)
{
    if (!conf) {
        conf = apr_pmemdup(cmd->pool, &nap_dir_unset, sizeof nap_dir_unset);
        ap_set_module_config(cmd->context, &nap_itself, conf);
    }
    return conf;
}

#define MERGE(field, unset) dir->field = a->field != (unset) ? a->field : b->field

void *nap_dir_merge(apr_pool_t *p, void *base, void *add)
{
    nap_dir *dir = apr_palloc(p, sizeof *dir), *b = base, *a = add;

    MERGE(room, NULL);
    MERGE(engine, NAP_UNSET);
    MERGE(ticket_status, NAP_UNSET);
    MERGE(own_page, NULL);
    dir->bwshare = nap_bwshare_merge(p, b->bwshare, a->bwshare);
    MERGE(event, NULL);
    dir->oxthas = nap_oxthas_merge(p, b->oxthas, a->oxthas);
    return dir;
}

int nap_site_create(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp)
{
    nap_site *site = apr_pcalloc(pconf, sizeof *site);
    const nap_core *core = nap_core_table();

    nap_no_room.index = -1;
    site->rooms = apr_hash_make(pconf);
    site->in_order = apr_array_make(pconf, 4, sizeof(nap_room *));
    site->ticket_path = "/nap-ticket";
    nap_the_site = site;
    room_open = NULL;
    page_open = NULL;
    if (!core || core->abi != NAP_ABI) {
        ap_log_perror(APLOG_MARK, APLOG_ERR, 0, plog,
                      "mod_nap: the module's C and Rust parts differ in version (%d, %d): nothing is "
                      "scheduled; rebuild the module", NAP_ABI, core ? (int)core->abi : -1);
        core = NULL;
    }
    nap_the_core = core;
    nap_bwshare_begin(pconf);
    nap_balancer_begin(pconf);
    site->conf = nap_conf_make(pconf, NAP_CONF_SERVER);
    nap_conf_look(site->conf, &site->view);
    return OK;
}

/* Settings in which nothing is set yet, with `room` of its page of this name. NULL: there is no core, or the name is
 * none, which err tells. */
nap_conf *nap_conf_make_named(apr_pool_t *p, nap_conf_kind kind, const char *name, const nap_conf *room, char *err)
{
    nap_conf *conf = nap_the_core ? apr_pcalloc(p, nap_the_core->conf.size()) : NULL;

    return conf && !nap_the_core->conf.init(conf, kind, nap_str_of(name), room, err) ? conf : NULL;
}

nap_conf *nap_conf_make(apr_pool_t *p, nap_conf_kind kind)
{
    return nap_conf_make_named(p, kind, "", NULL, NULL);
}

/* Its own settings, those below where it has none. */
nap_conf *nap_conf_merge(apr_pool_t *p, const nap_conf *below, const nap_conf *own)
{
    nap_conf *both = apr_pmemdup(p, own, nap_the_core->conf.size());

    nap_the_core->conf.over(both, below);
    return both;
}

void nap_conf_look(const nap_conf *conf, nap_view *view)
{
    static const nap_view nothing = { .name = "", .page = "", .cookie = "", .session_cookie = "",
                                      .ticket_path = "", .agent = "" };

    *view = nothing;
    if (conf)
        nap_the_core->conf.view(conf, view);
}

const char *nap_conf_set(cmd_parms *cmd, nap_conf *conf, int argc, char *const argv[])
{
    char *why = apr_pcalloc(cmd->pool, NAP_ERR_MAX);
    nap_str *words = apr_palloc(cmd->pool, (argc + 1) * sizeof *words);

    for (int i = 0; i < argc; i++)
        words[i] = nap_str_of(argv[i]);
    return conf && nap_the_core->conf.set(conf, nap_str_of(cmd->cmd->name), words, argc, why) ? why : NULL;
}

const char *nap_conf_status(cmd_parms *cmd, const char *arg, int *status)
{
    char *why = apr_pcalloc(cmd->pool, NAP_ERR_MAX);
    int known = nap_the_core ? nap_the_core->conf.status(nap_str_of(cmd->cmd->name), nap_str_of(arg), why) : 503;

    if (known < 0)
        return why;
    *status = known;
    return NULL;
}

const char *nap_conf_engine(cmd_parms *cmd, const char *arg, int *engine)
{
    if (!strcasecmp(arg, "on"))
        *engine = NAP_ENGINE_ON;
    else if (!strcasecmp(arg, "off"))
        *engine = NAP_ENGINE_OFF;
    else if (!strcasecmp(arg, "dryrun"))
        *engine = NAP_ENGINE_DRY_RUN;
    else
        return apr_psprintf(cmd->pool, "%s: \"%.60s\" is not known; use On, Off or DryRun", cmd->cmd->name, arg);
    return NULL;
}

/* Adds a pointer to *list, which is made for the first one. */
void nap_list_add(apr_pool_t *p, apr_array_header_t **list, const void *item)
{
    if (!*list)
        *list = apr_array_make(p, 2, sizeof item);
    APR_ARRAY_PUSH(*list, const void *) = item;
}

/* A directive's expression; NULL with *err set: it is none. */
static const ap_expr_info_t *expr_of(cmd_parms *cmd, const char *text, const char **err)
{
    const ap_expr_info_t *expr = ap_expr_parse_cmd(cmd, text, 0, err, NULL);

    if (*err)
        *err = apr_psprintf(cmd->pool, "%s: \"%.60s\" is not an expression: %s", cmd->cmd->name, text, *err);
    return expr;
}

/* NapExempt and BwShareExempt: one more in *list, of const ap_expr_info_t *. */
const char *nap_expr_add(cmd_parms *cmd, const char *text, apr_array_header_t **list)
{
    const char *err = NULL;
    const ap_expr_info_t *expr = expr_of(cmd, text, &err);

    if (!err)
        nap_list_add(cmd->pool, list, expr);
    return err;
}

NAP_SELDOM int nap_expr_holds(request_rec *r, const ap_expr_info_t *expr, const char *directive)
{
    const char *err = NULL;
    int holds = ap_expr_exec(r, expr, &err) > 0;

    if (err)
        ap_log_rerror(APLOG_MARK, APLOG_DEBUG, 0, r, "%s: %s", directive, err);
    return holds;
}

/* Is one of the list (NULL: there is none) true of r? */
NAP_SELDOM int nap_expr_any(request_rec *r, const apr_array_header_t *list, const char *directive)
{
    const ap_expr_info_t *expr;

    NAP_EACH(expr, list)
        if (nap_expr_holds(r, expr, directive))
            return 1;
    return 0;
}

/* The room of that name, made on first mention; NULL with *err set: not a name. */
static nap_room *room_named(cmd_parms *cmd, const char *name, const char **err)
{
    nap_site *site = nap_the_site;
    nap_room *room = apr_hash_get(site->rooms, name, APR_HASH_KEY_STRING);
    size_t len = strlen(name);

    if (room)
        return room;
    if (!len || len > NAP_NAME_MAX ||
        strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") != len) {
        *err = apr_psprintf(cmd->pool, "%s: \"%.60s\" is not a name for a room; use 1 to %d of "
                            "A-Z a-z 0-9 _ . -", cmd->cmd->name, name, NAP_NAME_MAX);
        return NULL;
    }
    room = apr_pcalloc(cmd->pool, sizeof *room);
    room->conf = nap_conf_make_named(cmd->pool, NAP_CONF_ROOM, name, NULL, NULL);
    nap_conf_look(room->conf, &room->view);
    room->index = -1;
    room->ticket_status = NAP_UNSET;
    apr_hash_set(site->rooms, apr_pstrdup(cmd->pool, name), APR_HASH_KEY_STRING, room);
    APR_ARRAY_PUSH(site->in_order, nap_room *) = room;
    return room;
}

/* ---- Setters ------------------------------------------------------------------------------- */

static const char *outside_only(cmd_parms *cmd)
{
    return room_open ? apr_psprintf(cmd->pool, "%s does not belong inside <NapRoom>",
                                    cmd->cmd->name) : NULL;
}

static const char *inside_only(cmd_parms *cmd)
{
    return room_open ? NULL : apr_psprintf(cmd->pool, "%s belongs inside <NapRoom name>",
                                           cmd->cmd->name);
}

/* For settings of a whole room, which a page cannot have. */
static const char *room_only(cmd_parms *cmd)
{
    return page_open ? apr_psprintf(cmd->pool, "%s does not belong inside <NapPage>",
                                    cmd->cmd->name) : inside_only(cmd);
}

static const char *whole_server_only(cmd_parms *cmd)
{
    const char *err = outside_only(cmd);

    return err ? err : ap_check_cmd_context(cmd, GLOBAL_ONLY);
}

static const char *set_room(cmd_parms *cmd, void *conf, int argc, char *const argv[])
{
    const char *err = inside_only(cmd);

    if (!err)
        err = nap_conf_set(cmd, page_open ? page_open->conf : room_open->conf, argc, argv);
    if (err)
        return err;
    nap_conf_look(room_open->conf, &room_open->view);
    if (room_open->view.admit_early == 1)
        nap_access_hook_early();
    return NULL;
}

/* NapSession [cookie=] [start=] [end=] [idle=] [parallel=] */
static const char *set_session(cmd_parms *cmd, void *conf, int argc, char *const argv[])
{
    char **rest = apr_pmemdup(cmd->pool, argv, (argc + 1) * sizeof *argv);
    const char *err = room_only(cmd);

    if (!err)
        err = nap_session_patterns(cmd, room_open, &argc, rest);
    if (!err)
        err = set_room(cmd, conf, argc, rest);
    if (!err)
        nap_session_hook();
    return err;
}

static const char *set_server(cmd_parms *cmd, void *conf, int argc, char *const argv[])
{
    const char *err = whole_server_only(cmd);

    if (!err)
        err = nap_conf_set(cmd, nap_the_site->conf, argc, argv);
    nap_conf_look(nap_the_site->conf, &nap_the_site->view);
    return err;
}

static const char *set_engine(cmd_parms *cmd, void *conf, const char *arg)
{
    const char *err = outside_only(cmd);

    return err ? err : nap_conf_engine(cmd, arg, &nap_dir_set(cmd, conf)->engine);
}

static const char *set_use(cmd_parms *cmd, void *conf, const char *name)
{
    nap_dir *dir = nap_dir_set(cmd, conf);
    const char *err = outside_only(cmd);

    if (err)
        return err;
    if (!strcasecmp(name, "none")) {
        dir->room = &nap_no_room;
        return NULL;
    }
    dir->room = room_named(cmd, name, &err);
    if (dir->room)
        nap_list_add(cmd->pool, &dir->room->uses, cmd->directive);
    return err;
}

static const char *set_ticket_status(cmd_parms *cmd, void *conf, const char *arg)
{
    const char *err = room_open ? room_only(cmd) : NULL;

    return err ? err : nap_conf_status(cmd, arg, room_open ? &room_open->ticket_status
                                                           : &nap_dir_set(cmd, conf)->ticket_status);
}

/* The page in that file, made on first mention. */
static const nap_own_page *own_page_at(cmd_parms *cmd, const char *path)
{
    nap_own_page *page;

    NAP_EACH(page, nap_the_site->own_pages)
        if (!strcmp(page->path, path))
            return page;
    page = apr_pcalloc(cmd->pool, sizeof *page);
    page->path = path;
    page->where = cmd->directive;
    page->number = NAP_NONE;
    nap_list_add(cmd->pool, &nap_the_site->own_pages, page);
    return page;
}

static const char *set_own_page(cmd_parms *cmd, void *conf, const char *arg)
{
    static const nap_own_page built_in = { NULL, NULL, NAP_NONE };
    const char *path = ap_server_root_relative(cmd->pool, arg);
    const char *err = room_open ? room_only(cmd) : NULL;

    if (err)
        return err;
    if (!*arg || !path)
        return apr_psprintf(cmd->pool, "NapTicketPage: \"%.60s\" is not a path", arg);
    *(room_open ? &room_open->own_page : &nap_dir_set(cmd, conf)->own_page) =
        !strcasecmp(arg, "none") ? &built_in : own_page_at(cmd, path);
    return NULL;
}

static const char *set_exempt(cmd_parms *cmd, void *conf, const char *arg)
{
    const char *err = room_only(cmd);

    return err ? err : nap_expr_add(cmd, arg, &room_open->exempt);
}

/* NapPriority n expr, or NapPriority progress */
static const char *set_priority(cmd_parms *cmd, void *conf, int argc, char *const argv[])
{
    const char *err = room_only(cmd);
    nap_priority *one = apr_pcalloc(cmd->pool, sizeof *one);

    if (!err)
        err = set_room(cmd, conf, argc, argv);
    if (err || argc != 2)
        return err;
    one->number = (uint32_t)atoi(argv[0]);
    one->expr = expr_of(cmd, argv[1], &err);
    nap_list_add(cmd->pool, &room_open->priorities, one);
    return err;
}

/* Sets a server-wide path: the field of nap_site at offset cmd->info. */
static const char *set_path(cmd_parms *cmd, void *conf, const char *arg)
{
    const char *err = whole_server_only(cmd);
    const char **field = (const char **)((char *)nap_the_site + (intptr_t)cmd->info);

    if (err)
        return err;
    *field = *arg == '|' ? apr_pstrdup(cmd->pool, arg) : ap_server_root_relative(cmd->pool, arg);
    if (!*arg || !*field)
        return apr_psprintf(cmd->pool, "%s: \"%.60s\" is not a path", cmd->cmd->name, arg);
    if (**field == '|' && field != &nap_the_site->log_name)
        return apr_psprintf(cmd->pool, "%s: takes a file, not a command", cmd->cmd->name);
    return NULL;
}

/* The path is the switch, so that no .htaccess can move the handler elsewhere. */
static const char *set_control(cmd_parms *cmd, void *conf, const char *arg)
{
    const char *err = whole_server_only(cmd);
    int off = !strcasecmp(arg, "off");

    if (!err && !off && (*arg != '/' || !arg[1] || strlen(arg) > 200 || strpbrk(arg, "?#%\\ \"<>")))
        err = apr_psprintf(cmd->pool, "NapControl: \"%.60s\" is neither Off nor a path, e.g. "
                           "/nap-control, of at most 200 plain characters", arg);
    if (!err)
        nap_the_site->control_path = off ? NULL : arg;
    return err;
}

/* ---- <NapRoom name> ------------------------------------------------------------------------ */

/* Reads a section of ours; httpd would silently apply other modules' directives in it to the whole server. */
static const char *section_read(cmd_parms *cmd, const char *name)
{
    for (const ap_directive_t *d = cmd->directive->first_child; d; d = d->next) {
        if (ap_cstr_casecmpn(d->directive, "Nap", 3) && ap_cstr_casecmp(d->directive, "<NapPage")) {
            cmd->err_directive = d;
            return apr_psprintf(cmd->pool, "%s %s>: %s does not belong inside",
                                cmd->directive->directive, name, d->directive);
        }
    }
    return ap_walk_config(cmd->directive->first_child, cmd, cmd->context);
}

/* A section's arguments, without the ">"; NULL: there is none. */
static const char *section_args(cmd_parms *cmd, const char *arg)
{
    const char *end = ap_strrchr_c(arg, '>');

    return end && !end[1] ? apr_pstrmemdup(cmd->temp_pool, arg, end - arg) : NULL;
}

static const char *section_room(cmd_parms *cmd, void *conf, const char *arg)
{
    const char *err = ap_check_cmd_context(cmd, GLOBAL_ONLY), *name;

    if (err)
        return err;
    if (room_open)
        return "<NapRoom>: does not belong inside <NapRoom>";
    arg = section_args(cmd, arg);
    if (!arg)
        return "<NapRoom>: wants a name and a \">\"";
    name = ap_getword_conf(cmd->pool, &arg);
    if (*arg)
        return "<NapRoom>: wants one name and nothing else";
    if (!strcasecmp(name, "none"))
        return "<NapRoom None>: no URL can be put into it, as NapUse None means no room; use another name";
    room_open = room_named(cmd, name, &err);
    if (!room_open)
        return err;
    if (room_open->section)
        err = apr_psprintf(cmd->pool, "<NapRoom %s>: this room is defined already, in %s line %d",
                           name, room_open->section->filename, room_open->section->line_num);
    room_open->section = cmd->directive;
    nap_call_hook();
    nap_access_hook_filtered();
    nap_park_hook();
    if (!err)
        err = section_read(cmd, name);
    room_open = NULL;
    return err;
}

/* ---- NapPage name regex [room=], <NapPage name regex> ---------------------------------------- */

static const char *set_page(cmd_parms *cmd, void *conf, const char *name, const char *regex,
                            const char *option)
{
    const char *err = room_only(cmd);

    if (!err)
        nap_page_make(cmd, room_open, name, regex, option, &err);
    return err;
}

static const char *section_page(cmd_parms *cmd, void *conf, const char *arg)
{
    const char *err = room_only(cmd), *name, *regex;

    if (err)
        return err;
    arg = section_args(cmd, arg);
    name = arg ? ap_getword_conf(cmd->pool, &arg) : "";
    regex = arg ? ap_getword_conf(cmd->pool, &arg) : "";
    if (!*regex || *arg)
        return "<NapPage>: wants a name, a regular expression and a \">\"";
    page_open = nap_page_make(cmd, room_open, name, regex, NULL, &err);
    if (!err)
        err = section_read(cmd, name);
    page_open = NULL;
    return err;
}

#define ANYWHERE (RSRC_CONF | ACCESS_CONF)   /* not .htaccess */
#define ROOM(name, help) \
    AP_INIT_TAKE_ARGV(name, set_room, NULL, RSRC_CONF, help)
#define SERVER(name, help) \
    AP_INIT_TAKE_ARGV(name, set_server, NULL, RSRC_CONF, help)
#define PATH(name, field, help) \
    AP_INIT_TAKE1(name, set_path, (void *)APR_OFFSETOF(nap_site, field), RSRC_CONF, help)
#define DEBTS(name, help) \
    AP_INIT_TAKE_ARGV(name, nap_bwshare_set, NULL, RSRC_CONF, help)
#define BALANCER(name, help) \
    AP_INIT_TAKE_ARGV(name, nap_oxthas_set, NULL, ANYWHERE, help)

const command_rec nap_directives[] = {
#include "directives.inc"
    { .name = NULL }
};

/* ---- check_config ---------------------------------------------------------------------------- */

/* A fault of the configuration, with its place (NULL: there is none). */
int nap_complain(server_rec *s, apr_pool_t *p, const ap_directive_t *where, const char *format, ...)
{
    va_list args;
    const char *what;

    va_start(args, format);
    what = apr_pvsprintf(p, format, args);
    va_end(args);
    if (where)
        what = apr_psprintf(p, "%s line %d: %s", where->filename, where->line_num, what);
    ap_log_error(APLOG_MARK, APLOG_STARTUP | APLOG_EMERG, 0, s, "%s", what);
    return !OK;
}

static int room_check(server_rec *s, nap_room *room, apr_pool_t *p)
{
    char *err = apr_pcalloc(p, NAP_ERR_MAX);
    int rc;

    if (!room->section)
        return nap_complain(s, p, APR_ARRAY_IDX(room->uses, 0, const ap_directive_t *),
                            "NapUse: there is no <NapRoom %s>", room->view.name);
    if (nap_pages_check(s, room, p) != OK)      /* before the room is finished: pages inherit from it */
        return !OK;
    rc = nap_the_core->conf.finish(room->conf, nap_the_site->conf, err);
    nap_conf_look(room->conf, &room->view);
    if (rc == 1) {
        room->remark = err;
        rc = 0;
    }
    /* the default name and its __Host- form both contain this */
    room->cookie = room->view.cookie[0] ? room->view.cookie
                                        : apr_pstrcat(p, "nap-", room->view.name, NULL);
    nap_use_tell(s, room, p);
    return rc ? nap_complain(s, p, room->section, "%s", err) : nap_session_check(s, room, p);
}

/* Checks the state file's place without touching the file. If the children's user could write to the
 * directory, they could put another file there. */
static int state_check(server_rec *s, apr_pool_t *p)
{
    const char *dir = nap_the_site->state_file ? ap_make_dirstr_parent(p, nap_the_site->state_file)
                                               : NULL;
    apr_finfo_t info;
    apr_status_t rv;

    if (!dir)
        return OK;
    rv = apr_stat(&info, dir, APR_FINFO_TYPE | APR_FINFO_OWNER | APR_FINFO_PROT, p);
    if ((rv && !APR_STATUS_IS_INCOMPLETE(rv)) || info.filetype != APR_DIR)
        return nap_complain(s, p, NULL, "NapStateFile: %s is not a directory", dir);
    if (geteuid() == 0 && ap_unixd_config.user_id != 0 &&
        (info.user == ap_unixd_config.user_id ||
         (info.group == ap_unixd_config.group_id && (info.protection & APR_GWRITE)) ||
         (info.protection & APR_WWRITE)))
        return nap_complain(s, p, NULL, "NapStateFile: the children's user can write the directory %s; use one that "
                            "only root can write", dir);
    return OK;
}

/* A broken page fails a configtest and a start, but not a running server: at a restart it goes on with
 * the built-in page (nap_server_start). */
static int own_pages_check(server_rec *s, apr_pool_t *p)
{
    char *err = apr_pcalloc(p, NAP_ERR_MAX);
    const nap_own_page *page;

    if (ap_state_query(AP_SQ_MAIN_STATE) != AP_SQ_MS_CREATE_PRE_CONFIG)
        return OK;
    NAP_EACH(page, nap_the_site->own_pages)
        if (nap_the_core->server.own_page(nap_str_of(page->path), 0, err) < 0)
            return nap_complain(s, p, page->where, "NapTicketPage: %s", err);
    return OK;
}

int nap_site_check(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp, server_rec *s)
{
    nap_site *site = nap_the_site;
    nap_room *room;
    size_t gates = 0;
    int faults = 0;

    if (!nap_the_core || !site)
        return OK;
    site->headers = ap_find_linked_module("mod_headers.c");
    nap_filter_read(pconf);
    nap_server_measure(&site->mpm);
    nap_park_check(s, pconf, &site->view, &site->mpm);
    nap_the_core->conf.runs(site->conf, &site->mpm);
    if (site->view.ticket_path[0])
        site->ticket_path = site->view.ticket_path;
    if (site->in_order->nelts > NAP_ROOMS_MAX)
        faults |= nap_complain(s, ptemp, NULL, "<NapRoom>: %d rooms are too many; use at most %d",
                               site->in_order->nelts, NAP_ROOMS_MAX);
    NAP_EACH(room, site->in_order) {
        if (room_check(s, room, pconf) == OK)
            gates += nap_pages_gates(room);
        else
            faults = 1;
    }
    if (gates > NAP_GATES_MAX)
        faults |= nap_complain(s, ptemp, NULL, "<NapRoom>: %d rooms and pages are too many together; use at most %d",
                               (int)gates, NAP_GATES_MAX);
    if (state_check(s, ptemp) != OK || nap_keys_check(s, ptemp) != OK || own_pages_check(s, ptemp) != OK ||
        nap_bwshare_check(s, ptemp) != OK || nap_store_check(s, ptemp) != OK || faults)
        return HTTP_INTERNAL_SERVER_ERROR;
    return OK;
}

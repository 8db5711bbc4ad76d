/* nap_pages.c: NapPage, which tells which of a room's pages an access asks for.
 *
 * A page is known by a regular expression over the path as httpd has decoded it, or over path and query if
 * the expression mentions a question mark. The first match in the order of the file counts; an access that
 * matches none belongs to the room's own gate. Most expressions begin with "^" and plain letters, and many
 * have nothing else. Those letters are compared before a regular expression is run, which costs more than
 * everything else an admitted access does here.
 */
#include "mod_nap.h"

nap_page *nap_page_named(const nap_room *room, const char *name)
{
    nap_page *page;

    NAP_EACH(page, room->pages)
        if (!strcmp(page->view.page, name))
            return page;
    return NULL;
}

/* The plain text that every match begins with, cut off the front of the expression; *rest: what follows. An
 * expression with an alternative may have no such text. */
static char *prefix_of(apr_pool_t *p, const char *regex, const char **rest)
{
    char *prefix = apr_palloc(p, strlen(regex) + 1), *to = prefix;
    const char *from = regex + 1;

    *rest = regex;
    *prefix = '\0';
    if (*regex != '^' || strchr(regex, '|'))
        return prefix;
    while (*from && !strchr("^$.[]()*+?{}\\", *from))
        *to++ = *from++;
    if (to > prefix && *from && strchr("*+?{", *from)) {   /* these apply to the letter before */
        to--;
        from--;
    }
    *to = '\0';
    *rest = from;
    return prefix;
}

/* Sets the expression of a page, or of what starts or ends a session; title: how a complaint begins. */
const char *nap_page_regex(cmd_parms *cmd, nap_page *page, const char *title, const char *text)
{
    ap_regex_t *regex = apr_pcalloc(cmd->pool, sizeof *regex);
    char why[120];
    const char *rest;
    int rc = ap_regcomp(regex, text, AP_REG_EXTENDED | AP_REG_NOSUB);

    if (rc) {
        ap_regerror(rc, regex, why, sizeof why);
        return apr_psprintf(cmd->pool, "%s: \"%.60s\" is not a regular expression: %s", title, text,
                            why);
    }
    page->prefix = prefix_of(cmd->pool, text, &rest);
    page->prefix_len = strlen(page->prefix);
    page->exact = !strcmp(rest, "$");
    page->query = ap_strstr_c(text, "\\?") || ap_strstr_c(text, "[?");
    if (*rest)
        page->regex = regex;
    return NULL;
}

/* A page of the room; on error NULL and *err. option: room=, or NULL. */
nap_page *nap_page_make(cmd_parms *cmd, nap_room *room, const char *name, const char *regex,
                        const char *option, const char **err)
{
    nap_page *page = apr_pcalloc(cmd->pool, sizeof *page);
    const nap_page *same = nap_page_named(room, name);
    char *why = apr_pcalloc(cmd->pool, NAP_ERR_MAX);

    page->conf = nap_conf_make_named(cmd->pool, NAP_CONF_ROOM, name, room->conf, why);
    if (*why)
        *err = why;
    else if (same)
        *err = apr_psprintf(cmd->pool, "NapPage %s: room %s has a page of this name already, in %s "
                            "line %d", name, room->view.name, same->where->filename, same->where->line_num);
    else if (room->pages && room->pages->nelts == NAP_PAGES_MAX - 1)
        *err = apr_psprintf(cmd->pool, "NapPage %s: room %s has %d pages already; use at most %d",
                            name, room->view.name, NAP_PAGES_MAX - 1, NAP_PAGES_MAX - 1);
    else if (option && (ap_cstr_casecmpn(option, "room=", 5) || !option[5]))
        *err = apr_psprintf(cmd->pool, "NapPage %s: \"%.60s\" is not an option; there is room=",
                            name, option);
    else
        *err = nap_page_regex(cmd, page, apr_psprintf(cmd->pool, "NapPage %s", name), regex);
    if (*err)
        return NULL;
    nap_conf_look(page->conf, &page->view);
    page->where = cmd->directive;
    page->shared = option ? option + 5 : NULL;
    page->owner = room;
    page->index = -1;
    nap_list_add(cmd->pool, &room->pages, page);
    return page;
}

/* room=: finds the room that the page belongs to. */
static const char *owner_find(nap_page *page, apr_pool_t *p)
{
    nap_room *owner = apr_hash_get(nap_the_site->rooms, page->shared, APR_HASH_KEY_STRING);
    const nap_page *own = owner ? nap_page_named(owner, page->view.page) : NULL;

    if (!own || own->shared)
        return apr_psprintf(p, "NapPage %s: room=%s: that room has no page %s of its own",
                            page->view.page, page->shared, page->view.page);
    /* The page sells no tickets then, and here there is no session gate that would. */
    if (owner->view.session == 1 && page->owner->view.session != 1)
        return apr_psprintf(p, "NapPage %s: room=%s: that room has sessions, and room %s has none: "
                            "visitors refused there would get no ticket; give it NapSession too",
                            page->view.page, page->shared, page->owner->view.name);
    /* It sells tickets of its own then, and members would stand behind those who hold them. */
    if (owner->view.session != 1 && page->owner->view.session == 1)
        return apr_psprintf(p, "NapPage %s: room=%s: room %s has sessions, and that room has none: "
                            "its ticket holders would go before members; give it NapSession too, or define "
                            "the page in room %s and name it there",
                            page->view.page, page->shared, page->owner->view.name,
                            page->owner->view.name);
    page->owner = owner;
    return NULL;
}

/* Tells each gate the permits of the others, which share its workers. */
static void beside_set(nap_room *room)
{
    const nap_page *page;
    int64_t all = 0;

    NAP_EACH(page, room->pages)
        if (!page->shared)
            all += page->view.run_ready;
    nap_the_core->conf.beside(room->conf, all);
    NAP_EACH(page, room->pages)
        nap_the_core->conf.beside(page->conf, all - page->view.run_ready);
}

int nap_pages_check(server_rec *s, nap_room *room, apr_pool_t *p)
{
    nap_page *page;

    NAP_EACH(page, room->pages) {
        char *err = apr_pcalloc(p, NAP_ERR_MAX);
        const char *why = NULL;

        if (page->shared) {
            why = owner_find(page, p);
        }
        else {
            nap_the_core->conf.over(page->conf, room->conf);
            if (nap_the_core->conf.finish(page->conf, nap_the_site->conf, err) < 0)
                why = err;
            nap_conf_look(page->conf, &page->view);
        }
        if (why)
            return nap_complain(s, p, page->where, "%s", why);
    }
    if (room->pages)
        beside_set(room);
    return OK;
}

/* Gates of the room: its own, one for its sessions, and one for each page that is not another room's. */
size_t nap_pages_gates(const nap_room *room)
{
    size_t gates = 1 + (room->view.session == 1);
    const nap_page *page;

    NAP_EACH(page, room->pages)
        gates += !page->shared;
    return gates;
}

static __attribute__((noinline)) int matches_regex(const nap_page *page, const char *path, size_t len)
{
    return !ap_regexec_len(page->regex, path, len, 0, NULL, 0);
}

static inline int matches(const nap_page *page, const char *path, size_t len)
{
    size_t n = page->prefix_len;

    /* most paths of a room begin alike: their last letters differ more often */
    if (n && (len < n || path[n - 1] != page->prefix[n - 1] || memcmp(path, page->prefix, n)))
        return 0;
    return !page->regex || (page->exact && len == n) || matches_regex(page, path, len);
}

/* Which of these pages r asks for; NULL: none. Uses the URL as received: mod_dir and mod_rewrite change r->uri,
 * but not the parsed form. */
static const nap_page *asked(const nap_page *const *pages, int n, const request_rec *r)
{
    const char *path = r->parsed_uri.path ? r->parsed_uri.path : r->uri, *whole = NULL;
    size_t len = strlen(path);

    for (; n > 0; n--, pages++) {
        int query = (*pages)->query && r->args;

        if (query && !whole)
            whole = apr_pstrcat(r->pool, path, "?", r->args, NULL);
        if (query ? matches(*pages, whole, strlen(whole)) : matches(*pages, path, len))
            return *pages;
    }
    return NULL;
}

/* The page that an access asks for: by the URL that the visitor asked for first; if that has none, by r,
 * which brought the access into the room (as a directory's rule to a script in a room of <Files> does). */
const nap_page *nap_page_asked(const nap_room *room, const request_rec *first, const request_rec *r)
{
    const nap_page *const *pages = (const nap_page *const *)room->pages->elts, *page;
    int n = room->pages->nelts;

    page = asked(pages, n, first);
    return page || r == first ? page : asked(pages, n, r);
}

int nap_page_matches(const nap_page *page, const request_rec *first, const request_rec *r)
{
    return asked(&page, 1, first) || (r != first && asked(&page, 1, r));
}

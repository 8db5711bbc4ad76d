/* nap_use.c: NapUse in <Proxy>, and settings that bypass it.
 *
 * mod_proxy looks for a request's <Proxy> by the backend's address when it translates the URL. A request that
 * SetHandler or RewriteRule in a directory hands over later has none. For ProxyPass to a Unix socket the
 * address begins after the "|". The configuration does not tell which requests will come. But if a line hands
 * over to the very address of a <Proxy> with NapUse and has no NapUse beside it, a warning says so, in
 * configtest too.
 */
#include <apr_fnmatch.h>

#include "mod_nap.h"

/* The first argument of a section of this name; NULL: it is another section. */
const char *nap_section_word(const ap_directive_t *section, const char *name, apr_pool_t *p)
{
    const char *args;
    char *word, *end;

    if (!section || ap_cstr_casecmp(section->directive, name))
        return NULL;
    args = section->args;
    word = ap_getword_conf(p, &args);
    end = strrchr(word, '>');
    if (end && !end[1])
        *end = '\0';
    return word;
}

/* Is it inside a section other than a virtual host? */
static int is_in_directory(const ap_directive_t *d)
{
    const ap_directive_t *section = d->parent;

    while (section && !ap_cstr_casecmp(section->directive, "<VirtualHost"))
        section = section->parent;
    return section != NULL;
}

/* "[QSA,P]" */
static int hands_over(char *flags)
{
    char *last, *flag = apr_strtok(flags, "[], ", &last);

    while (flag && ap_cstr_casecmp(flag, "P") && ap_cstr_casecmp(flag, "proxy"))
        flag = apr_strtok(NULL, "[], ", &last);
    return flag != NULL;
}

/* The address that a SetHandler, or a RewriteRule in a directory, hands over to; NULL: none. */
static const char *handed_late(const ap_directive_t *d, apr_pool_t *p)
{
    const char *args = d->args, *to;

    if (!ap_cstr_casecmp(d->directive, "SetHandler")) {
        to = ap_getword_conf(p, &args);
        return strncmp(to, "proxy:", 6) ? NULL : to + 6;
    }
    if (ap_cstr_casecmp(d->directive, "RewriteRule") || !is_in_directory(d))
        return NULL;
    ap_getword_conf(p, &args);
    to = ap_getword_conf(p, &args);
    return hands_over(ap_getword_conf(p, &args)) ? to : NULL;
}

/* The Unix socket of a ProxyPass or ProxyPassMatch, and what follows it; NULL: there is none. */
static const char *passed_to_socket(const ap_directive_t *d, apr_pool_t *p)
{
    const char *args = d->args, *to;

    if (ap_cstr_casecmp(d->directive, "ProxyPass") && ap_cstr_casecmp(d->directive, "ProxyPassMatch"))
        return NULL;
    do {
        to = ap_getword_conf(p, &args);
    } while (*to && strncmp(to, "unix:", 5));
    return *to ? to : NULL;
}

/* Would mod_proxy find the section for `address` when it sends `to` there? A "/" may follow. */
static int is_for(const char *address, const char *to)
{
    size_t len = strlen(address);

    if (apr_fnmatch_test(address))
        return apr_fnmatch(address, to, 0) == APR_SUCCESS;
    while (len && address[len - 1] == '/')
        len--;
    return len && !strncmp(address, to, len);
}

/* Does this line hand over to `address`, but bypass its <Proxy>? */
static int goes_past(const ap_directive_t *d, const char *address, apr_pool_t *p)
{
    const char *to = handed_late(d, p), *behind = to ? ap_strchr_c(to, '|') : NULL;

    if (!to && !ap_cstr_casecmpn(address, "unix:", 5))
        to = passed_to_socket(d, p);
    return to && (is_for(address, to) || (behind && is_for(address, behind + 1)));
}

static int has_use_beside(const ap_directive_t *d)
{
    const ap_directive_t *beside = d->parent ? d->parent->first_child : ap_conftree;

    while (beside && ap_cstr_casecmp(beside->directive, "NapUse"))
        beside = beside->next;
    return beside != NULL;
}

/* The first such line from d on, in sections too; NULL: there is none. */
static const ap_directive_t *first_past(const ap_directive_t *d, const char *address, apr_pool_t *p)
{
    const ap_directive_t *found = NULL;

    for (; d && !found; d = d->next)
        found = goes_past(d, address, p) && !has_use_beside(d) ? d
              : first_past(d->first_child, address, p);
    return found;
}

/* check_config: a warning for each NapUse in <Proxy> that something bypasses. */
void nap_use_tell(server_rec *s, const nap_room *room, apr_pool_t *p)
{
    const ap_directive_t *use;

    NAP_EACH(use, room->uses) {
        const char *address = nap_section_word(use->parent, "<Proxy", p);
        const ap_directive_t *past = address ? first_past(ap_conftree, address, p) : NULL;

        if (past)
            ap_log_error(APLOG_MARK, APLOG_WARNING, 0, s, "mod_nap: NapUse %s in <Proxy> (%s line %d) "
                         "does not apply to requests that %s line %d hands over, as httpd looks up no "
                         "<Proxy> for them; put NapUse into the <Location>, <Directory> or <Files> of these "
                         "URLs",
                         room->view.name, use->filename, use->line_num, past->filename,
                         past->line_num);
    }
}

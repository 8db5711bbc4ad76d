/* nap_filter.c: files that filters make programs of.
 *
 * SSI and mod_ext_filter run programs for what would be a file else. Their filters stand in an answer's chain
 * by names of their own (SetOutputFilter, AddOutputFilter), or behind mod_filter's, which looks at the answer
 * only when it passes: which those are is read from the configuration. Of .htaccess, which is not read then, it
 * is known that "bytype:includes" is for pages.
 */
#include <util_filter.h>
#include <dlfcn.h>

#include "mod_nap.h"

/* A filter of mod_filter's that leads to one of those. */
typedef struct {
    const char *name;
    const char *types;               /* for answers of these types, with a space at either end; NULL: not known */
    int external;                    /* it leads to a filter of mod_ext_filter's: not to SSI */
} leading;

/* Where mod_ext_filter is; its filters have the administrator's names. NULL: it is not loaded. */
static const void *external;
static apr_array_header_t *defined;     /* of const char *: those names */
static apr_array_header_t *leads;       /* of leading */

/* What module a function is of; NULL: httpd's own, or nobody can tell. */
static const void *module_at(const void *address)
{
    Dl_info at, httpd;

    if (!dladdr(address, &at) || !dladdr(&core_module, &httpd) || at.dli_fbase == httpd.dli_fbase)
        return NULL;
    return at.dli_fbase;
}

/* ---- The configuration ------------------------------------------------------------------------- */

static int is_defined(const char *name)
{
    for (int i = 0; i < defined->nelts; i++)
        if (!ap_cstr_casecmp(name, APR_ARRAY_IDX(defined, i, const char *)))
            return 1;
    return 0;
}

/* `name` leads to the filter `to`, for these types. */
static void lead(const char *name, const char *to, const char *types)
{
    int is_external = is_defined(to);

    if (is_external || !ap_cstr_casecmp(to, "INCLUDES"))
        APR_ARRAY_PUSH(leads, leading) = (leading) { name, types, is_external };
}

static void note(const ap_directive_t *d, apr_pool_t *p)
{
    const char *args = d->args, *first;

    if (!ap_cstr_casecmp(d->directive, "ExtFilterDefine")) {
        APR_ARRAY_PUSH(defined, const char *) = ap_getword_conf(p, &args);
    }
    else if (!ap_cstr_casecmp(d->directive, "FilterProvider")) {
        first = ap_getword_conf(p, &args);
        lead(first, ap_getword_conf(p, &args), NULL);
    }
    else if (!ap_cstr_casecmp(d->directive, "AddOutputFilterByType")) {
        char *last, *name = apr_strtok(ap_getword_conf(p, &args), ";", &last);

        for (; name; name = apr_strtok(NULL, ";", &last))
            lead(apr_pstrcat(p, "BYTYPE:", name, NULL), name, apr_pstrcat(p, " ", args, " ", NULL));
    }
}

static void note_all(const ap_directive_t *d, apr_pool_t *p)
{
    for (; d; d = d->next) {
        note(d, p);
        note_all(d->first_child, p);
    }
}

/* check_config. ExtFilterDefine stands before the names that it defines are used. */
void nap_filter_read(apr_pool_t *p)
{
    defined = apr_array_make(p, 4, sizeof(const char *));
    leads = apr_array_make(p, 4, sizeof(leading));
    note_all(ap_conftree, p);
}

/* While the configuration is read: 1: there can be such filters. */
int nap_filter_can_run(void)
{
    const module *ext_filter = ap_find_linked_module("mod_ext_filter.c");

    external = ext_filter ? module_at(ext_filter) : NULL;
    return ext_filter || ap_find_linked_module("mod_include.c");
}

/* ---- A request --------------------------------------------------------------------------------- */

static int is_page(const char *type)
{
    return type && (ap_strcasestr(type, "html") || ap_strcasestr(type, "xml"));
}

static int is_one_of(const char *type, const char *types, apr_pool_t *p)
{
    size_t len = type ? strcspn(type, "; ") : 0;

    return len && ap_strcasestr(types, apr_pstrcat(p, " ", apr_pstrmemdup(p, type, len), " ", NULL));
}

static int leads_to_program(const ap_filter_t *f, const leading *to)
{
    const char *type = f->r->content_type;

    if (ap_cstr_casecmp(f->frec->name, to->name))
        return 0;
    if (to->types && is_one_of(type, to->types, f->r->pool))
        return 1;
    return to->external ? !to->types : is_page(type);
}

static int is_program(const ap_filter_t *f)
{
    if (!ap_cstr_casecmp(f->frec->name, "includes") ||
        (external && module_at((const void *)f->frec->filter_func.out_func) == external))
        return 1;
    for (int i = 0; i < leads->nelts; i++)
        if (leads_to_program(f, &APR_ARRAY_IDX(leads, i, leading)))
            return 1;
    return !ap_cstr_casecmp(f->frec->name, "bytype:includes") && is_page(f->r->content_type);
}

/* The filters of the answer to r, once they are all there, run a program. */
int nap_filters_run(const request_rec *r)
{
    for (const ap_filter_t *f = r->output_filters; f; f = f->next)
        if (f->frec->ftype < AP_FTYPE_PROTOCOL && is_program(f))
            return 1;
    return 0;
}

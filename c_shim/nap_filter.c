/* nap_filter.c: files that filters run as programs.
 *
 * SSI and mod_ext_filter run programs for what would otherwise be a plain file. Their filters are in an
 * answer's chain (SetOutputFilter, AddOutputFilter), or, for SSI only, behind mod_filter's, which look at the
 * answer only when it passes. The configuration tells which of those lead to SSI. An .htaccess has not been
 * read then; all that is known of it is that "bytype:includes" is for pages.
 */
#include <dlfcn.h>

#include "mod_nap.h"

/* A filter of mod_filter's that leads to SSI. */
typedef struct {
    const char *name;
    const char *types;               /* for answers of these types, with a space at either end; NULL: not known */
} leading;

static apr_array_header_t *leads;       /* of leading */

/* Where mod_ext_filter is loaded; administrators choose its filters' names. NULL: it is not loaded. */
static const void *external;

/* The module that a function belongs to; NULL: httpd itself, or not known. */
static const void *module_at(const void *address)
{
    Dl_info at, httpd;

    if (!dladdr(address, &at) || !dladdr(&core_module, &httpd) || at.dli_fbase == httpd.dli_fbase)
        return NULL;
    return at.dli_fbase;
}

static int is_includes(const char *filter)
{
    return !ap_cstr_casecmp(filter, "INCLUDES");
}

static void note(const ap_directive_t *d, apr_pool_t *p)
{
    for (; d; d = d->next) {
        const char *args = d->args, *first;
        char *last, *name;

        note(d->first_child, p);
        if (!ap_cstr_casecmp(d->directive, "FilterProvider")) {
            first = ap_getword_conf(p, &args);
            if (is_includes(ap_getword_conf(p, &args)))
                APR_ARRAY_PUSH(leads, leading) = (leading) { first, NULL };
        }
        if (ap_cstr_casecmp(d->directive, "AddOutputFilterByType"))
            continue;
        for (name = apr_strtok(ap_getword_conf(p, &args), ";", &last); name; name = apr_strtok(NULL, ";", &last))
            if (is_includes(name))
                APR_ARRAY_PUSH(leads, leading) = (leading) { "BYTYPE:INCLUDES", apr_pstrcat(p, " ", args, " ", NULL) };
    }
}

void nap_filter_read(apr_pool_t *p)
{
    leads = apr_array_make(p, 4, sizeof(leading));
    note(ap_conftree, p);
}

/* While the configuration is read. 1: such filters are possible. */
int nap_filter_can_run(void)
{
    const module *ext_filter = ap_find_linked_module("mod_ext_filter.c");

    external = ext_filter ? module_at(ext_filter) : NULL;
    return ext_filter || ap_find_linked_module("mod_include.c");
}

static int is_page(const char *type)
{
    return type && (ap_strcasestr(type, "html") || ap_strcasestr(type, "xml"));
}

static int is_one_of(const char *type, const char *types, apr_pool_t *p)
{
    size_t len = type ? strcspn(type, "; ") : 0;

    return len && ap_strcasestr(types, apr_pstrcat(p, " ", apr_pstrmemdup(p, type, len), " ", NULL));
}

static int leads_to_includes(const ap_filter_t *f, const leading *to)
{
    const char *type = f->r->content_type;

    if (ap_cstr_casecmp(f->frec->name, to->name))
        return 0;
    return is_page(type) || (to->types && is_one_of(type, to->types, f->r->pool));
}

static int is_program(const ap_filter_t *f)
{
    if (is_includes(f->frec->name) ||
        (external && module_at((const void *)f->frec->filter_func.out_func) == external))
        return 1;
    for (int i = 0; i < leads->nelts; i++)
        if (leads_to_includes(f, &APR_ARRAY_IDX(leads, i, leading)))
            return 1;
    return !ap_cstr_casecmp(f->frec->name, "bytype:includes") && is_page(f->r->content_type);
}

/* Does a filter of the answer to r run a program? Asked when all filters are there. */
int nap_filters_run(const request_rec *r)
{
    for (const ap_filter_t *f = r->output_filters; f; f = f->next)
        if (f->frec->ftype < AP_FTYPE_PROTOCOL && is_program(f))
            return 1;
    return 0;
}

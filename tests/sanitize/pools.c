/* pools.c: see pools.h. A pool's blocks hang on one cleanup, registered with the first of them.
 * Cleanups run last in, first out, so the shim's cleanups still find what they need. */
#include "pools.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#undef apr_palloc

#define KEY "nap-sanitize-blocks"

typedef struct block {
    struct block *next;
    max_align_t data[];
} block;

typedef struct blocks {
    block *first;
} blocks;

static apr_status_t free_all(void *data)
{
    blocks *all = data;

    while (all->first) {
        block *one = all->first;

        all->first = one->next;
        free(one);
    }
    return APR_SUCCESS;
}

void *nap_sane_palloc(apr_pool_t *p, apr_size_t size)
{
    block *one = malloc(sizeof *one + size);
    void *data;

    if (!one)
        abort();
    apr_pool_userdata_get(&data, KEY, p);
    if (!data) {
        data = memset(apr_palloc(p, sizeof(blocks)), 0, sizeof(blocks));
        /* Not _setn: the key would lie in a module that has been unloaded. */
        apr_pool_userdata_set(data, KEY, NULL, p);
        apr_pool_cleanup_register(p, data, free_all, apr_pool_cleanup_null);
    }
    one->next = ((blocks *)data)->first;
    ((blocks *)data)->first = one;
    return one->data;
}

void *nap_sane_pcalloc(apr_pool_t *p, apr_size_t size)
{
    return memset(nap_sane_palloc(p, size), 0, size);
}

void *nap_sane_pmemdup(apr_pool_t *p, const void *from, apr_size_t n)
{
    return from ? memcpy(nap_sane_palloc(p, n), from, n) : NULL;
}

char *nap_sane_pstrmemdup(apr_pool_t *p, const char *s, apr_size_t n)
{
    char *copy;

    if (!s)
        return NULL;
    copy = nap_sane_palloc(p, n + 1);
    memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
}

char *nap_sane_pstrdup(apr_pool_t *p, const char *s)
{
    return s ? nap_sane_pstrmemdup(p, s, strlen(s)) : NULL;
}

char *nap_sane_psprintf(apr_pool_t *p, const char *format, ...)
{
    va_list args;
    char *text;

    va_start(args, format);
    text = apr_pvsprintf(p, format, args);
    va_end(args);
    return nap_sane_pstrdup(p, text);
}

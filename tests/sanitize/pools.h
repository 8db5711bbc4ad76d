/* pools.h: for the sanitized build, included before every file of the shim. The shim's pool memory
 * comes from malloc and goes with the pool, so that AddressSanitizer sees its bounds and its end.
 * APR's own pools hand out parts of large blocks, where it sees neither. */
#ifndef NAP_SANITIZE_POOLS_H
#define NAP_SANITIZE_POOLS_H

#include <apr_pools.h>
#include <apr_strings.h>

void *nap_sane_palloc(apr_pool_t *p, apr_size_t size);
void *nap_sane_pcalloc(apr_pool_t *p, apr_size_t size);
void *nap_sane_pmemdup(apr_pool_t *p, const void *from, apr_size_t n);
char *nap_sane_pstrdup(apr_pool_t *p, const char *s);
char *nap_sane_pstrmemdup(apr_pool_t *p, const char *s, apr_size_t n);
char *nap_sane_psprintf(apr_pool_t *p, const char *format, ...);

#undef apr_pcalloc
#define apr_palloc nap_sane_palloc
#define apr_pcalloc nap_sane_pcalloc
#define apr_pmemdup nap_sane_pmemdup
#define apr_pstrdup nap_sane_pstrdup
#define apr_pstrmemdup nap_sane_pstrmemdup
#define apr_psprintf nap_sane_psprintf

#endif

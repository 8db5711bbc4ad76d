/* threads.h: included first in the shim when it is built for ThreadSanitizer.
 *
 * httpd passes a pool from thread to thread by its own atomics, which are not instrumented. So an
 * allocation is taken to come after everything that was done with pools that are gone. */
#ifndef NAP_THREADS_H
#define NAP_THREADS_H

#include <apr_pools.h>
#include <string.h>
#include <sanitizer/tsan_interface.h>

__attribute__((weak)) char pools_that_are_gone;

static inline apr_status_t nap_pool_gone(void *none)
{
    __tsan_release(&pools_that_are_gone);
    return APR_SUCCESS;
}

static inline void *nap_allocated(apr_pool_t *p, apr_size_t size)
{
    void *memory = apr_palloc(p, size);

    __tsan_acquire(&pools_that_are_gone);
    apr_pool_cleanup_register(p, NULL, nap_pool_gone, apr_pool_cleanup_null);
    return memory;
}

#define apr_palloc nap_allocated
#undef apr_pcalloc
#define apr_pcalloc(p, size) memset(nap_allocated(p, size), 0, size)

#endif

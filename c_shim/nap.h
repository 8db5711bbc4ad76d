/* nap.h: the contract between the C shim and the Rust core, with its parts in nap/.
 *
 * The shim includes these pages, and bindgen turns them into src/ffi/contract.rs (committed; `make check-bindings`
 * compares). They need no httpd header. The core is tables of functions, and so is what it may call back (nap_host),
 * so both compilers check the signatures.
 *
 * Rules: strings are borrowed for the call, not terminated. The core keeps no pointer but the host table. Every
 * function may be called from any thread of a child; only access.wait, step_in and bell block. A panic inside comes
 * back as the safe answer. Times are microseconds (_us), sizes bytes. The shim zeroes structs; `own` is the core's.
 */
#ifndef NAP_H
#define NAP_H

#include <stddef.h>
#include <stdint.h>

#define NAP_ABI 2
#define NAP_UNSET (-1)        /* a setting nobody made */
#define NAP_NONE UINT32_MAX   /* no room, no gate, no permit ... */
#define NAP_NAME_MAX 63       /* room and page names, bytes without the final zero */
#define NAP_ERR_MAX 512       /* a message */

typedef struct nap_str { const char *ptr; size_t len; } nap_str;

#include "nap/host.h"
#include "nap/conf.h"
#include "nap/access.h"
#include "nap/pages.h"
#include "nap/debts.h"
#include "nap/work.h"

typedef struct nap_core {
    uint32_t abi;
    nap_conf_calls conf;
    nap_server_calls server;
    nap_access_calls access;
    nap_pages_calls pages;
    nap_debts_calls debts;
    nap_polls_calls polls;
    nap_balancer_calls balancer;
} nap_core;

const nap_core *nap_core_table(void);   /* the only symbol of the core that the shim links to */

#endif

/* mod_nap.c: the module's table of contents. The record, then every hook with its reason to be
 * where it is; the bodies are in the files that mod_nap.h lists.
 */
#include <mod_status.h>

#include "mod_nap.h"

static void nap_hooks(apr_pool_t *p);

module AP_MODULE_DECLARE_DATA nap_module = {
    STANDARD20_MODULE_STUFF,
    nap_dir_create,
    nap_dir_merge,
    NULL,              /* settings of the whole server are in nap_the_site;  */
    nap_bwshare_merge, /* here are those that a virtual host may override */
    nap_directives,
    nap_hooks,
    AP_MODULE_FLAG_NONE
};

extern module nap_itself __attribute__((alias("nap_module")));

static void nap_hooks(apr_pool_t *p)
{
    static const char *const before_rewrite[] = { "mod_rewrite.c", NULL };

    /* Configuration. check_config runs on configtest, post_config does not. Ours come last: the
     * MPM corrects its limits in its own. */
    ap_hook_pre_config(nap_site_create, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_check_config(nap_site_check, NULL, NULL, NAP_LAST);
    ap_hook_post_config(nap_server_start, NULL, NULL, NAP_LAST);

    /* Processes. child_status runs in the parent after waitpid, so before the pid is used again. */
    ap_hook_child_init(nap_child_start, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_child_status(nap_child_status, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_monitor(nap_server_tick, NULL, NULL, APR_HOOK_MIDDLE);

    /* The nap-ticket parameter is removed before anybody can see or log it. */
    nap_query_register(p);
    ap_hook_post_read_request(nap_query_take, NULL, NULL, NAP_FIRST);

    /* NapTicketPath: before `ProxyPass /` and `RewriteRule ^` can take it, and without the
     * authorization, which a refused visitor has passed already or has not come to. */
    ap_hook_translate_name(nap_page_translate, NULL, NULL, NAP_FIRST);
    ap_hook_handler(nap_page_handler, NULL, NULL, NAP_FIRST);
    ap_hook_fixups(nap_page_fixup, NULL, before_rewrite, APR_HOOK_FIRST);   /* behind SetHandler */
    APR_OPTIONAL_HOOK(ap, status_hook, nap_server_status, NULL, NULL, APR_HOOK_MIDDLE);

    /* Admission: after authorization, mod_dir and rewriting, when the handler is known; or, with
     * NapAdmit early, before a costly login (nap_access_hook_early, hooked only where it is used). */
    ap_hook_fixups(nap_access_late, NULL, NULL, NAP_LAST);

    /* The answer, and its end. Notes must be there before mod_log_config looks; an answer that is sent
     * is over, whatever a log does. */
    nap_page_register();
    nap_answer_register(p);
    nap_body_register(p);
    ap_hook_pre_connection(nap_line_open, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_log_transaction(nap_answer_end, NULL, NULL, NAP_FIRST);
}

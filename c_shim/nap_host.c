/* nap_host.c: what the core may call (nap_host in nap.h). Each copies what it is
 * given, but for the names of headers. */
#include <http_main.h>

#include "mod_nap.h"

static const char *copy(request_rec *r, nap_str s)
{
    return apr_pstrmemdup(r->pool, s.ptr ? s.ptr : "", s.len);
}

static void err_header(void *r, const char *name, nap_str value)
{
    apr_table_addn(((request_rec *)r)->err_headers_out, name, copy(r, value));
}

static void set_err_header(void *r, const char *name, nap_str value)
{
    apr_table_setn(((request_rec *)r)->err_headers_out, name, copy(r, value));
}

static void content_type(void *r, nap_str type)
{
    ap_set_content_type(r, copy(r, type));
}

/* Kept until the handler knows the status: what is written now would send the headers. */
static void write_body(void *r, nap_str body)
{
    nap_handle *h = nap_handle_at(r);

    if (h && h->body && body.len)
        apr_brigade_write(h->body, NULL, NULL, body.ptr, body.len);
}

static void variable(void *r, nap_str name, nap_str value)
{
    apr_table_setn(((request_rec *)r)->subprocess_env, copy(r, name), copy(r, value));
}

static void log_line(int level, nap_str line)
{
    ap_log_error(APLOG_MARK, level & APLOG_LEVELMASK, 0, ap_server_conf, "%.*s",
                 (int)line.len, line.ptr);
}

/* One write() a line, so that children appending to one file do not mix. */
static void ticket_log(nap_str line)
{
    char buf[2048];
    size_t len = line.len < sizeof buf - 1 ? line.len : sizeof buf - 1;

    if (!nap_the_site || !nap_the_site->log)
        return;
    memcpy(buf, line.ptr, len);
    buf[len++] = '\n';
    apr_file_write(nap_the_site->log, buf, &len);
}

const nap_host nap_the_host = { err_header, set_err_header, content_type, write_body,
                                variable, log_line, ticket_log };

/* nap_host.c: what the core may call (nap_host in nap.h). Each function copies what it is given,
 * except the names of headers. */
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <apr_atomic.h>
#include <ap_listen.h>
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

/* Kept until the handler knows the status: writing now would send the headers. */
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

/* Logged once a minute by each process. */
static NAP_SELDOM void line_lost(apr_status_t why)
{
    static volatile apr_uint32_t lost, told;    /* lines; when they were last logged, in seconds */
    apr_uint32_t lines = apr_atomic_inc32(&lost) + 1, last = apr_atomic_read32(&told);
    apr_uint32_t now = (apr_uint32_t)apr_time_sec(apr_time_now());

    if (now - last >= 60 && apr_atomic_cas32(&told, now, last) == last)
        ap_log_error(APLOG_MARK, APLOG_WARNING, why, ap_server_conf, "mod_nap: NapTicketLog cannot be "
                     "written; this process has lost %u lines", lines);
}

/* One write() a line, so that lines of several children in one file do not mix. A pipe that is full loses
 * the line, so that nobody waits for it (log_open). */
static void ticket_log(nap_str line)
{
    char buf[2048];
    size_t len = line.len < sizeof buf - 1 ? line.len : sizeof buf - 1;
    apr_status_t rv;

    if (!nap_the_site || !nap_the_site->log)
        return;
    memcpy(buf, line.ptr, len);
    buf[len++] = '\n';
    if ((rv = apr_file_write(nap_the_site->log, buf, &len)) != APR_SUCCESS)
        line_lost(rv);
}

static int name_of(const uint8_t address[16], char *name, size_t size)
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    struct sockaddr_in v4 = { .sin_family = AF_INET };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
    int is_v4 = !memcmp(address, mapped, sizeof mapped);

    memcpy(&v4.sin_addr, address + 12, 4);
    memcpy(&v6.sin6_addr, address, 16);
    return !getnameinfo(is_v4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6, is_v4 ? sizeof v4 : sizeof v6,
                        name, (socklen_t)size, NULL, 0, NI_NAMEREQD);
}

/* All zeros: the kernel does not say. */
static struct tcp_info tcp_info_of(apr_socket_t *socket)
{
    struct tcp_info info = { 0 };
    socklen_t len = sizeof info;

    if (getsockopt(nap_descriptor(socket), IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
        return (struct tcp_info) { 0 };
    return info;
}

static uint32_t received(void *r)
{
    conn_rec *c = ((request_rec *)r)->connection;

    return tcp_info_of(ap_get_conn_socket(c->master ? c->master : c)).tcpi_last_data_recv;
}

static uint32_t outside(void)
{
    uint32_t all = 0, seen = 0;

    for (ap_listen_rec *l = ap_listeners; l; l = l->next) {
        struct tcp_info info = tcp_info_of(l->sd);

        if (info.tcpi_state == TCP_LISTEN) {
            all += info.tcpi_unacked;       /* of a listening socket: how many wait to be accepted */
            seen = 1;
        }
    }
    return seen ? all : UINT32_MAX;
}

const nap_host nap_the_host = { err_header, set_err_header, content_type, write_body,
                                variable, log_line, ticket_log, name_of, received, outside };

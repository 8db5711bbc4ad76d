/* nap/host.h: what the core may call. */

enum { NAP_LOG_ERROR = 3, NAP_LOG_WARN, NAP_LOG_NOTICE, NAP_LOG_INFO, NAP_LOG_DEBUG };

typedef struct nap_host {
    /* a header of r's answer that survives an error redirect, added or set; the name is a constant of the core */
    void (*err_header)(void *r, const char *name, nap_str value);
    void (*set_err_header)(void *r, const char *name, nap_str value);
    void (*content_type)(void *r, nap_str type);    /* of the answer that the handler is making; then its body */
    void (*write)(void *r, nap_str body);
    void (*variable)(void *r, nap_str name, nap_str value);     /* for an ErrorDocument, as REDIRECT_<name> */
    void (*log)(int level, nap_str line);           /* to the server's error log */
    void (*ticket_log)(nap_str line);               /* to NapTicketLog, if there is one */
    /* the name that DNS or the hosts file gives an address; takes as long as the look-up does. 0: none */
    int (*name_of)(const uint8_t address[16], char *name, size_t size);
    /* how many milliseconds ago the last of r came over its connection, by the kernel's clock. 0: not known */
    uint32_t (*received)(void *r);
    /* connections that the kernel has accepted and no worker has taken; UINT32_MAX: not known */
    uint32_t (*outside)(void);
} nap_host;

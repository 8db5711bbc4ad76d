//! Everything that the module can show at once: pages, sessions, a polled event, and a balancer.

use super::backends::{Backend, MODULES};
use super::{Builder, Httpd};

/// Sessions, a page, an event and a balancer, in addition.
const MORE: &str = r#"
<NapRoom shop>
NapRunReady 1
NapWaitLimit 1
NapSessionQueue 1
NapSession cookie=SID start=^/cgi-bin/login
NapSessionStart 1ms
NapPage search ^/cgi-bin/page
</NapRoom>
<LocationMatch "^/cgi-bin/(login|page)">
NapUse shop
</LocationMatch>
<Location /score>
TelePoll score base=10s rate=100
</Location>
ProxyPass /nap-metrics !
ProxyPass /nap-info !
ProxyPass /server-status !
ProxyPass /cgi-bin !
ProxyPass /counter !
ProxyPass /score !
ProxyPass / balancer://work/
"#;

/// Signs in with the application's own cookie.
const LOGIN: &str = "#!/bin/sh
printf 'Content-Type: text/plain\r\nSet-Cookie: SID=abc; Path=/\r\n\r\nhello\n'
";
const PAGE: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nthe page\\n'\n";

impl Builder {
    /// In addition to what is configured already; everything else goes to the balancer.
    pub fn everything(self, backends: &[Backend]) -> Self {
        let members: String = (backends.iter())
            .map(|b| format!("BalancerMember {}\n", b.url()))
            .collect();
        let balancer = format!("<Proxy balancer://work>\n{members}ProxySet lbmethod=nap\n</Proxy>");
        self.modules(&MODULES)
            .config(&balancer)
            .config(MORE)
            .cgi("login", LOGIN)
            .cgi("page", PAGE)
            .file("htdocs/score/now.json", "{}")
    }
}

impl Httpd {
    /// Each of these is used once or twice.
    pub fn use_everything(&self) {
        assert_eq!(self.get("/cgi-bin/login").status, 200);
        let member = self.request("GET", "/cgi-bin/page", &[("Cookie", "SID=abc")], b"");
        assert_eq!(member.status, 200);
        for _ in 0..2 {
            assert_eq!(self.get("/score/now.json").status, 200);
            assert_eq!(self.get("/work?size=100").status, 200);
        }
    }
}

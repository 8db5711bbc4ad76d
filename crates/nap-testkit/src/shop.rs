//! The demo's shop for a test: PHP-FPM and PostgreSQL, private to it and removed with it.

use super::Builder;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The shop's pages as `nap-load sessions` takes them.
pub const PAGES: [&str; 7] = [
    "/shop/login",
    "/shop/new",
    "/shop/list?category={number}",
    "/shop/article?article={number}",
    "/shop/search?q={number}",
    "POST:/shop/buy?article={number}",
    "/shop/logout",
];

/// An application server and its database, ready for httpd.
pub struct Shop {
    process: Child,
    root: PathBuf,
}

impl Shop {
    /// With variables of `demo/shop/serve.sh`; panics with its own words if it does not come up.
    pub fn start(settings: &[(&str, &str)]) -> Shop {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        // A socket's path must be short.
        let root = std::env::temp_dir().join(format!("nap-shop-{}-{n}", std::process::id()));
        let script = super::made::repository().join("demo/shop/serve.sh");
        let mut process = Command::new(script)
            .arg(&root)
            .envs(settings.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("bash runs");
        let mut said = String::new();
        let mut output = BufReader::new(process.stdout.take().expect("it was piped"));
        let heard = output.read_line(&mut said);
        let shop = Shop { process, root };
        if heard.is_err() || said != "ready\n" {
            shop.complain();
        }
        shop
    }

    fn complain(mut self) -> ! {
        let mut errors = String::new();
        let stderr = self.process.stderr.take();
        let _ = stderr.map(|mut stderr| stderr.read_to_string(&mut errors));
        panic!("the shop did not start (`make setup-all` installs what it needs):\n{errors}")
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        // It ends when its input ends.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.root);
    }
}

impl Builder {
    /// With the shop's pages under `/shop/`.
    pub fn shop(self, shop: &Shop) -> Self {
        let root = shop.root.display();
        self.modules(&["proxy", "proxy_fcgi"]).config(&format!(
            "AliasMatch \"^/shop/([a-z]+)$\" \"{root}/pages/$1.php\"\n\
             <FilesMatch \"\\.php$\">\nSetHandler \"proxy:unix:{root}/fpm.sock|fcgi://shop\"\n\
             </FilesMatch>\n<Directory {root}>\nRequire all granted\n</Directory>\nProxyTimeout 600"
        ))
    }
}

//! The pages of `demo/work.c`, each of which needs something different.

use super::{Builder, Httpd, made};

impl Builder {
    /// With `/work?cpu=30` and the like; the file `data/slower` under the ServerRoot multiplies all times.
    pub fn work(mut self) -> Self {
        let program = std::fs::read(made::file("cgi/work")).expect("our own program is read");
        self.files.push(("cgi-bin/work".into(), program, 0o755));
        self.config("SetEnv WORK_DIR {root}/data\nScriptAlias /work {root}/cgi-bin/work")
    }
}

impl Httpd {
    /// All pages take longer by this factor from now on.
    pub fn make_work_slower(&self, factor: f64) {
        std::fs::write(self.root().join("data/slower"), factor.to_string())
            .expect("the ServerRoot takes a file");
    }
}

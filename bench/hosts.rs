//! The httpds that benches use: as distributions ship them, and roomy.

use crate::board;
use nap_testkit::{Builder, Mpm};

/// Debian's mpm_event.conf and mpm_worker.conf; the limit of servers is httpd's own.
const STOCK_THREADS: &str = "ServerLimit 16\nStartServers 2\nMinSpareThreads 25\nMaxSpareThreads 75\n\
     ThreadLimit 64\nThreadsPerChild 25\nMaxRequestWorkers 150\nMaxConnectionsPerChild 0";
/// Debian's mpm_prefork.conf.
const STOCK_PREFORK: &str = "ServerLimit 256\nStartServers 5\nMinSpareServers 5\nMaxSpareServers 10\n\
     MaxRequestWorkers 150\nMaxConnectionsPerChild 0";

/// An httpd, and the least rate that is promised on it.
pub struct Host {
    /// Its name in an option.
    pub name: &'static str,
    pub mpm: Mpm,
    /// Processes and threads; None: the lines below.
    sizes: Option<(u32, u32)>,
    stock: &'static str,
    /// As a share of the best rate of the others in the same run.
    pub least: f64,
}

/// The httpds to choose from.
pub const HOSTS: [Host; 4] = [
    Host {
        name: "event-stock",
        mpm: Mpm::Event,
        sizes: None,
        stock: STOCK_THREADS,
        least: 0.95,
    },
    Host {
        name: "event-roomy",
        mpm: Mpm::Event,
        sizes: Some((2, 400)),
        stock: "",
        least: 0.95,
    },
    Host {
        name: "worker-stock",
        mpm: Mpm::Worker,
        sizes: None,
        stock: STOCK_THREADS,
        least: 0.90,
    },
    Host {
        name: "prefork-stock",
        mpm: Mpm::Prefork,
        sizes: None,
        stock: STOCK_PREFORK,
        least: 0.90,
    },
];

impl Host {
    /// The httpd with this name; ends the bench with a sentence if there is none.
    pub fn named(name: &str) -> &'static Host {
        let host = HOSTS.iter().find(|host| host.name == name);
        host.unwrap_or_else(|| {
            let names = HOSTS.map(|host| host.name).join(", ");
            board::stop(&format!("{name}: {names} are meant"))
        })
    }

    /// The httpd with this MPM as Debian ships it.
    pub fn stock(mpm: Mpm) -> &'static Host {
        let stock = HOSTS
            .iter()
            .find(|host| host.mpm == mpm && host.sizes.is_none());
        stock.expect("there is one for each")
    }

    /// A server with its MPM and its workers.
    pub fn on(&self, server: Builder) -> Builder {
        // Without sizes the stock lines after them override those of the builder.
        let (processes, threads) = self.sizes.unwrap_or((2, 25));
        let server = server.mpm(self.mpm).workers(processes, threads);
        server.config(self.stock)
    }
}

//! The families of a fleet, where there is one (`NapStore`).

use std::fmt::Write as _;

use super::MetricText;
use super::families::FLEET;
use crate::info::fleet::{FleetLine, STATES, StoreLine, state};
use nap_core::fleet::link::TRIPS_UP_TO;

impl MetricText {
    pub(super) fn fleet(&mut self, fleet: &FleetLine) {
        let name = "nap_node_info";
        self.head(name, "What this server is called in its fleet.");
        self.sample(name, &[("node", &fleet.node)], 1.0);
        self.rows(FLEET, &[(Vec::new(), fleet)]);
        self.trips(&fleet.store);
        let name = "nap_store_letters_total";
        self.head(
            name,
            "Tickets that the store was asked about, by its answer.",
        );
        for (answer, letters) in fleet.tickets.asked.all() {
            self.sample(name, &[("answer", answer)], letters as f64);
        }
        let name = "nap_fleet_nodes";
        self.head(
            name,
            "Nodes of the fleet as this server sees them, by their state.",
        );
        for state in STATES.map(state) {
            let nodes = fleet.nodes.iter().filter(|node| node.state == state);
            self.sample(name, &[("state", state)], nodes.count() as f64);
        }
    }

    /// The store's histogram of round trips.
    fn trips(&mut self, store: &StoreLine) {
        let name = "nap_store_round_trip_seconds";
        let help = "Round trips to the store.";
        // Writing to a string does not fail.
        writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} histogram").ok();
        let ends = TRIPS_UP_TO.map(|end| (end as f64 / 1e6).to_string());
        let ends = ends.iter().map(String::as_str).chain(["+Inf"]);
        let mut all = 0_u64;
        for (end, trips) in ends.zip(&store.trips) {
            all = all.saturating_add(*trips);
            self.sample(&format!("{name}_bucket"), &[("le", end)], all as f64);
        }
        self.sample(&format!("{name}_sum"), &[], store.trips_sum_s);
        self.sample(&format!("{name}_count"), &[], all as f64);
    }
}

//! [`Limit`]: the limits in force of a server or a virtual host.

use crate::bwshare::client::{Prefixes, WIDE, tag};
use crate::bwshare::horizons::{HORIZONS, Horizons};
use crate::bwshare::limits::{Limits, Units};
use crate::bwshare::service::{ServiceTerms, Steering};

/// The limits in force of a server or a virtual host.
#[derive(Clone, Debug)]
pub struct Limit {
    /// Of a client, and of its wider prefix.
    pub limits: [Limits; 2],
    /// How much of an address is one client.
    pub prefixes: Prefixes,
    /// 0: the server's; else a virtual host's own.
    pub scope: u32,
    /// That host's name; empty: the server's.
    pub host: String,
    /// The share of requests that should be inside each horizon.
    pub shares: [f64; HORIZONS],
    /// Bytes a second that the line carries; None: nothing is steered.
    pub link: Option<f64>,
    /// Where its service is kept; None: there are no horizons to steer.
    pub service: Option<usize>,
    /// What there is to do for who owes little, besides charging: [`more`]s, or-ed; 0: nothing. A word as
    /// [`Charge::wide`](super::charge::Charge::wide) is: both are looked at in one.
    pub more: u64,
    /// Its keys have a tag of their own, so its debts are repriced when its rates change.
    pub alone: bool,
}

/// Bits of [`Limit::more`].
pub mod more {
    /// A fleet is told.
    pub const TOLD: u64 = 1;
    /// Horizons are steered.
    pub const STEERED: u64 = 2;
}

impl Limit {
    /// The server's, with what a client may owe.
    pub fn new(limits: Limits) -> Limit {
        Limit {
            limits: [limits, limits.times(WIDE)],
            prefixes: Prefixes::DEFAULT,
            scope: 0,
            host: String::new(),
            shares: [0.0; HORIZONS],
            link: None,
            service: None,
            more: 0,
            alone: false,
        }
    }

    /// The horizons of a client.
    pub fn horizons(&self) -> &Horizons {
        &self.limits[0].horizons
    }

    /// Are there horizons to steer?
    pub fn is_steered(&self) -> bool {
        self.link.is_some() && !self.horizons().is_empty()
    }

    /// What its service is judged by.
    pub fn terms(&self) -> Option<ServiceTerms<'_>> {
        Some(ServiceTerms {
            horizons: self.horizons(),
            shares: self.shares,
            link: self.link?,
            steering: Steering::CHOSEN,
        })
    }
}

/// Notes which of these stand alone under their tag, and returns the units of those. Hosts that happen to share a
/// tag are left out: it could not be told whose a debt is.
pub fn units_of(limits: &mut [Limit]) -> Vec<(u8, Units)> {
    let tags: Vec<u8> = limits.iter().map(|limit| tag(limit.scope)).collect();
    for (limit, own) in limits.iter_mut().zip(&tags) {
        limit.alone = tags.iter().filter(|tag| *tag == own).count() == 1;
    }
    let alone = limits.iter().filter(|limit| limit.alone);
    alone
        .map(|limit| (tag(limit.scope), limit.limits[0].units()))
        .collect()
}

pub(super) fn entries_of(limits: &[Limit]) -> usize {
    1 + usize::from(limits.iter().any(|limit| !limit.horizons().is_empty()))
}

//! [`Control`]: what an administrator has set by hand for a gate, until they take it back.
//!
//! There is one entry a gate, written under the lock and read by anybody. A word counts only beside
//! its mark, so that a stray write leaves the gate as configured. All zero = nothing is set.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::Tables;
use super::permits::PERMITS;

/// Bytes of a notice.
pub const NOTICE: usize = 240;
/// Revoked tickets remembered, the newest.
const REVOKED: usize = 64;
/// The mark above a limit in its word.
const LIMIT: u64 = 0x6c69_6d74 << 32;

/// Which visitors a gate lets in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u32)]
pub enum Mode {
    /// Those that its limits let in.
    #[default]
    Open = 0,
    /// Ticket holders; everybody else is given a ticket.
    Tickets = 0x7469_636b,
    /// Nobody.
    Closed = 0x636c_6f73,
}

impl Mode {
    fn of(word: u32) -> Mode {
        [Mode::Tickets, Mode::Closed]
            .into_iter()
            .find(|mode| *mode as u32 == word)
            .unwrap_or_default()
    }

    /// Its name in pages.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Open => "open",
            Mode::Tickets => "tickets",
            Mode::Closed => "closed",
        }
    }
}

/// What is set for one gate.
#[repr(C)]
#[derive(Debug)]
pub struct Control {
    /// [`Mode`].
    mode: AtomicU32,
    /// Bytes of the notice; 0 = none.
    notice_len: AtomicU32,
    /// [`LIMIT`] and Run Ready; 0 = as configured.
    limit: AtomicU64,
    /// The notice, eight bytes a word.
    notice: [AtomicU64; NOTICE / 8],
    /// Tickets revoked ever; the next is kept at this modulo [`REVOKED`].
    n_revoked: AtomicU64,
    /// Their ids; 0 = none.
    revoked: [AtomicU64; REVOKED],
}

/// An order, for all gates at which visitors enter a room.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// Let in these visitors.
    Admit(Mode),
    /// Run this many at once, whatever is configured or learnt; none: as configured.
    Limit(Option<u32>),
    /// Tell refused visitors; empty: nothing.
    Notice(String),
    /// This ticket is no longer good.
    Revoke(u64),
}

impl Control {
    /// Which visitors the gate lets in.
    pub fn mode(&self) -> Mode {
        Mode::of(self.mode.load(Relaxed))
    }

    /// Run Ready, where it is fixed by hand.
    pub fn limit(&self) -> Option<u32> {
        let word = self.limit.load(Relaxed);
        let fixed = word & !0xffff_ffff == LIMIT;
        fixed
            .then_some(word as u32)
            .filter(|n| (1..=PERMITS as u32).contains(n))
    }

    /// What refused visitors are told. A read while it is written may give nothing.
    pub fn notice(&self) -> String {
        let len = self.notice_len.load(Relaxed) as usize;
        if len == 0 || len > NOTICE {
            return String::new();
        }
        let words = self.notice.iter().map(|word| word.load(Relaxed));
        let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        bytes.truncate(len);
        let text = String::from_utf8(bytes).unwrap_or_default();
        match text.contains(char::is_control) {
            true => String::new(),
            false => text,
        }
    }

    /// Tickets revoked ever.
    pub fn n_revoked(&self) -> u64 {
        self.n_revoked.load(Relaxed)
    }

    /// Is this ticket no longer good?
    pub fn is_revoked(&self, id: u64) -> bool {
        self.n_revoked() != 0 && self.revoked.iter().any(|word| word.load(Relaxed) == id)
    }

    /// Clears all that is set.
    pub fn empty(&self) {
        self.mode.store(0, Relaxed);
        self.notice_len.store(0, Relaxed);
        self.limit.store(0, Relaxed);
        self.n_revoked.store(0, Relaxed);
        self.revoked.iter().for_each(|word| word.store(0, Relaxed));
    }

    fn set(&self, order: &Order) {
        match order {
            Order::Admit(mode) => self.mode.store(*mode as u32, Relaxed),
            Order::Limit(None) => self.limit.store(0, Relaxed),
            Order::Limit(Some(n)) => self.limit.store(LIMIT | u64::from(*n), Relaxed),
            Order::Notice(text) => self.set_notice(text),
            // It is told again to a node that missed it, and to others with that.
            Order::Revoke(id) if self.is_revoked(*id) => {}
            Order::Revoke(id) => {
                let n = self.n_revoked.fetch_add(1, Relaxed);
                self.revoked[n as usize % REVOKED].store(*id, Relaxed);
            }
        }
    }

    fn set_notice(&self, text: &str) {
        let end = (0..=text.len().min(NOTICE))
            .rev()
            .find(|&end| text.is_char_boundary(end));
        let bytes = &text.as_bytes()[..end.unwrap_or(0)];
        self.notice_len.store(0, Relaxed);
        for (word, chunk) in self.notice.iter().zip(bytes.chunks(8)) {
            let mut eight = [0; 8];
            eight[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(eight), Relaxed);
        }
        self.notice_len.store(bytes.len() as u32, Relaxed);
    }
}

impl Default for Control {
    fn default() -> Self {
        Control {
            mode: AtomicU32::new(0),
            notice_len: AtomicU32::new(0),
            limit: AtomicU64::new(0),
            notice: [const { AtomicU64::new(0) }; NOTICE / 8],
            n_revoked: AtomicU64::new(0),
            revoked: [const { AtomicU64::new(0) }; REVOKED],
        }
    }
}

impl Tables<'_> {
    /// Carries out an order for a room, or for all of them (none). False: there is no such room.
    pub fn order(&mut self, room: Option<&str>, order: &Order) -> bool {
        let mut found = false;
        for at in 0..self.rooms.len() {
            let one = self.rooms[at];
            if one.used == 0 || room.is_some_and(|room| room != one.name()) {
                continue;
            }
            found = true;
            // With sessions, visitors inside can finish: others are stopped at the session gate.
            let is_session = |gate: u32| one.session_gate == gate.saturating_add(1);
            let gates = one.gates().filter(|&gate| match order {
                Order::Admit(_) => one.session_gate == 0 || is_session(gate),
                Order::Limit(_) => !is_session(gate),
                Order::Notice(_) | Order::Revoke(_) => true,
            });
            for gate in gates {
                if let Some(control) = self.controls.get(gate as usize) {
                    control.set(order);
                }
                let pacing = self.pacing.get(gate as usize);
                let found = pacing.filter(|page| page.moves_itself());
                let found = found.map(|page| page.limit());
                if let Some(mut view) = self.gate(gate) {
                    view.ordered(found);
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_read_and_can_be_taken_back() {
        let control = Control::default();
        assert_eq!((control.mode(), control.limit()), (Mode::Open, None));
        assert_eq!(control.notice(), "");
        control.set(&Order::Admit(Mode::Closed));
        control.set(&Order::Limit(Some(7)));
        control.set(&Order::Notice("Back at 14:00 — あとで".to_owned()));
        control.set(&Order::Revoke(0xbead));
        assert_eq!((control.mode(), control.limit()), (Mode::Closed, Some(7)));
        assert_eq!(control.notice(), "Back at 14:00 — あとで");
        assert!(control.is_revoked(0xbead) && !control.is_revoked(0xbee));
        control.set(&Order::Revoke(0xbead));
        assert_eq!(control.n_revoked(), 1, "it is so already");
        control.set(&Order::Admit(Mode::Open));
        control.set(&Order::Limit(None));
        control.set(&Order::Notice(String::new()));
        assert_eq!((control.mode(), control.limit()), (Mode::Open, None));
        assert_eq!(control.notice(), "");
        control.empty();
        assert!(!control.is_revoked(0xbead));
    }

    #[test]
    fn a_long_notice_ends_with_a_whole_character() {
        let control = Control::default();
        control.set(&Order::Notice("あ".repeat(100)));
        assert_eq!(control.notice(), "あ".repeat(NOTICE / 3));
    }

    #[test]
    fn a_stray_write_sets_nothing() {
        let control = Control::default();
        for stray in [1, 77, u64::MAX, 1 << 32] {
            control.mode.store(stray as u32, Relaxed);
            control.limit.store(stray, Relaxed);
            control.notice_len.store(stray as u32, Relaxed);
            control.notice[0].store(u64::MAX, Relaxed);
            assert_eq!((control.mode(), control.limit()), (Mode::Open, None));
            assert_eq!(control.notice(), "");
        }
        control.limit.store(LIMIT, Relaxed);
        assert_eq!(control.limit(), None, "0 is no limit");
    }
}

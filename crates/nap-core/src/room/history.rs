//! The issue history: the last 1,024 tickets with their fate, a ring under the lock. (In paper
//! 4.2.2 the server records id, original request, start, validity and end.)

use crate::micros::Micros;
use crate::nap::ticket::Ticket;

/// Tickets remembered.
pub const RECORDS: usize = 1024;
/// Bytes of method and URI kept of the refused request.
pub const REQUEST_BYTES: usize = 120;

/// Gate of a ticket whose room is no longer in the tables.
pub const NO_GATE: u32 = u32::MAX;

/// What became of a ticket, as a number in shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Fate {
    /// Out, not presented yet.
    Sold = 0,
    /// Let in within its prime window.
    Redeemed = 1,
    /// Let in before its time, as a newcomer.
    Early = 2,
    /// Came after its prime window: re-booked, or let in as a newcomer.
    Late = 3,
    /// Presented in time, but put off by the deadline guard, with a guard ticket.
    Deferred = 4,
    /// Presented in time and not let in. Must not happen; counted.
    Broken = 5,
    /// Over, grace included, and not redeemed.
    Expired = 6,
    /// Let in before its time, because it was called.
    Called = 7,
}

impl Fate {
    /// Each with its name, in the order of their numbers.
    const NAMES: [(Fate, &'static str); 8] = [
        (Fate::Sold, "sold"),
        (Fate::Redeemed, "redeemed"),
        (Fate::Early, "early"),
        (Fate::Late, "late"),
        (Fate::Deferred, "deferred"),
        (Fate::Broken, "broken"),
        (Fate::Expired, "expired"),
        (Fate::Called, "called"),
    ];

    /// The fate a stored number means; unknown numbers count as sold.
    pub fn of(raw: u32) -> Fate {
        Fate::NAMES
            .get(raw as usize)
            .map_or(Fate::Sold, |&(fate, _)| fate)
    }

    /// The fate of a ticket redeemed by an access that came at `entered`.
    pub fn of_redeemed(ticket: &Ticket, entered: Micros) -> Fate {
        if ticket.has(Ticket::CALLED) {
            Fate::Called
        } else if entered < ticket.start {
            Fate::Early
        } else if entered < ticket.prime_end {
            Fate::Redeemed
        } else {
            Fate::Late
        }
    }

    /// Its name in logs and pages.
    pub fn name(self) -> &'static str {
        Fate::NAMES[self as usize].1
    }
}

/// One ticket. All zero = none.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// The ticket's id (MD5's first 64 bits); with `serial` zero there is no record.
    pub id: u64,
    /// Running number of the ticket, from 1.
    pub serial: u32,
    /// Gate that sold it, or [`NO_GATE`].
    pub gate: u32,
    /// [`Fate`].
    pub fate: u32,
    /// Bytes of `request` in use.
    pub request_len: u32,
    /// When it was sold.
    pub issued: Micros,
    /// Start of its window.
    pub start: Micros,
    /// End of the prime window.
    pub prime_end: Micros,
    /// End of its lifetime.
    pub end: Micros,
    /// When its fate was sealed; 0 = not yet.
    pub settled: Micros,
    /// Method and URI of the refused request, cut.
    pub request: [u8; REQUEST_BYTES],
}

impl Default for Record {
    fn default() -> Self {
        Record {
            id: 0,
            serial: 0,
            gate: 0,
            fate: 0,
            request_len: 0,
            issued: Micros::ZERO,
            start: Micros::ZERO,
            prime_end: Micros::ZERO,
            end: Micros::ZERO,
            settled: Micros::ZERO,
            request: [0; REQUEST_BYTES],
        }
    }
}

impl Record {
    /// Method and URI as recorded.
    pub fn request(&self) -> &[u8] {
        let len = (self.request_len as usize).min(REQUEST_BYTES);
        &self.request[..len]
    }
}

/// The ring. All zero = empty.
#[repr(C)]
#[derive(Clone, Debug)]
pub struct History {
    /// Tickets ever sold; the next serial is one more.
    pub sold: u64,
    records: [Record; RECORDS],
}

impl Default for History {
    fn default() -> Self {
        History {
            sold: 0,
            records: [Record::default(); RECORDS],
        }
    }
}

impl History {
    /// The serial the next ticket will have.
    pub fn next_serial(&self) -> u32 {
        (self.sold.saturating_add(1) & 0xffff_ffff).max(1) as u32
    }

    /// Records a sold ticket; `record.serial` must be [`History::next_serial`].
    pub fn issue(&mut self, mut record: Record, method: &[u8], uri: &[u8]) {
        let text = method.iter().chain(b" ").chain(uri);
        let mut len = 0;
        for (to, from) in record.request.iter_mut().zip(text) {
            *to = *from;
            len += 1;
        }
        record.request_len = len;
        self.sold = self.sold.saturating_add(1);
        self.records[record.serial as usize % RECORDS] = record;
    }

    /// Seals the fate of ticket `serial`, if it is still remembered.
    pub fn settle(&mut self, serial: u32, fate: Fate, now: Micros) {
        let record = &mut self.records[serial as usize % RECORDS];
        if record.serial == serial && serial != 0 {
            record.fate = fate as u32;
            record.settled = now;
        }
    }

    /// Seals the fate of tickets that are over and were not redeemed: each of them goes to `ended`,
    /// only once, as far as that has capacity for. `grace` is how long after its end a ticket can
    /// still be presented.
    pub fn expire(
        &mut self,
        now: Micros,
        grace: impl Fn(&Record) -> Micros,
        ended: &mut Vec<Record>,
    ) {
        let open = |r: &&mut Record| r.serial != 0 && r.fate == Fate::Sold as u32;
        let over = |r: &&mut Record| now >= r.end + grace(r);
        let left = ended.capacity() - ended.len();
        for record in self.records.iter_mut().filter(open).filter(over).take(left) {
            record.fate = Fate::Expired as u32;
            record.settled = now;
            ended.push(*record);
        }
    }

    /// A gate is begun anew for another room: none of the records may be taken for one of that
    /// room's. Tickets that were still out are over; each of them goes to `ended`.
    pub fn forget_gate(&mut self, gate: u32, now: Micros, mut ended: impl FnMut(&Record)) {
        let of_gate = |r: &&mut Record| r.serial != 0 && r.gate == gate;
        for record in self.records.iter_mut().filter(of_gate) {
            if record.fate == Fate::Sold as u32 {
                (record.fate, record.settled) = (Fate::Expired as u32, now);
                ended(record);
            }
            record.gate = NO_GATE;
        }
    }

    /// The last `n` tickets, the newest first.
    pub fn last(&self, n: usize) -> impl Iterator<Item = &Record> {
        let newest = (self.sold & 0xffff_ffff) as u32;
        (0..RECORDS.min(n) as u32)
            .map(move |back| newest.wrapping_sub(back))
            .map(|serial| &self.records[serial as usize % RECORDS])
            .filter(|record| record.serial != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_tickets_are_remembered_newest_first_with_their_fate() {
        let mut history = Box::new(History::default());
        for i in 0..RECORDS as u32 + 10 {
            let serial = history.next_serial();
            assert_eq!(serial, i + 1);
            history.issue(
                Record {
                    serial,
                    ..Record::default()
                },
                b"GET",
                b"/board?x",
            );
        }
        let newest = history.next_serial() - 1;
        history.settle(newest, Fate::Redeemed, Micros(5));
        history.settle(3, Fate::Broken, Micros(6));
        let last: Vec<_> = history.last(2000).collect();
        assert_eq!(last.len(), RECORDS);
        assert_eq!(
            (last[0].serial, last[0].fate),
            (newest, Fate::Redeemed as u32)
        );
        assert_eq!(last[0].request(), b"GET /board?x");
        assert!(
            last.iter().all(|r| r.fate != Fate::Broken as u32),
            "3 has been overwritten"
        );
    }
    #[test]
    fn a_ticket_that_nobody_redeemed_expires_once() {
        let mut history = Box::new(History::default());
        for end in [10, 20, 30] {
            let serial = history.next_serial();
            let record = Record {
                serial,
                end: Micros(end),
                ..Record::default()
            };
            history.issue(record, b"GET", b"/");
        }
        history.settle(1, Fate::Redeemed, Micros(5));
        let mut expire = |now, most| {
            let mut ended = Vec::with_capacity(most);
            history.expire(Micros(now), |_| Micros(5), &mut ended);
            ended.iter().map(|r| r.serial).collect::<Vec<_>>()
        };
        assert!(expire(24, 8).is_empty(), "in its grace");
        assert_eq!(expire(99, 1), [2], "no more than there is space for");
        assert_eq!(expire(99, 1), [3]);
        assert!(expire(99, 8).is_empty(), "once");
        let fates: Vec<u32> = history.last(3).map(|r| r.fate).collect();
        let (expired, redeemed) = (Fate::Expired as u32, Fate::Redeemed as u32);
        assert_eq!(fates, [expired, expired, redeemed]);
    }
}

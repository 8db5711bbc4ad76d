//! [`Letter`]: a request asks the store, through the agent, whether a ticket is still good, and waits for the answer.
//!
//! ```text
//!            post                take_up            answer              heard
//!   free ──────────► written ──────────► asked ──────────► answered ──────────► free
//!                       │ leave, sweep     │                  ▲
//!                       └────────► left ◄──┘                  │
//!                                   └── answer: nobody heard it, free again
//! ```
//!
//! Without a lock: one word tells state, answer and child. The child sleeps on it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use super::guests::{Name, Told};

/// Letters that may be on their way at a time.
pub const LETTERS: u32 = 1024;

const FREE: u32 = 0;
/// Its child writes it.
const WRITING: u32 = 1;
const WRITTEN: u32 = 2;
const ASKED: u32 = 3;
const ANSWERED: u32 = 4;
/// Nobody waits for the answer any more.
const LEFT: u32 = 5;
const STATE: u32 = 0xf;
/// The answer's bits.
const TOLD: u32 = 4;
/// The child's.
const CHILD: u32 = 8;

/// One letter. All zero = free.
#[repr(C, align(64))]
#[derive(Default, Debug)]
pub struct Letter {
    word: AtomicU32,
    node: AtomicU32,
    gate: AtomicU32,
    slot: AtomicU32,
    index: AtomicU32,
    _pad: AtomicU32,
    epoch: AtomicU64,
}

/// A letter that was posted: what its word is until somebody acts on it.
#[derive(Clone, Copy, Debug)]
pub struct Posted(u32);

impl Letter {
    /// A child of this entry asks about a ticket. None: the letter is another's.
    pub fn post(&self, name: &Name, child: u16) -> Option<Posted> {
        let of = u32::from(child) << CHILD;
        self.word
            .compare_exchange(FREE, WRITING | of, SeqCst, Relaxed)
            .ok()?;
        self.node.store(name.node.into(), Relaxed);
        self.gate.store(name.gate, Relaxed);
        self.slot.store(name.slot, Relaxed);
        self.index.store(name.index, Relaxed);
        self.epoch.store(name.epoch, Relaxed);
        self.word.store(WRITTEN | of, SeqCst);
        Some(Posted(of))
    }

    /// The word that its child sleeps on, and its value as long as there is no answer; None: there is one, or it is no
    /// longer that letter.
    pub fn waits(&self, posted: Posted) -> Option<(&AtomicU32, u32)> {
        let word = self.word.load(SeqCst);
        let waits = [WRITTEN | posted.0, ASKED | posted.0].contains(&word);
        waits.then_some((&self.word, word))
    }

    /// The answer; the letter is free. None: there is none yet, and nobody waits for it any more.
    pub fn hear(&self, posted: Posted) -> Option<Told> {
        let mut word = self.word.load(SeqCst);
        loop {
            let next = match word & STATE {
                ANSWERED => FREE,
                _ => LEFT | posted.0,
            };
            match self.word.compare_exchange(word, next, SeqCst, SeqCst) {
                Ok(_) if next == FREE => return told_of(word),
                Ok(_) => return None,
                Err(other) => word = other,
            }
        }
    }

    /// The agent takes it up, if it has been written. Its ticket.
    pub fn take_up(&self) -> Option<Name> {
        let word = self.word.load(SeqCst);
        if word & STATE != WRITTEN {
            return None;
        }
        let name = self.name();
        let asked = word & !STATE | ASKED;
        let taken = self.word.compare_exchange(word, asked, SeqCst, Relaxed);
        taken.is_ok().then_some(name)
    }

    /// What the store says of the ticket that was asked about. False: nobody waits for it any more. The caller wakes the word.
    pub fn answer(&self, told: Told) -> bool {
        let mut word = self.word.load(SeqCst);
        loop {
            let next = match word & STATE {
                ASKED => word & !STATE | ANSWERED | number_of(told) << TOLD,
                LEFT => FREE,
                _ => return false,
            };
            match self.word.compare_exchange(word, next, SeqCst, SeqCst) {
                Ok(_) => return next != FREE,
                Err(other) => word = other,
            }
        }
    }

    /// While none of them is on its way: what another agent has asked is asked again, and what nobody waits for is free.
    /// Returns the ticket of such a one: the store may have been asked, and have given it.
    pub fn begin_anew(&self) -> Option<Name> {
        let word = self.word.load(SeqCst);
        let next = match word & STATE {
            ASKED => word & !STATE | WRITTEN,
            LEFT => FREE,
            _ => return None,
        };
        let name = self.name();
        let done = self.word.compare_exchange(word, next, SeqCst, Relaxed);
        (done.is_ok() && next == FREE).then_some(name)
    }

    /// The child of this entry is dead: nobody waits for an answer to its letter.
    pub fn sweep(&self, child: u16) {
        let word = self.word.load(SeqCst);
        if word >> CHILD != u32::from(child) {
            return;
        }
        let next = match word & STATE {
            WRITTEN | ASKED => word & !STATE | LEFT,
            WRITING | ANSWERED => FREE,
            _ => return,
        };
        // Only the agent acts on it besides, once.
        if self
            .word
            .compare_exchange(word, next, SeqCst, Relaxed)
            .is_err()
        {
            self.sweep(child);
        }
    }

    /// The word, to wake who sleeps on it.
    pub fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// The ticket it asks about.
    pub fn name(&self) -> Name {
        Name {
            epoch: self.epoch.load(Relaxed),
            node: self.node.load(Relaxed) as u8,
            gate: self.gate.load(Relaxed),
            slot: self.slot.load(Relaxed),
            index: self.index.load(Relaxed),
        }
    }
}

fn number_of(told: Told) -> u32 {
    match told {
        Told::Mine => 1,
        Told::Used => 2,
        Told::Waits => 3,
        Told::Silent => 4,
    }
}

fn told_of(word: u32) -> Option<Told> {
    [Told::Mine, Told::Used, Told::Waits, Told::Silent]
        .into_iter()
        .find(|told| number_of(*told) == word >> TOLD & 0xf)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: Name = Name {
        epoch: 7,
        node: 3,
        gate: 9,
        slot: 4,
        index: 2,
    };

    #[test]
    fn a_letter_is_asked_answered_and_free_again() {
        let letter = Letter::default();
        for told in [Told::Mine, Told::Used, Told::Waits, Told::Silent] {
            let posted = letter.post(&NAME, 5).expect("it is free");
            assert!(letter.post(&NAME, 6).is_none(), "it is another's");
            assert!(!letter.answer(told), "it is not asked yet");
            assert_eq!(letter.take_up(), Some(NAME));
            assert_eq!(letter.take_up(), None);
            assert!(letter.waits(posted).is_some());
            assert!(letter.answer(told));
            assert!(letter.waits(posted).is_none());
            assert_eq!(letter.hear(posted), Some(told));
        }
    }

    #[test]
    fn an_answer_that_comes_too_late_is_nobodys() {
        let letter = Letter::default();
        let posted = letter.post(&NAME, 5).expect("it is free");
        letter.take_up();
        assert_eq!(letter.hear(posted), None);
        assert!(letter.post(&NAME, 5).is_none(), "it is still on its way");
        assert!(!letter.answer(Told::Mine));
        assert!(letter.post(&NAME, 5).is_some());
    }

    #[test]
    fn one_that_left_before_it_was_taken_up_is_free_with_the_next_agent() {
        let letter = Letter::default();
        let posted = letter.post(&NAME, 0).expect("it is free");
        assert_eq!(letter.hear(posted), None);
        assert_eq!(letter.take_up(), None);
        assert_eq!(letter.begin_anew(), Some(NAME));
        assert!(letter.post(&NAME, 0).is_some());
    }

    #[test]
    fn a_new_agent_asks_again_what_the_one_before_had_asked() {
        let letter = Letter::default();
        let posted = letter.post(&NAME, 0).expect("it is free");
        assert_eq!(letter.take_up(), Some(NAME));
        assert_eq!(letter.begin_anew(), None);
        assert!(letter.waits(posted).is_some());
        assert_eq!(letter.take_up(), Some(NAME));
        assert!(letter.answer(Told::Used));
        assert_eq!(letter.hear(posted), Some(Told::Used));
    }

    #[test]
    fn letters_of_a_dead_child_are_nobodys() {
        let letter = Letter::default();
        letter.post(&NAME, 5).expect("it is free");
        letter.sweep(4);
        assert_eq!(letter.take_up(), Some(NAME), "another child has died");
        letter.sweep(5);
        assert!(!letter.answer(Told::Mine));
        let posted = letter.post(&NAME, 5).expect("it is free");
        letter.take_up();
        letter.answer(Told::Mine);
        letter.sweep(5);
        assert!(letter.waits(posted).is_none());
        assert!(letter.post(&NAME, 5).is_some());
    }
}

//! [`Sizes`]: how large an activity's work is: S_max, and the mean answer.
//!
//! S_max is the largest of the last [`WINDOW`] sizes, not of all time as in the paper: one upload
//! of four gigabytes would spoil the bands for ever. It is kept in blocks of [`BLOCK`] sizes, so it
//! may reach one block further back.

use super::sane;

/// How many sizes S_max looks back on.
pub const WINDOW: usize = 1000;
/// Sizes per block.
const BLOCK: usize = 100;
const BLOCKS: usize = WINDOW / BLOCK;
/// Weight of the newest answer in the mean of their lengths.
const NEWEST: f64 = 0.1;
/// Added to each size, in bytes: the cost of any work, however small.
pub const FIXED: u64 = 1024;

/// Sizes of one activity. All zero: none seen.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Sizes {
    /// The largest of each of the last blocks.
    largest: [u64; BLOCKS],
    /// The largest of the block that is being filled.
    filling: u64,
    /// How many sizes it has.
    filled: u32,
    /// Where that block goes when it is full.
    next: u32,
    /// Mean length of answers, an `f64`'s bits.
    answer: u64,
}

impl Sizes {
    /// There was work of this size.
    pub fn note(&mut self, size: u64) {
        self.filling = self.filling.max(size);
        self.filled = self.filled.saturating_add(1);
        if self.filled as usize >= BLOCK {
            let at = self.next as usize % BLOCKS;
            self.largest[at] = self.filling;
            (self.filling, self.filled, self.next) = (0, 0, (at as u32 + 1) % BLOCKS as u32);
        }
    }

    /// S_max; 0: nothing seen.
    pub fn max(&self) -> u64 {
        (self.largest.iter().copied().max().unwrap_or(0)).max(self.filling)
    }

    /// An answer had this many bytes.
    pub fn answered(&mut self, bytes: u64) {
        let (bytes, mean) = (bytes as f64, sane(self.answer));
        let mean = match self.answer {
            0 => bytes,
            _ => mean + NEWEST * (bytes - mean),
        };
        self.answer = mean.max(f64::MIN_POSITIVE).to_bits();
    }

    /// The size of work whose request has a body of this many bytes: that, or where there is none
    /// the typical size of answers to such work; plus what any work costs.
    pub fn of(&self, body: u64) -> u64 {
        let size = match body {
            0 => sane(self.answer) as u64,
            body => body,
        };
        size.saturating_add(FIXED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_huge_size_is_forgotten() {
        let mut sizes = Sizes::default();
        sizes.note(4 << 30);
        for n in 1..WINDOW as u64 {
            sizes.note(n % 7);
            assert_eq!(sizes.max(), 4 << 30);
        }
        (0..BLOCK).for_each(|_| sizes.note(6));
        assert_eq!(sizes.max(), 6);
    }

    #[test]
    fn a_request_without_a_body_is_as_large_as_its_answer_will_be() {
        let mut sizes = Sizes::default();
        assert_eq!(sizes.of(0), FIXED);
        assert_eq!(sizes.of(500), 500 + FIXED);
        sizes.answered(2000);
        assert_eq!(sizes.of(0), 2000 + FIXED);
        sizes.answered(1000);
        assert_eq!(sizes.of(0), 1900 + FIXED);
        assert_eq!(sizes.of(u64::MAX), u64::MAX);
    }
}

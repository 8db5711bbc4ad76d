//! [`Text`]: a text of fixed size, as in C.

/// A text of fixed size, ended by the first zero byte; C's `char[N]`.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<const N: usize>(pub [u8; N]);

impl<const N: usize> Text<N> {
    /// The empty text.
    pub const EMPTY: Self = Text([0; N]);

    /// A copy of `s`, or `None` if it has a zero byte or does not fit with its final zero.
    pub fn new(s: &str) -> Option<Self> {
        let mut text = Self::EMPTY;
        let room = text
            .0
            .get_mut(..s.len())
            .filter(|_| s.len() < N && !s.contains('\0'))?;
        room.copy_from_slice(s.as_bytes());
        Some(text)
    }

    /// Its characters; empty if they are not UTF-8.
    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|&b| b == 0).unwrap_or(N);
        std::str::from_utf8(&self.0[..end]).unwrap_or("")
    }

    /// Is it empty, as nobody has set it?
    pub fn is_empty(&self) -> bool {
        self.as_str().is_empty()
    }
}

impl<const N: usize> std::fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

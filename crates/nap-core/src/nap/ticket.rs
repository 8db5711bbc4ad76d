//! The ticket: what a refused visitor is given, and how it proves genuine.
//!
//! A ticket is 64 bytes, one block of the hash, signed with keyed BLAKE2s (RFC 7693, 2.9) cut to
//! 16, and written in base64url without padding (107 characters, fit for a cookie, a header or a
//! query). HMAC-SHA-256 proves no more and costs four times as much where the processor has no
//! instructions for it. Numbers are big-endian:
//!
//! ```text
//!    0 version  1 key id  2 flags  3 node   4 lease u16   6 epoch u64    14 room u32   18 gate u32
//!   22 slot u32  26 index u32   30 serial u32   34 start u64  42 prime u40  47 tail u40
//!   52 bind u32  56 id u64      64 signature [16]
//! ```
//! Prime window and tail are given as lengths, in microseconds like the start: twelve days each.
//! The paper (5.2) names tickets by an MD5 of arrival time and address; so do we ([`ticket_id`]),
//! in logs and pages. Security rests on the signature alone.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use blake2::digest::block_api::{Block, Buffer, UpdateCore, VariableOutputCore};
use blake2::digest::{KeyInit, Mac, Output};
use blake2::{Blake2s256, Blake2sMac256, Blake2sVarCore};
use md5::{Digest, Md5};

use crate::micros::Micros;

/// The layout above.
const VERSION: u8 = 2;
const BODY: usize = 64;
/// Microseconds that five bytes hold.
const SPAN_MAX: u64 = (1 << 40) - 1;
const SIGNATURE: usize = 16;
const SEALED: usize = BODY + SIGNATURE;
/// Characters of a sealed ticket.
pub const TEXT: usize = (SEALED * 4).div_ceil(3);

/// What a ticket says. All of it is under the signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticket {
    /// [`Ticket::GUARD`] and the others, or-ed.
    pub flags: u8,
    /// The engine (front-end httpd) that sold it.
    pub node: u8,
    /// The lease of the ledger it was sold from; 0 with a single engine.
    pub lease: u16,
    /// Random, new with every empty segment: a ticket of another epoch is honest but unknown.
    pub epoch: u64,
    /// [`name_hash`] of the room.
    pub room: u32,
    /// [`name_hash`] of the gate.
    pub gate: u32,
    /// Its slot; zero: a guard ticket without one.
    pub slot: u32,
    /// Its place in the slot.
    pub index: u32,
    /// Its number in the issue history.
    pub serial: u32,
    /// Start of the prime window.
    pub start: Micros,
    /// End of the prime window, start of the tail.
    pub prime_end: Micros,
    /// End of the tail.
    pub end: Micros,
    /// Hash of the client prefix it is good for (`NapTicketBind`); zero: any.
    pub bind: u32,
    /// [`ticket_id`].
    pub id: u64,
}

/// Why a text is no ticket of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forged {
    /// Signed with another key, or changed.
    BadSignature,
    /// Not the length, alphabet or version of a ticket.
    Malformed,
    /// It names a key we do not have.
    UnknownKey,
}

impl Ticket {
    /// The deadline guard gave it: its holder goes ahead of all.
    pub const GUARD: u8 = 1;
    /// Its holder came late once and was re-booked.
    pub const REBOOKED: u8 = 2;
    /// Its holder came after the end once and was treated as late.
    pub const GRACE_USED: u8 = 4;
    /// Its holder was called and came early. Never sealed; it marks a redeemed ticket.
    pub const CALLED: u8 = 8;
    /// It was sold to a page within another: no script's call uses it up.
    pub const FRAME: u8 = 16;
    /// It was sold to the page that the visitor asked for: nothing fetched beside it uses it up.
    pub const NAVIGATION: u8 = 32;

    /// Whether a flag is set.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The ticket as it was sealed.
    pub fn plain(self) -> Ticket {
        Ticket {
            flags: self.flags & !Ticket::CALLED,
            ..self
        }
    }

    /// The ticket as text, signed.
    pub fn seal(&self, key: &Key) -> String {
        let mut sealed = [0; SEALED];
        let (body, signature) = sealed.split_at_mut(BODY);
        self.write(key.id, body);
        if let Some(cut) = key.signature(body).get(..SIGNATURE) {
            signature.copy_from_slice(cut);
        }
        URL_SAFE_NO_PAD.encode(sealed)
    }

    /// Reads a text back, if it is genuine.
    pub fn open(text: &[u8], keys: &Keys) -> Result<Ticket, Forged> {
        let mut sealed = [0; SEALED];
        if text.len() != TEXT || URL_SAFE_NO_PAD.decode_slice(text, &mut sealed) != Ok(SEALED) {
            return Err(Forged::Malformed);
        }
        let (body, signature) = sealed.split_at(BODY);
        let mut rest = body;
        if take::<1>(&mut rest) != [VERSION] {
            return Err(Forged::Malformed);
        }
        let [key_id] = take(&mut rest);
        let key = keys.find(key_id).ok_or(Forged::UnknownKey)?;
        key.sign(body)
            .verify_truncated_left(signature)
            .map_err(|_| Forged::BadSignature)?;
        Ok(Ticket::read(rest))
    }

    /// The same ticket by a clock that is so many microseconds ahead.
    pub fn moved(&self, by: i64) -> Ticket {
        let moved = |at: Micros| Micros(at.0.saturating_add_signed(by));
        Ticket {
            start: moved(self.start),
            prime_end: moved(self.prime_end),
            end: moved(self.end),
            ..*self
        }
    }

    fn write(&self, key_id: u8, mut to: &mut [u8]) {
        let to = &mut to;
        put(to, [VERSION, key_id, self.flags, self.node]);
        put(to, self.lease.to_be_bytes());
        put(to, self.epoch.to_be_bytes());
        put(to, self.room.to_be_bytes());
        put(to, self.gate.to_be_bytes());
        put(to, self.slot.to_be_bytes());
        put(to, self.index.to_be_bytes());
        put(to, self.serial.to_be_bytes());
        put(to, self.start.0.to_be_bytes());
        put(to, short(self.prime_end - self.start));
        put(to, short(self.end - self.prime_end));
        put(to, self.bind.to_be_bytes());
        put(to, self.id.to_be_bytes());
    }

    /// The fields after version and key id, in the order of the drawing.
    fn read(mut from: &[u8]) -> Ticket {
        let from = &mut from;
        let mut ticket = Ticket {
            flags: u8::from_be_bytes(take(from)),
            node: u8::from_be_bytes(take(from)),
            lease: u16::from_be_bytes(take(from)),
            epoch: u64::from_be_bytes(take(from)),
            room: u32::from_be_bytes(take(from)),
            gate: u32::from_be_bytes(take(from)),
            slot: u32::from_be_bytes(take(from)),
            index: u32::from_be_bytes(take(from)),
            serial: u32::from_be_bytes(take(from)),
            start: Micros(u64::from_be_bytes(take(from))),
            ..Ticket::default()
        };
        ticket.prime_end = ticket.start + long(take(from));
        ticket.end = ticket.prime_end + long(take(from));
        ticket.bind = u32::from_be_bytes(take(from));
        ticket.id = u64::from_be_bytes(take(from));
        ticket
    }
}

/// A span in five bytes; a longer one becomes the longest.
fn short(span: Micros) -> [u8; 5] {
    let [.., a, b, c, d, e] = span.0.min(SPAN_MAX).to_be_bytes();
    [a, b, c, d, e]
}

fn long([a, b, c, d, e]: [u8; 5]) -> Micros {
    Micros(u64::from_be_bytes([0, 0, 0, a, b, c, d, e]))
}

/// The next `N` bytes; zeros when there are fewer, which the fixed length rules out.
fn take<const N: usize>(from: &mut &[u8]) -> [u8; N] {
    let Some((bytes, rest)) = from.split_first_chunk() else {
        return [0; N];
    };
    *from = rest;
    *bytes
}

/// Writes the next `N` bytes; there is room for them, by the fixed length.
#[inline]
fn put<const N: usize>(to: &mut &mut [u8], bytes: [u8; N]) {
    if let Some((first, rest)) = std::mem::take(to).split_first_chunk_mut() {
        *first = bytes;
        *to = rest;
    }
}

/// What a line of a key file looks like.
const LIKE: &str = "1 00112233445566778899aabbccddeeff";

/// A key of `NapTicketKey`, made ready for signing.
#[derive(Clone)]
pub struct Key {
    id: u8,
    mac: Blake2sMac256,
    /// The same after its first block, which is the key: `mac` would take that in with each ticket anew.
    begun: Blake2sVarCore,
}

impl Key {
    /// A key from its secret, 16 random bytes or more.
    pub fn new(id: u8, secret: &[u8]) -> Key {
        let secret = key_bytes(secret);
        let mut begun = Blake2sVarCore::new_with_params(&[], &[], secret.len(), 32);
        let mut block = Block::<Blake2sVarCore>::default();
        block
            .iter_mut()
            .zip(&secret)
            .for_each(|(to, byte)| *to = *byte);
        begun.update_blocks(&[block]);
        Key {
            id,
            mac: keyed(&secret),
            begun,
        }
    }

    /// A line of a key file. The error is the end of a sentence.
    fn of_line(line: &str) -> Result<Key, String> {
        let (id, hex) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let Ok(id) = id.parse() else {
            return Err(format!(
                "it begins with {id:?} and not with the key's id, a number from 0 to 255, as in \"{LIKE}\""
            ));
        };
        match unhex(hex.trim()) {
            Some(secret) if secret.len() >= 16 => Ok(Key::new(id, &secret)),
            _ => Err(format!(
                "after the id come 32 hex digits or more, an even number of them, as in \"{LIKE}\""
            )),
        }
    }

    /// The number by which tickets name it.
    pub fn id(&self) -> u8 {
        self.id
    }

    /// By this two servers see that they have the same key, and nobody sees the key.
    pub fn fingerprint(&self) -> u64 {
        let mac = self.sign(b"mod_nap: which key is this?");
        let bytes = mac.finalize().into_bytes();
        bytes
            .iter()
            .take(8)
            .fold(0, |all, byte| all << 8 | u64::from(*byte))
    }

    /// A text that nobody can make without the key, different for different words.
    pub fn mark(&self, words: &[u64]) -> String {
        let mut mac = self.sign(b"session");
        for word in words {
            mac.update(&word.to_be_bytes());
        }
        let bytes = mac.finalize().into_bytes();
        URL_SAFE_NO_PAD.encode(bytes.get(..24).unwrap_or_default())
    }

    fn sign(&self, body: &[u8]) -> Blake2sMac256 {
        self.mac.clone().chain_update(body)
    }

    /// What `sign` comes to. The body is not empty.
    fn signature(&self, body: &[u8]) -> Output<Blake2sVarCore> {
        let (mut core, mut buffer) = (self.begun.clone(), Buffer::<Blake2sVarCore>::default());
        let mut out = Output::<Blake2sVarCore>::default();
        buffer.digest_blocks(body, |blocks| core.update_blocks(blocks));
        core.finalize_variable_core(&mut buffer, &mut out);
        out
    }
}

/// BLAKE2s with a secret of any length: it takes 32 bytes, and longer secrets are hashed first.
pub fn keyed(secret: &[u8]) -> Blake2sMac256 {
    Blake2sMac256::new_from_slice(&key_bytes(secret)).expect("32 bytes at most")
}

fn key_bytes(secret: &[u8]) -> Vec<u8> {
    match secret.len() {
        0..=32 => secret.to_vec(),
        _ => Blake2s256::digest(secret).to_vec(),
    }
}

impl std::fmt::Debug for Key {
    /// The secret is not shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// The keys of a server: the first signs, all verify.
#[derive(Clone, Debug)]
pub struct Keys(Vec<Key>);

impl Keys {
    /// How many keys there may be.
    pub const MAX: usize = 8;

    /// One to eight keys with different ids, the signing one first; otherwise none.
    pub fn new(keys: Vec<Key>) -> Option<Keys> {
        let mut ids: Vec<u8> = keys.iter().map(Key::id).collect();
        ids.sort_unstable();
        ids.dedup();
        let sound = (1..=Self::MAX).contains(&keys.len()) && ids.len() == keys.len();
        sound.then_some(Keys(keys))
    }

    /// Keys as in `NapTicketKey`'s file: a line each, `id hex`, the signing one first. Empty lines,
    /// lines that begin with `#` and a byte order mark are passed over. The error is a sentence.
    pub fn parse(text: &str) -> Result<Keys, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut keys: Vec<Key> = Vec::new();
        for (n, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let key = Key::of_line(line).map_err(|why| format!("line {}: {why}", n + 1))?;
            if keys.iter().any(|other| other.id == key.id) {
                return Err(format!(
                    "line {}: {} is the id of a key above; each key needs its own",
                    n + 1,
                    key.id
                ));
            }
            keys.push(key);
        }
        match keys.len() {
            0 => Err(format!(
                "there is no key in it; a key is a line such as \"{LIKE}\""
            )),
            1..=Self::MAX => Ok(Keys(keys)),
            n => Err(format!("{n} keys, {} at most", Self::MAX)),
        }
    }

    /// The key that signs.
    pub fn signing(&self) -> Option<&Key> {
        self.0.first()
    }

    /// The id and [`Key::fingerprint`] of each, the signing one first.
    pub fn marks(&self) -> impl Iterator<Item = (u8, u64)> {
        self.0.iter().map(|key| (key.id, key.fingerprint()))
    }

    /// A secret that all have who have these keys. It is that of the key with the lowest number, wherever it stands: while keys
    /// are changed a new one is put behind the others and then before them, at one node after the other.
    pub fn secret(&self) -> Option<[u8; 16]> {
        let oldest = self.0.iter().min_by_key(|key| key.id)?;
        let mac = oldest.sign(b"mod_nap: what the nodes of a fleet share");
        let bytes = mac.finalize().into_bytes();
        bytes.get(..16)?.try_into().ok()
    }

    fn find(&self, id: u8) -> Option<&Key> {
        self.0.iter().find(|key| key.id == id)
    }
}

/// The bytes that these hexadecimal digits stand for.
pub(crate) fn unhex(hex: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = hex
        .chars()
        .map(|c| c.to_digit(16).map(|d| d as u8))
        .collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty()
        .then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

/// The paper's ticket id (5.2): MD5 of arrival time and address. Ours adds a secret, so that it
/// cannot be guessed, and the place, so that it is unique. It names the ticket and proves nothing.
pub fn ticket_id(secret: &[u8], arrival: Micros, client: &[u8], slot: u32, index: u32) -> u64 {
    let digest = Md5::new()
        .chain_update(secret)
        .chain_update(arrival.0.to_be_bytes())
        .chain_update(client)
        .chain_update(slot.to_be_bytes())
        .chain_update(index.to_be_bytes())
        .finalize();
    u64::from_be_bytes(take(&mut digest.as_slice()))
}

/// A name as a number (FNV-1a): rooms and gates are known by name, and tickets are short.
pub fn name_hash(name: &str) -> u32 {
    fnv(name.as_bytes())
}

/// FNV-1a.
pub(super) fn fnv(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: u8) -> Key {
        Key::new(id, &[id; 32])
    }

    fn keys(ids: &[u8]) -> Keys {
        Keys::new(ids.iter().map(|id| key(*id)).collect()).expect("different ids")
    }

    fn ticket() -> Ticket {
        Ticket {
            flags: Ticket::REBOOKED | Ticket::GRACE_USED,
            node: 3,
            lease: 0x0405,
            epoch: 0x0607_0809_0a0b_0c0d,
            room: name_hash("shop"),
            gate: name_hash("*"),
            slot: 77,
            index: 12,
            serial: 991,
            start: Micros::from_secs(100),
            prime_end: Micros::from_secs(105),
            end: Micros::from_secs(400),
            bind: 0xdead_beef,
            id: u64::MAX - 1,
        }
    }

    #[test]
    fn a_sealed_ticket_opens_again_and_has_the_drawn_layout() {
        let text = ticket().seal(&key(9));
        assert_eq!(text.len(), TEXT);
        assert_eq!(TEXT, 107);
        assert_eq!(Ticket::open(text.as_bytes(), &keys(&[1, 9])), Ok(ticket()));
        let bytes = URL_SAFE_NO_PAD.decode(&text).expect("base64url");
        let at = |from: usize, to: usize| bytes.get(from..to).expect("80 bytes");
        assert_eq!(at(0, 6), [2, 9, 6, 3, 4, 5]);
        assert_eq!(at(22, 26), 77_u32.to_be_bytes());
        assert_eq!(at(34, 42), 100_000_000_u64.to_be_bytes());
        assert_eq!(at(43, 47), 5_000_000_u32.to_be_bytes());
        assert_eq!(at(56, 64), (u64::MAX - 1).to_be_bytes());
        assert!(ticket().has(Ticket::REBOOKED) && !ticket().has(Ticket::GUARD));
    }

    /// Made by Python's `hashlib.blake2s(body, key=secret)`.
    #[test]
    fn a_ticket_of_other_hands_is_read() {
        let secret = b"0123456789abcdef0123456789abcdef";
        let text = "AgcGAwQFAAAAAAAAAAsAAAAWAAAAIQAAAE0AAAAMAAAD3wAAAAAF9eEAAABM\
                    S0AAEZVXwN6tvu___________p-IyG60rMgcFJQyMQKQKl4";
        let keys = Keys::new(vec![Key::new(7, secret)]).expect("one key");
        let expected = Ticket {
            epoch: 11,
            room: 22,
            gate: 33,
            ..ticket()
        };
        assert_eq!(Ticket::open(text.as_bytes(), &keys), Ok(expected));
    }

    #[test]
    fn a_key_that_is_gone_or_another_of_the_same_number_does_not_verify() {
        let text = ticket().seal(&key(9));
        assert_eq!(
            Ticket::open(text.as_bytes(), &keys(&[1, 2])),
            Err(Forged::UnknownKey)
        );
        let other = Keys::new(vec![Key::new(9, b"another secret")]).expect("one key");
        assert_eq!(
            Ticket::open(text.as_bytes(), &other),
            Err(Forged::BadSignature)
        );
    }

    #[test]
    fn one_changed_bit_anywhere_is_noticed() {
        let keys = keys(&[9]);
        let bytes = URL_SAFE_NO_PAD
            .decode(ticket().seal(&key(9)))
            .expect("base64url");
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let text = URL_SAFE_NO_PAD.encode(changed);
            assert!(Ticket::open(text.as_bytes(), &keys).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn mangled_and_random_texts_are_refused_and_never_panic() {
        let keys = keys(&[9]);
        let text = ticket().seal(&key(9)).into_bytes();
        let refused = |text: &[u8]| assert!(Ticket::open(text, &keys).is_err(), "{text:?}");
        for n in 0..text.len() {
            refused(&text[..n]);
            refused(&text[n + 1..]);
            for byte in 0..=255 {
                if byte != text[n] {
                    let mut changed = text.clone();
                    changed[n] = byte;
                    refused(&changed);
                }
            }
        }
        refused(&[text.clone(), b"=".to_vec()].concat());
        refused(&text.repeat(70));
        let mut state = 1_u64;
        for len in (0..300).chain([8192]) {
            let random: Vec<u8> = (0..len)
                .map(|_| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    (state >> 56) as u8
                })
                .collect();
            refused(&random);
            let encoded = URL_SAFE_NO_PAD.encode(&random);
            refused(
                encoded
                    .get(..TEXT.min(encoded.len()))
                    .expect("ascii")
                    .as_bytes(),
            );
        }
    }

    #[test]
    fn keys_are_one_to_eight_with_different_numbers() {
        assert!(Keys::new(vec![]).is_none());
        assert!(Keys::new(vec![key(1), key(1)]).is_none());
        assert!(Keys::new((0..9).map(key).collect()).is_none());
        assert_eq!(keys(&[4, 5]).signing().map(Key::id), Some(4));
        assert!(
            !format!("{:?}", key(65)).contains("AA"),
            "no secrets in logs"
        );
    }

    #[test]
    fn the_id_depends_on_everything_and_is_md5() {
        let id = ticket_id(b"s", Micros(1), b"10.0.0.1", 2, 3);
        // md5 of "s", 0000000000000001, "10.0.0.1", 00000002, 00000003, by md5sum
        assert_eq!(id, 0x77b1_a9e2_3cc5_34f8);
        for other in [
            ticket_id(b"t", Micros(1), b"10.0.0.1", 2, 3),
            ticket_id(b"s", Micros(2), b"10.0.0.1", 2, 3),
            ticket_id(b"s", Micros(1), b"10.0.0.2", 2, 3),
            ticket_id(b"s", Micros(1), b"10.0.0.1", 3, 3),
            ticket_id(b"s", Micros(1), b"10.0.0.1", 2, 4),
        ] {
            assert_ne!(other, id);
        }
    }

    #[test]
    fn names_hash_as_fnv_1a_does() {
        assert_eq!(name_hash(""), 0x811c_9dc5);
        assert_eq!(name_hash("foobar"), 0xbf9c_f968);
    }

    #[test]
    fn while_keys_are_changed_their_secret_stays() {
        let secret = |ids: &[u8]| keys(ids).secret().expect("there is a key");
        let before = secret(&[7]);
        for ids in [&[7, 8][..], &[8, 7], &[9, 8, 7]] {
            assert_eq!(secret(ids), before, "{ids:?}");
        }
        assert_ne!(secret(&[8]), before);
    }

    #[test]
    fn a_key_file_is_read_or_says_which_line_is_wrong() {
        let hex = "00112233445566778899aabbccddeeff";
        let keys = Keys::parse(&format!("# new first\n7 {hex}\n\n 3\t{hex}ab\n")).expect("good");
        assert_eq!(keys.signing().map(Key::id), Some(7));
        let marked = Keys::parse(&format!("\u{feff}7 {hex}\r\n")).expect("a byte order mark");
        assert_eq!(marked.signing().map(Key::id), Some(7));
        let nine: String = (0..9).map(|id| format!("{id} {hex}\n")).collect();
        for (text, said) in [
            (
                format!("7 {hex}\n8 {}", &hex[2..]),
                "line 2: after the id come 32 hex digits",
            ),
            (format!("7 {hex}0"), "line 1: after the id"),
            ("7".into(), "line 1: after the id"),
            (format!("300 {hex}"), "line 1: it begins with \"300\""),
            (format!("\nk2 {hex}"), "line 2: it begins with \"k2\""),
            (hex.into(), "not with the key's id"),
            (
                format!("7 {hex}\n7 {hex}"),
                "line 2: 7 is the id of a key above",
            ),
            (String::new(), "there is no key in it"),
            ("# none\n".into(), "there is no key in it"),
            (nine, "9 keys, 8 at most"),
        ] {
            assert!(
                Keys::parse(&text).expect_err("bad").contains(said),
                "{text}"
            );
        }
    }
}

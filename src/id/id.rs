use std::{
    borrow::Cow,
    fmt::{self, Write},
    hash::{BuildHasher, Hash, Hasher, RandomState},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::LazyLock,
};

use compact_str::CompactString;

use crate::random;

/// The id of a client, as text. Up to 24 bytes, such as an IPv4 address or an IPv6 range, need no allocation.
///
/// ```
/// use std::net::IpAddr;
/// use tollgate::id::Id;
///
/// let ip: IpAddr = "203.0.113.7".parse()?;
/// assert_eq!(Id::from(ip).as_str(), "203.0.113.7");
/// assert_eq!(Id::display(12345678).as_str(), "12345678");
/// # Ok::<_, std::net::AddrParseError>(())
/// ```
///
/// An id can be a [secret](Self::secret), such as an API key: refusals, events and `Debug` output then contain a hash. The ids of
/// [`HeaderId`](crate::key::HeaderId) are secrets, unless it is [`shown`](crate::key::HeaderId::shown). Show people
/// [`shown`](Self::shown), because [`as_str`](Self::as_str) and `Display` return the id itself.
#[derive(Clone)]
pub struct Id {
    text: CompactString,
    /// The [hash](client_hash) of the text, and in the lowest bit whether it is a secret. It is computed together with the text,
    /// because reading a text that was just moved takes longer than everything else that an id needs.
    mark: u64,
}

/// Hashes ids and limits, in the same way for all limiters of this process.
pub(crate) static HASHER: LazyLock<ahash::RandomState> = LazyLock::new(|| random::keys(1));

/// The bit of a mark that says whether an id is a secret.
const SECRET: u64 = 1;

impl Id {
    /// Creates an id from the displayed form of a value.
    pub fn display(value: impl fmt::Display) -> Self {
        Self::new(written(format_args!("{value}")))
    }

    fn new(text: CompactString) -> Self {
        let mark = client_hash(&text);
        Self { text, mark }
    }

    /// Returns the [hash](client_hash) of the text.
    #[inline]
    pub(crate) const fn client_hash(&self) -> u64 {
        self.mark & !SECRET
    }

    /// Marks the id as a secret, such as an API key. It is used and stored as before, but texts for people contain a hash of it.
    ///
    /// ```
    /// use http::request::Parts;
    /// use tollgate::{Rule, id::Id};
    ///
    /// let session = |parts: &Parts| {
    ///     let query = parts.uri.query()?;
    ///     query.strip_prefix("session=").map(|session| Id::from(session).secret())
    /// };
    /// let rule = Rule::new("requests", session);
    /// # let _ = rule;
    /// assert!(!format!("{:?}", Id::from("sk-123").secret()).contains("123"));
    /// ```
    #[must_use]
    pub fn secret(self) -> Self {
        self.secret_if(true)
    }

    /// Marks the id as a secret if `is_secret`.
    #[inline]
    pub(crate) fn secret_if(mut self, is_secret: bool) -> Self {
        self.mark |= u64::from(is_secret);
        self
    }

    /// Returns whether the id is a [secret](Self::secret).
    #[must_use]
    #[inline]
    pub fn is_secret(&self) -> bool {
        self.mark & SECRET == SECRET
    }

    /// The text itself, even if the id is a secret.
    #[must_use]
    #[inline]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The text for people: a hash of a secret id, and the id itself otherwise. The hash is stable within a process, changes
    /// on restart, and does not reveal the id.
    #[must_use]
    pub fn shown(&self) -> Cow<'_, str> {
        if self.is_secret() {
            redacted(&self.text).into()
        } else {
            self.as_str().into()
        }
    }
}

/// Writes a text, in code that all types of values share. `CompactString`'s own conversion compiles to a thousand lines for each
/// type.
pub(super) fn written(text: fmt::Arguments<'_>) -> CompactString {
    let mut written = CompactString::const_new("");
    written
        .write_fmt(text)
        .expect("a string takes all that is written");
    written
}

/// Returns the hash of a client, by which its buckets are found. The lowest bit is 0.
#[inline]
pub(crate) fn client_hash(id: &str) -> u64 {
    HASHER.hash_one(id.as_bytes()) & !SECRET
}

/// Two ids are equal if their texts are.
impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Id {}

impl Hash for Id {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl From<&str> for Id {
    fn from(text: &str) -> Self {
        Self::new(text.into())
    }
}

impl From<String> for Id {
    fn from(text: String) -> Self {
        Self::new(text.into())
    }
}

macro_rules! from_numbers {
    ($($number:ty)*) => {$(
        impl From<$number> for Id {
            /// Its decimal digits.
            fn from(number: $number) -> Self {
                Self::new(itoa::Buffer::new().format(number).into())
            }
        }
    )*};
}

from_numbers! { i32 i64 u32 u64 }

/// The digits of each octet and a dot, with the first character in the lowest byte.
const OCTETS: [u32; 256] = {
    let mut octets = [0; 256];
    let mut octet = 0_u8;
    loop {
        let digits = [octet / 100, octet / 10 % 10, octet % 10];
        let [hundreds, tens, ones] = digits;
        let text = [b'0' + hundreds, b'0' + tens, b'0' + ones, b'.'];
        let zeros = (octet < 10) as u32 + (octet < 100) as u32;
        octets[octet as usize] = u32::from_le_bytes(text) >> (8 * zeros);
        if octet == u8::MAX {
            break octets;
        }
        octet += 1;
    }
};

// `Display` takes several times as long as everything else that an address needs. The text is built in words, because bytes that
// are written one by one are slow to read back.
impl From<Ipv4Addr> for Id {
    fn from(ip: Ipv4Addr) -> Self {
        let mut text = 0_u128;
        let mut bits = 0;
        for octet in ip.octets() {
            let octet = OCTETS[usize::from(octet)];
            text |= u128::from(octet) << bits;
            bits += 32 - octet.leading_zeros() / 8 * 8;
        }
        // Checking whole words for UTF-8 is faster than checking a part of the bytes.
        let text = text.to_le_bytes();
        let text = str::from_utf8(&text).expect("digits, dots and zeros are ASCII");
        let text = &text[..bits as usize / 8 - 1];
        Self {
            mark: client_hash(text),
            text: text.into(),
        }
    }
}

impl From<Ipv6Addr> for Id {
    fn from(ip: Ipv6Addr) -> Self {
        Self::display(ip)
    }
}

impl From<IpAddr> for Id {
    #[inline]
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => ip.into(),
            IpAddr::V6(ip) => ip.into(),
        }
    }
}

/// Writes the text itself, even if the id is a secret.
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

/// Writes the text for people. See [`shown`](Id::shown).
impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&*self.shown(), f)
    }
}

/// Returns the hash of an id, for texts and events. It is stable within a process, and does not reveal the id.
///
/// Clients can see the hashes of ids that they have chosen. The hash function is that of the standard library, which does not
/// reveal its key by this.
#[cold]
pub(crate) fn redacted(id: &str) -> String {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    format!("redacted-{:016x}", KEYS.hash_one(id))
}

/// The text that says what to change in an id that is not in its format.
pub(super) type Remedy = &'static str;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_is_written_as_the_standard_library_does() {
        for octet in 0..=255 {
            let ip = Ipv4Addr::new(octet, 255 - octet, octet / 2, 7);
            assert_eq!(Id::from(ip).as_str(), ip.to_string());
        }
    }

    #[test]
    fn secret_is_the_same_id_and_people_see_its_hash() {
        for len in [1, 23, 24, 25, 1024] {
            let text = "k".repeat(len);
            let open = Id::from(&*text);
            let secret = Id::from(&*text).secret();
            assert_eq!((&open, secret.as_str()), (&secret, &*text));
            assert!(secret.is_secret() && !open.is_secret());
            assert!(secret.clone().secret_if(false).is_secret());
            assert_eq!(
                (&*open.shown(), format!("{open:?}")),
                (&*text, text.clone())
            );
            let shown = secret.shown().into_owned();
            assert_eq!(
                shown.strip_prefix("redacted-").map(str::len),
                Some(16),
                "{shown}"
            );
            assert_eq!((format!("{secret:?}"), secret.to_string()), (shown, text));
        }
        let shown = |id: &str| Id::from(id).secret().shown().into_owned();
        assert_eq!(shown("a"), shown("a"));
        assert_ne!(shown("a"), shown("b"));
    }

    #[test]
    fn ids_are_small_and_addresses_and_ranges_stay_in_them() {
        assert_eq!((size_of::<Id>(), size_of::<Option<Id>>()), (32, 32));
        let ip = Ipv4Addr::from([255; 4]);
        assert!(!Id::from(ip).text.is_heap_allocated());
        let ranges = (48..=64).map(|bits| crate::id::network([u16::MAX; 8].into(), bits));
        for range in ranges {
            assert!(!range.text.is_heap_allocated(), "{range}");
        }
    }

    #[test]
    fn texts_of_any_length_are_kept_whole() {
        for len in [0, 1, 23, 24, 25, 10_000] {
            let text = "x".repeat(len);
            assert_eq!(Id::from(text.as_str()).as_str(), text);
            assert_eq!(Id::display(&text), Id::from(text));
        }
    }
}

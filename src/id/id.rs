use std::{
    borrow::Cow,
    fmt::{self, Write},
    hash::{BuildHasher, Hash, Hasher, RandomState},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::LazyLock,
};

use arrayvec::ArrayString;

/// The most bytes that are stored without an allocation.
const INLINE: usize = 88;

/// The id of a client, as text. Up to 88 bytes are stored inline, so that common ids, and an account's number with a
/// hash, need no allocation.
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
/// # Secrets
///
/// An id can be a [secret](Self::secret), such as an API key. The ids of [`HeaderId`](crate::key::HeaderId) are secrets,
/// unless it is [`shown`](crate::key::HeaderId::shown). Refusals, events and `Debug` output then contain a hash. Show people
/// [`shown`](Self::shown), because [`as_str`](Self::as_str) and `Display` return the id itself.
#[derive(Clone)]
pub struct Id(Repr);

/// A field next to the text would make each id eight bytes larger.
#[derive(Clone)]
enum Repr {
    Inline(ArrayString<INLINE>),
    SecretInline(ArrayString<INLINE>),
    Heap(Box<str>),
    SecretHeap(Box<str>),
}

impl Id {
    /// The id that requests without an id share ([`OnMissing::Shared`](crate::rule::OnMissing::Shared)). No request
    /// can send it. An override in a file can use it.
    pub const MISSING: &str = "\u{ab}missing\u{bb}";

    /// Creates the empty id, which no client has.
    #[inline(always)]
    pub(crate) fn empty() -> Self {
        Self(Repr::Inline(ArrayString::new()))
    }

    /// Creates an id from the displayed form of a value.
    pub fn display(value: impl fmt::Display) -> Self {
        let mut text = ArrayString::new();
        match write!(text, "{value}") {
            Ok(()) => Self(Repr::Inline(text)),
            Err(_) => Self(Repr::Heap(value.to_string().into())),
        }
    }

    /// Marks the id as a secret, such as an API key. It is used and stored as before, but texts for people, such as refusals,
    /// events and `Debug` output, contain a hash of it.
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
    #[inline]
    pub fn secret(self) -> Self {
        Self(match self.0 {
            Repr::Inline(text) => Repr::SecretInline(text),
            Repr::Heap(text) => Repr::SecretHeap(text),
            secret => secret,
        })
    }

    /// Marks the id as a secret if `is_secret`.
    #[inline]
    pub(crate) fn secret_if(self, is_secret: bool) -> Self {
        if is_secret { self.secret() } else { self }
    }

    /// Returns whether the id is a [secret](Self::secret).
    #[must_use]
    #[inline]
    pub fn is_secret(&self) -> bool {
        matches!(self.0, Repr::SecretInline(_) | Repr::SecretHeap(_))
    }

    /// The text itself, also of a secret id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Repr::Inline(text) | Repr::SecretInline(text) => text,
            Repr::Heap(text) | Repr::SecretHeap(text) => text,
        }
    }

    /// The text for people: a hash of a secret id, and the id itself otherwise. The hash is stable within a process, changes
    /// on restart, and does not reveal the id.
    #[must_use]
    pub fn shown(&self) -> Cow<'_, str> {
        match self.is_secret() {
            true => redacted(self.as_str()).to_string().into(),
            false => self.as_str().into(),
        }
    }
}

/// Two ids are equal if their texts are.
impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Id {}

impl Hash for Id {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl From<&str> for Id {
    fn from(text: &str) -> Self {
        Self(ArrayString::from(text).map_or_else(|_| Repr::Heap(text.into()), Repr::Inline))
    }
}

impl From<String> for Id {
    fn from(text: String) -> Self {
        match ArrayString::from(&text) {
            Ok(inline) => Self(Repr::Inline(inline)),
            Err(_) => Self(Repr::Heap(text.into())),
        }
    }
}

/// Each octet as text, with the dot that follows it in an address.
const OCTETS: [&str; 256] = {
    const DIGITS: [[u8; 4]; 256] = {
        let mut digits = [[b'.'; 4]; 256];
        let mut n = 0;
        while n < 256 {
            #[expect(clippy::cast_possible_truncation, reason = "it is below 256")]
            let octet = n as u8;
            let [hundreds, tens, ones] = [octet / 100, octet / 10 % 10, octet % 10];
            digits[n] = match octet {
                0..10 => [b'0' + ones, b'.', b'.', b'.'],
                10..100 => [b'0' + tens, b'0' + ones, b'.', b'.'],
                _ => [b'0' + hundreds, b'0' + tens, b'0' + ones, b'.'],
            };
            n += 1;
        }
        digits
    };
    let mut octets = [""; 256];
    let mut n = 0;
    while n < 256 {
        let len = if n < 10 {
            2
        } else if n < 100 {
            3
        } else {
            4
        };
        octets[n] = match str::from_utf8(DIGITS[n].split_at(len).0) {
            Ok(text) => text,
            Err(_) => unreachable!(),
        };
        n += 1;
    }
    octets
};

impl From<Ipv4Addr> for Id {
    /// Writes octets from a table, because formatting would take ten times as long on each request.
    #[inline(always)]
    fn from(ip: Ipv4Addr) -> Self {
        static TEXTS: [&str; 256] = OCTETS;
        let mut text = ArrayString::new();
        let [first @ .., last] = ip.octets();
        // The compiler knows the length of each copy, so no function is called.
        for octet in first {
            let octet = TEXTS[usize::from(octet)];
            match octet.len() {
                2 => text.push_str(&octet[..2]),
                3 => text.push_str(&octet[..3]),
                _ => text.push_str(&octet[..4]),
            }
        }
        let last = TEXTS[usize::from(last)];
        match last.len() {
            2 => text.push_str(&last[..1]),
            3 => text.push_str(&last[..2]),
            _ => text.push_str(&last[..3]),
        }
        Self(Repr::Inline(text))
    }
}

impl From<Ipv6Addr> for Id {
    fn from(ip: Ipv6Addr) -> Self {
        Self::display(ip)
    }
}

impl From<IpAddr> for Id {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => ip.into(),
            IpAddr::V6(ip) => ip.into(),
        }
    }
}

impl AsRef<str> for Id {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

/// Writes the text itself, also of a secret id.
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

/// Writes the text for people. See [`shown`](Id::shown).
impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&*self.shown(), f)
    }
}

/// `redacted-` and 16 digits.
type RedactedText = ArrayString<25>;

/// Returns the hash of an id, for texts and events. It is stable within a process, and does not reveal the id.
///
/// Clients see the hashes of ids that they have chosen. The hash function of the standard library keeps its key secret all
/// the same.
#[cold]
pub(crate) fn redacted(id: &str) -> RedactedText {
    static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let mut text = RedactedText::new();
    write!(text, "redacted-{:016x}", SECRET.hash_one(id)).expect("there is room for 16 digits");
    text
}

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
        for len in [1, 87, 88, 89, 1024] {
            let text = "k".repeat(len);
            let (open, secret) = (Id::from(&*text), Id::from(&*text).secret());
            assert_eq!((&open, secret.as_str()), (&secret, &*text));
            assert!(secret.is_secret() && secret.clone().secret().is_secret() && !open.is_secret());
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
            assert_eq!(size_of::<Id>(), 96);
        }
        let shown = |id: &str| Id::from(id).secret().shown().into_owned();
        assert_eq!(shown("a"), shown("a"));
        assert_ne!(shown("a"), shown("b"));
    }

    #[test]
    fn long_ids_are_kept_whole() {
        for len in [0, 1, 87, 88, 89, 10_000] {
            let text = "x".repeat(len);
            assert_eq!(Id::from(text.as_str()).as_str(), text);
            assert_eq!(Id::display(&text), Id::from(text));
        }
    }
}

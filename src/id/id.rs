use std::{
    fmt::{self, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
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
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Id(Repr);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    Inline(ArrayString<INLINE>),
    Heap(Box<str>),
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

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Repr::Inline(text) => text,
            Repr::Heap(text) => text,
        }
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

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
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
    fn long_ids_are_kept_whole() {
        for len in [0, 1, 87, 88, 89, 10_000] {
            let text = "x".repeat(len);
            assert_eq!(Id::from(text.as_str()).as_str(), text);
            assert_eq!(Id::display(&text), Id::from(text));
        }
    }
}

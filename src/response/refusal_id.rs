use std::{fmt, num::NonZeroU64};

use arrayvec::ArrayString;

use crate::random;

/// Crockford's letters and digits. They leave out I, L, O and U, which people misread.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// The number of digits, of five bits each.
const LEN: usize = 12;

/// The reference of a refusal: twelve random letters and digits, such as `4zk9w2m7q1xd`. Of a thousand million refusals, two
/// have the same one with a probability of 0.35.
///
/// [`RateLimitLayer::refusal_ids`](crate::RateLimitLayer::refusal_ids) turns it on. A client can quote it, and an operator
/// finds the refusal by it. It is not a secret, and allows nothing.
///
/// ```
/// use tollgate::response::RefusalId;
///
/// let id = RefusalId::parse("4zk9w2m7q1xd").expect("these are twelve digits");
/// assert_eq!(id.to_string(), "4zk9w2m7q1xd");
/// // As somebody may write it down.
/// assert_eq!(RefusalId::parse(" 4ZK9W2M7QIXD"), Some(id));
/// assert_eq!(RefusalId::parse("alice"), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RefusalId(NonZeroU64);

impl RefusalId {
    pub(super) fn random() -> Self {
        let random = random::number() >> (64 - 5 * LEN);
        Self(NonZeroU64::new(random).unwrap_or(NonZeroU64::MIN))
    }

    /// Reads a reference as people write it: upper case, `O` for 0, `I` and `L` for 1, and spaces around it are accepted. `None`
    /// if it is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().as_bytes();
        if text.len() != LEN {
            return None;
        }
        let digit = |byte: u8| {
            let byte = match byte.to_ascii_lowercase() {
                b'o' => b'0',
                b'i' | b'l' => b'1',
                byte => byte,
            };
            DIGITS.iter().position(|digit| *digit == byte)
        };
        let number = text.iter().try_fold(0, |number, byte| {
            digit(*byte).map(|digit| number << 5 | digit as u64)
        });
        NonZeroU64::new(number?).map(Self)
    }

    /// The reference as text.
    pub(super) fn text(self) -> ArrayString<LEN> {
        let digit = |place: usize| {
            let digit = self.0.get() >> (5 * (LEN - 1 - place)) & 31;
            char::from(DIGITS[digit as usize])
        };
        (0..LEN)
            .map(digit)
            .fold(ArrayString::new(), |mut text, digit| {
                text.push(digit);
                text
            })
    }
}

impl fmt::Display for RefusalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text())
    }
}

impl fmt::Debug for RefusalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_is_read_as_it_is_written() {
        for _ in 0..1000 {
            let id = RefusalId::random();
            let text = id.to_string();
            assert_eq!(text.len(), LEN, "{text}");
            assert_eq!(RefusalId::parse(&text), Some(id), "{text}");
            assert_eq!(RefusalId::parse(&text.to_uppercase()), Some(id), "{text}");
        }
        for wrong in [
            "",
            "000000000000",
            "4zk9w2m7q1x",
            "4zk9w2m7q1xdd",
            "4zk9w2m7q1x\u{e4}",
            "4zk9w2m7q1x-",
        ] {
            assert_eq!(RefusalId::parse(wrong), None, "{wrong}");
        }
    }
}

use std::{fmt, num::NonZeroU64, str::FromStr};

use thiserror::Error;

use crate::{message::debug_is_message, random};

/// Crockford's letters and digits. They leave out I, L, O and U, which people misread.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// The number of digits, of five bits each.
const LEN: usize = 12;

/// The reference of a refusal: twelve random letters and digits, such as `4zk9w2m7q1xd`. Of a thousand million refusals, two
/// have the same one with a probability of 0.35.
///
/// Each refusal has one. A client can quote it, and an operator finds the [event](crate::guide::why_denied) of the refusal by
/// it. It is not a secret, and allows nothing.
///
/// `FromStr` reads a reference as people write it: upper case, `O` for 0, `I` and `L` for 1, and spaces around it are accepted.
///
/// ```
/// use tollgate::response::RefusalId;
///
/// let id: RefusalId = " 4ZK9W2M7QIXD".parse()?;
/// assert_eq!(id.to_string(), "4zk9w2m7q1xd");
/// assert!("alice".parse::<RefusalId>().is_err());
/// # Ok::<_, tollgate::response::RefusalIdError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RefusalId(NonZeroU64);

impl RefusalId {
    pub(super) fn random() -> Self {
        let random = random::number() >> (64 - 5 * LEN);
        Self(NonZeroU64::new(random).unwrap_or(NonZeroU64::MIN))
    }
}

impl FromStr for RefusalId {
    type Err = RefusalIdError;

    fn from_str(text: &str) -> Result<Self, RefusalIdError> {
        let digits = text.trim().as_bytes();
        if digits.len() != LEN {
            return Err(RefusalIdError(()));
        }
        let number = digits.iter().try_fold(0, |number, byte| {
            let byte = match byte.to_ascii_lowercase() {
                b'o' => b'0',
                b'i' | b'l' => b'1',
                byte => byte,
            };
            let digit = DIGITS.iter().position(|digit| *digit == byte)?;
            Some(number << 5 | digit as u64)
        });
        let number = number.and_then(NonZeroU64::new);
        number.map(Self).ok_or(RefusalIdError(()))
    }
}

/// The error for a text that is not a [`RefusalId`].
#[derive(Clone, Error)]
#[error(
    "not the reference of a refusal: write its twelve letters and digits, such as `4zk9w2m7q1xd`"
)]
pub struct RefusalIdError(());

debug_is_message!(RefusalIdError);

impl fmt::Display for RefusalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digit = |place| DIGITS[(self.0.get() >> (5 * place) & 31) as usize];
        let digits: String = (0..LEN)
            .rev()
            .map(|place| char::from(digit(place)))
            .collect();
        f.pad(&digits)
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
            let read = |text: &str| text.parse::<RefusalId>().ok();
            assert_eq!(read(&text), Some(id), "{text}");
            assert_eq!(read(&text.to_uppercase()), Some(id), "{text}");
        }
        for wrong in [
            "",
            "000000000000",
            "4zk9w2m7q1x",
            "4zk9w2m7q1xdd",
            "4zk9w2m7q1x\u{e4}",
            "4zk9w2m7q1x-",
        ] {
            assert!(wrong.parse::<RefusalId>().is_err(), "{wrong}");
        }
    }
}

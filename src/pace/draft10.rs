//! `RateLimit` of [draft-ietf-httpapi-ratelimit-headers-10]: a list of structured field items (RFC 9651). The parameter
//! `r` is the remaining number, and `t` the seconds until there is more.
//!
//! [draft-ietf-httpapi-ratelimit-headers-10]:
//!     https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-ratelimit-headers-10

use std::time::Duration;

use http::{HeaderMap, HeaderName};

use super::field::{Left, whole};

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// Reads the lowest remaining number and, among exhausted policies, the longest wait. A malformed field is ignored as a
/// whole.
pub(super) fn read(headers: &HeaderMap) -> Option<Left> {
    let mut all: Option<Left> = None;
    for line in headers.get_all(&RATELIMIT) {
        let mut rest = line.to_str().ok()?.trim();
        while !rest.is_empty() {
            let left;
            (left, rest) = item(rest)?;
            all = Some(all.map_or(left, |all| all.and(left)));
        }
    }
    all
}

impl Left {
    fn and(self, other: Self) -> Self {
        Self {
            remaining: self.remaining.min(other.remaining),
            wait: self.wait.max(other.wait),
        }
    }
}

/// Reads an item and the comma after it.
fn item(text: &str) -> Option<(Left, &str)> {
    let (mut remaining, mut after) = (None, None);
    let mut rest = name(text)?;
    while let Some(parameter) = rest.strip_prefix(';') {
        let parameter = parameter.trim_start_matches(' ');
        let (key, behind) = parameter.split_at(end(parameter, is_key));
        let (value, behind) = match behind.strip_prefix('=') {
            Some(behind) => {
                let end = value_end(behind)?;
                (Some(&behind[..end]), &behind[end..])
            }
            None => (None, behind),
        };
        match key {
            "" => return None,
            "r" => remaining = Some(whole(value?)?),
            "t" => after = Some(whole(value?)?),
            _ => {}
        }
        rest = behind;
    }
    let remaining = remaining?;
    let wait = after.filter(|_| remaining == 0).map(Duration::from_secs);
    let rest = rest.trim_start_matches([' ', '\t']);
    let rest = match rest.strip_prefix(',') {
        Some(behind) => {
            Some(behind.trim_start_matches([' ', '\t'])).filter(|next| !next.is_empty())
        }
        None => Some(rest).filter(|rest| rest.is_empty()),
    };
    Some((Left { remaining, wait }, rest?))
}

/// Skips the name of a policy: a string or, as some servers write it, a token.
fn name(text: &str) -> Option<&str> {
    let end = match text.starts_with('"') {
        true => string_end(text)?,
        false => end(text, |byte| is_key(byte) || byte.is_ascii_uppercase()),
    };
    (end > 0).then(|| &text[end..])
}

/// Finds the end of a parameter's value.
fn value_end(text: &str) -> Option<usize> {
    match text.starts_with('"') {
        true => string_end(text),
        false => Some(end(text, |byte| !b";,\" \t".contains(&byte))),
    }
}

/// Finds the end of a quoted string.
fn string_end(text: &str) -> Option<usize> {
    let mut escaped = false;
    let quote = text.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    quote.map(|quote| quote + 2)
}

fn end(text: &str, belongs: impl Fn(u8) -> bool) -> usize {
    let mut bytes = text.bytes();
    bytes.position(|byte| !belongs(byte)).unwrap_or(text.len())
}

fn is_key(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte)
}

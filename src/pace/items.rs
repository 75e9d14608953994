//! Lists of structured field items with parameters (RFC 9651), as in `RateLimit` and `RateLimit-Policy`.

use http::{HeaderMap, HeaderName};

/// A name of a policy as it was written, and what follows.
pub(super) struct PolicyItem<'a> {
    pub(super) name: &'a str,
    parameters: &'a str,
}

impl<'a> PolicyItem<'a> {
    /// Returns the value of a parameter, if it has one. The last of several counts.
    pub(super) fn get(&self, key: &str) -> Option<&'a str> {
        let mut rest = self.parameters;
        let mut found = None;
        while let Some((name, value, behind)) = parameter(rest) {
            if name == key {
                found = value;
            }
            rest = behind;
        }
        found
    }
}

/// Calls a function with each item of a field. Returns `None` if the field is malformed or the function returns `None`.
pub(super) fn each<'a>(
    headers: &'a HeaderMap,
    field: &HeaderName,
    mut read: impl FnMut(PolicyItem<'a>) -> Option<()>,
) -> Option<()> {
    for line in headers.get_all(field) {
        let mut rest = line.to_str().ok()?.trim();
        while !rest.is_empty() {
            let item;
            (item, rest) = split(rest)?;
            read(item)?;
        }
    }
    Some(())
}

/// Splits an item and the comma after it from a list.
fn split(text: &str) -> Option<(PolicyItem<'_>, &str)> {
    let behind_name = name(text)?;
    let mut rest = behind_name;
    while rest.starts_with(';') {
        (_, _, rest) = parameter(rest)?;
    }
    let item = PolicyItem {
        name: &text[..text.len() - behind_name.len()],
        parameters: &behind_name[..behind_name.len() - rest.len()],
    };
    let rest = rest.trim_start_matches([' ', '\t']);
    let rest = match rest.strip_prefix(',') {
        Some(behind) => {
            Some(behind.trim_start_matches([' ', '\t'])).filter(|next| !next.is_empty())
        }
        None => Some(rest).filter(|rest| rest.is_empty()),
    };
    Some((item, rest?))
}

/// Splits a parameter: its name, its value, and what follows. Returns `None` if there is none, or a malformed one.
fn parameter(text: &str) -> Option<(&str, Option<&str>, &str)> {
    let parameter = text.strip_prefix(';')?.trim_start_matches(' ');
    let (name, behind) = parameter.split_at(end(parameter, is_key));
    if name.is_empty() {
        return None;
    }
    let Some(behind) = behind.strip_prefix('=') else {
        return Some((name, None, behind));
    };
    let value = value_end(behind, |byte| !b";,\" \t".contains(&byte))?;
    let (value, behind) = behind.split_at(value);
    Some((name, Some(value), behind))
}

/// Skips the name of a policy: a string or, as some servers write it, a token.
fn name(text: &str) -> Option<&str> {
    let end = value_end(text, |byte| is_key(byte) || byte.is_ascii_uppercase())?;
    (end > 0).then(|| &text[end..])
}

/// Finds the end of a quoted string or, without a quote, of a token.
fn value_end(text: &str, is_token_byte: impl Fn(u8) -> bool) -> Option<usize> {
    if !text.starts_with('"') {
        return Some(end(text, is_token_byte));
    }
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

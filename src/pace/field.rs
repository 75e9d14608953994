//! What single fields of a response say.

use std::time::Duration;

use http::{HeaderMap, HeaderName};

/// What a refusal says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Come back, after a wait if that is known.
    Later(Option<Duration>),
    /// Retrying is pointless.
    Final,
}

/// What the fields say that any response may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) remaining: u64,
    /// If nothing remains, how long until something does.
    pub(super) wait: Option<Duration>,
}

/// The only line of a field, if it is text.
pub(super) fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut lines = headers.get_all(name).iter();
    let line = lines.next()?.to_str().ok()?;
    lines.next().is_none().then(|| line.trim())
}

/// A whole number in digits only. One beyond all integers is the largest.
pub(super) fn whole(text: &str) -> Option<u64> {
    let is_whole = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_whole.then(|| text.parse().unwrap_or(u64::MAX))
}

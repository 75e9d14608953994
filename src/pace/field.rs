//! Single header fields of a response.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, header};

const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// The content of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryAdvice {
    /// The request can be retried, after a wait if it is known.
    Later(Option<Duration>),
    /// Retrying is pointless.
    Final,
}

/// The content of the fields that any response can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) remaining: u64,
    /// If nothing remains, the time until something does.
    pub(super) wait: Option<Duration>,
}

impl Left {
    /// Returns the lower number and the longer wait.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            remaining: self.remaining.min(other.remaining),
            wait: self.wait.max(other.wait),
        }
    }
}

/// The only line of a field, if it is text.
pub(super) fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut lines = headers.get_all(name).iter();
    let line = lines.next()?.to_str().ok()?;
    lines.next().is_none().then(|| line.trim())
}

/// Reads a whole number of digits only. A number above `u64::MAX` is read as `u64::MAX`.
pub(super) fn whole(text: &str) -> Option<u64> {
    let is_whole = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_whole.then(|| text.parse().unwrap_or(u64::MAX))
}

/// Reads the wait of `retry-after-ms` or of `Retry-After`, which is in seconds or a date (RFC 9110, section 10.2.3).
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let exact = single(headers, &RETRY_AFTER_MS).and_then(whole);
    exact
        .map(Duration::from_millis)
        .or_else(|| seconds(headers))
        .or_else(|| {
            let date = date(headers, &header::RETRY_AFTER)?;
            Some(date.duration_since(now).unwrap_or_default())
        })
}

fn seconds(headers: &HeaderMap) -> Option<Duration> {
    let text = single(headers, &header::RETRY_AFTER)?;
    whole(text).map(Duration::from_secs)
}

/// A field that holds a date.
pub(super) fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(single(headers, name)?).ok()
}

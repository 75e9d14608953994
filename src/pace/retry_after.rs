//! `Retry-After`, in seconds or as a date (RFC 9110, section 10.2.3), and `retry-after-ms`.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, header};

use super::field::{single, whole};

const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// Reads the wait, from the more exact field first.
pub(super) fn read(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
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

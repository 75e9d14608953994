//! `X-RateLimit-Remaining` and `X-RateLimit-Reset`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName};

use super::{
    field::{Left, single, whole},
    figures::{Figure, LEAST_ESTIMATED, PolicyFigures, Remaining, ShownRefill},
};

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// A reset of this many seconds or more counts from 1970. From now, it would be 31 years away.
const EPOCH_SECS: u64 = 1_000_000_000;
/// The same bound in milliseconds.
const EPOCH_MS: u64 = 1_000_000_000_000;

/// The longest time in which a bucket fills whose rate is worth an estimate, if it is rounded up to a second or two.
const ABOUT_SECOND: Duration = Duration::from_millis(2500);

pub(super) fn read(headers: &HeaderMap, now: SystemTime) -> Option<PolicyFigures> {
    let remaining = whole(single(headers, &REMAINING)?)?;
    let reset = single(headers, &RESET).and_then(whole);
    let reset = reset.map(|reset| until(reset, now));
    Some(PolicyFigures {
        policies: reset
            .and_then(|reset| figure(headers, remaining, reset))
            .into_iter()
            .collect(),
        others: Some(Left {
            remaining,
            wait: reset.filter(|_| remaining == 0),
        }),
        are_alternatives: true,
    })
}

/// The figures of a bucket whose used units come back until the reset, if the response says how large it is.
fn figure(headers: &HeaderMap, remaining: u64, reset: Duration) -> Option<Figure> {
    let quota = u32::try_from(single(headers, &LIMIT).and_then(whole)?).ok()?;
    let units = u32::try_from(remaining).ok()?;
    let used = quota.checked_sub(units).filter(|used| *used > 0)?;
    let interval = reset / used;
    let fills = interval.saturating_mul(quota);
    (quota >= LEAST_ESTIMATED && reset <= ABOUT_SECOND && !reset.is_zero()).then(|| Figure {
        name: String::new(),
        quota,
        refill: ShownRefill::WholeSeconds(interval),
        cost: 1,
        left: Some(Remaining { units, next: None }),
        is_certain: fills <= ABOUT_SECOND,
    })
}

fn until(reset: u64, now: SystemTime) -> Duration {
    let since = match reset {
        0..EPOCH_SECS => return Duration::from_secs(reset),
        EPOCH_SECS..EPOCH_MS => Duration::from_secs(reset),
        _ => Duration::from_millis(reset),
    };
    since.saturating_sub(now.duration_since(UNIX_EPOCH).unwrap_or_default())
}

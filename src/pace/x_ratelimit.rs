//! `X-RateLimit-Remaining` and `X-RateLimit-Reset`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName};

use super::{
    field::{Left, single, whole},
    figures::{Figure, Figures, LEAST_ESTIMATED, Refill, Remaining},
};

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// A reset of this many seconds or more counts from 1970. From now, it would be 31 years away.
const EPOCH_SECS: u64 = 1_000_000_000;
/// The same bound in milliseconds.
const EPOCH_MS: u64 = 1_000_000_000_000;

/// The longest reset of a bucket that fills within a second, if both instants are rounded to a second.
const WITHIN_SECOND: Duration = Duration::from_secs(2);

pub(super) fn read(headers: &HeaderMap, now: SystemTime) -> Option<Figures> {
    let remaining = whole(single(headers, &REMAINING)?)?;
    let reset = single(headers, &RESET).and_then(whole);
    let reset = reset.map(|reset| until(reset, now));
    if reset.is_some_and(|reset| reset <= WITHIN_SECOND)
        && let Some(figure) = figure(headers, remaining)
    {
        return Some(Figures {
            policies: vec![figure],
            others: None,
        });
    }
    Some(Figures {
        policies: Vec::new(),
        others: Some(Left {
            remaining,
            wait: reset.filter(|_| remaining == 0),
        }),
    })
}

/// The figures of a bucket that fills within a second, if the response says how large it is.
fn figure(headers: &HeaderMap, remaining: u64) -> Option<Figure> {
    let quota = u32::try_from(single(headers, &LIMIT).and_then(whole)?).ok()?;
    let units = u32::try_from(remaining).ok()?;
    (quota >= LEAST_ESTIMATED && units <= quota).then(|| Figure {
        name: String::new(),
        quota,
        refill: Refill::WithinSecond,
        cost: 1,
        left: Some(Remaining { units, next: None }),
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

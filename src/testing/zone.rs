//! Time zones as they are defined: a period ends when the clocks first show its end, or a later time if they skip that.

use jiff::{Timestamp, tz::TimeZone};

/// Two days, in microseconds. No clock goes back by more.
const BACK: u64 = 2 * 24 * 3_600_000_000;

/// Returns the end of the period that contains an instant in a zone. `next` returns the end of the period that contains a local
/// time.
///
/// The clocks are followed from change to change, with the latest end that they have shown.
pub(super) fn end(zone: &str, now: u64, next: impl Fn(u64) -> u64) -> u64 {
    let zone = TimeZone::get(zone).expect("limits have zones that exist");
    let instant = |us: u64| Timestamp::from_microsecond(us.cast_signed()).unwrap_or(Timestamp::MAX);
    let ahead = |us: u64| i64::from(zone.to_offset(instant(us)).seconds()) * 1_000_000;
    let mut at = now - BACK;
    let mut shown = at.saturating_add_signed(ahead(at));
    loop {
        let mut changes = zone.following(instant(at));
        let change = changes
            .next()
            .map_or(Timestamp::MAX, |change| change.timestamp());
        let end = next(shown);
        let first_shown = at.max(end.saturating_add_signed(-ahead(at)));
        if instant(first_shown) >= change {
            at = change.as_microsecond().cast_unsigned();
        } else if first_shown > now {
            return first_shown;
        } else {
            shown = end;
        }
    }
}

//! `Retry-After`: how a wait becomes a value.

use std::time::Duration;

use super::message::Message;
use crate::decision::ceil_secs;

/// Returns the seconds after which a refused client can come back: rounded up, and at least 1, because 0 invites the
/// next request at once.
pub(super) fn seconds(wait: Duration) -> u64 {
    ceil_secs(wait).max(1)
}

/// Writes a wait for people: `36 s`, `60 minutes`, `7 days 9 hours`. It is rounded up, and exact up to two minutes.
pub(super) fn write(seconds: u64, message: &mut impl Message) {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    const MINUTES: [&str; 2] = [" minute", " minutes"];
    const HOURS: [&str; 2] = [" hour", " hours"];
    let units = match seconds {
        0..=120 => return add(seconds, [" s", " s"], message),
        121..=7_200 => return add(seconds.div_ceil(MINUTE), MINUTES, message),
        7_201..=172_800 => [(HOUR, HOURS), (MINUTE, MINUTES)],
        _ => [(DAY, [" day", " days"]), (HOUR, HOURS)],
    };
    let [(large, large_names), (small, small_names)] = units;
    let whole = seconds.div_ceil(small).saturating_mul(small);
    add(whole / large, large_names, message);
    if whole % large > 0 {
        message.words(" ");
        add(whole % large / small, small_names, message);
    }
}

/// Adds a number of units, by the name of one and that of several.
fn add(number: u64, [one, several]: [&str; 2], message: &mut impl Message) {
    message.words(itoa::Buffer::new().format(number));
    message.words(if number == 1 { one } else { several });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_in_units_that_people_use_and_never_too_short() {
        for (seconds, text) in [
            (1, "1 s"),
            (36, "36 s"),
            (120, "120 s"),
            (121, "3 minutes"),
            (900, "15 minutes"),
            (3_600, "60 minutes"),
            (7_201, "2 hours 1 minute"),
            (86_400, "24 hours"),
            (172_801, "2 days 1 hour"),
            (634_683, "7 days 9 hours"),
            (604_800, "7 days"),
        ] {
            let mut written = String::new();
            write(seconds, &mut written);
            assert_eq!(written, text, "{seconds}");
        }
    }
}

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Writes a wait for people: `36 s`, `60 minutes`, `7 days 9 hours`. It is rounded up, and exact up to two minutes.
pub(crate) fn wait_in_words(secs: u64) -> String {
    let (large, small) = match secs {
        0..=120 => return format!("{secs} s"),
        121..=7_200 => return count(secs.div_ceil(MINUTE), "minute"),
        7_201..=172_800 => ((HOUR, "hour"), (MINUTE, "minute")),
        _ => ((DAY, "day"), (HOUR, "hour")),
    };
    let whole = secs.div_ceil(small.0).saturating_mul(small.0);
    let words = count(whole / large.0, large.1);
    match whole % large.0 / small.0 {
        0 => words,
        rest => format!("{words} {}", count(rest, small.1)),
    }
}

fn count(number: u64, unit: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {unit}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_in_units_that_people_use_and_never_too_short() {
        for (secs, text) in [
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
            assert_eq!(wait_in_words(secs), text, "{secs}");
        }
    }
}

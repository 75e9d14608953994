//! Checks durations in Go's notation.

use std::time::Duration;

use tollgate::limit::{format_duration, parse_duration};

const NANOSECOND: Duration = Duration::from_nanos(1);

/// Checks the text, and the duration that is made from its bytes.
///
/// # Panics
///
/// If a check fails.
pub fn check(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    match parse_duration(&text) {
        Ok(duration) => {
            survives_writing(duration);
            adds_up(&text, duration);
        }
        Err(error) => assert!(error.to_string().contains(&*text), "{error}"),
    }
    survives_writing(duration_of(input));
}

fn survives_writing(duration: Duration) {
    let written = format_duration(duration);
    assert_eq!(parse_duration(&written), Ok(duration), "{written}");
}

/// A text is the sum of its parts, whatever their order.
fn adds_up(text: &str, duration: Duration) {
    assert_eq!(parse_duration(&format!("{text}0h")), Ok(duration));
    let longer = duration.checked_add(NANOSECOND);
    assert_eq!(parse_duration(&format!("{text}1ns")).ok(), longer);
    assert_eq!(parse_duration(&format!("1ns{text}")).ok(), longer);
    let twice = duration.checked_mul(2);
    assert_eq!(parse_duration(&text.repeat(2)).ok(), twice);
}

/// The first eight bytes are seconds, the next four nanoseconds.
fn duration_of(input: &[u8]) -> Duration {
    let mut bytes = [0; 12];
    for (to, from) in bytes.iter_mut().zip(input) {
        *to = *from;
    }
    let [a, b, c, d, e, f, g, h, nanos @ ..] = bytes;
    let secs = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    Duration::new(secs, u32::from_le_bytes(nanos) % 1_000_000_000)
}

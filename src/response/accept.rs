//! The `Accept` header (RFC 9110, section 12.5.1).

use http::{HeaderMap, header};

/// The most media ranges that are read.
const MOST: usize = 32;

/// Returns the index of the media type that the client prefers. Returns 0 if it accepts none of them, or
/// has no preference.
pub(super) fn preferred(headers: &HeaderMap, types: &[&str]) -> usize {
    if !headers.contains_key(header::ACCEPT) {
        return 0;
    }
    let weights = types.iter().map(|media_type| weight(headers, media_type));
    let weights = weights.enumerate().filter(|(_, weight)| *weight > 0);
    let best = weights.max_by_key(|(i, weight)| (*weight, usize::MAX - i));
    best.map_or(0, |(i, _)| i)
}

/// Returns the weight of a media type in thousandths, by the most specific range that contains it.
fn weight(headers: &HeaderMap, media_type: &str) -> u16 {
    let lines = headers.get_all(header::ACCEPT).iter();
    let ranges = lines.filter_map(|line| line.to_str().ok());
    let ranges = ranges.flat_map(|line| line.split(',')).take(MOST);
    let held = ranges.filter_map(|range| {
        let (range, parameters) = range.split_once(';').unwrap_or((range, ""));
        Some((specificity(range.trim(), media_type)?, quality(parameters)?))
    });
    let most_specific = held.max_by_key(|(specificity, _)| *specificity);
    most_specific.map_or(0, |(_, quality)| quality)
}

fn specificity(range: &str, media_type: &str) -> Option<u8> {
    if range.eq_ignore_ascii_case(media_type) {
        return Some(2);
    }
    let (kind, _) = media_type.split_once('/')?;
    match range.split_once('/')? {
        ("*", "*") => Some(0),
        (written, "*") if written.eq_ignore_ascii_case(kind) => Some(1),
        _ => None,
    }
}

/// Returns the weight in a range's parameters: 1 if there is none, and `None` if it is malformed.
fn quality(parameters: &str) -> Option<u16> {
    let mut parameters = parameters.split(';').filter_map(|one| one.split_once('='));
    let Some((_, weight)) = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("q"))
    else {
        return Some(1000);
    };
    let (whole, part) = weight.trim().split_once('.').unwrap_or((weight.trim(), ""));
    let is_part = part.len() <= 3 && part.bytes().all(|byte| byte.is_ascii_digit());
    let thousandths = format!("{part:0<3}").parse().ok().filter(|_| is_part)?;
    match (whole, thousandths) {
        ("0", thousandths) => Some(thousandths),
        ("1", 0) => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: [&str; 3] = ["application/json", "application/problem+json", "text/plain"];

    #[test]
    fn best_liked_type_is_found() {
        for (accept, expected) in [
            ("application/json", 0),
            ("application/problem+json", 1),
            ("APPLICATION/Problem+JSON; charset=utf-8", 1),
            ("text/plain", 2),
            ("text/*", 2),
            ("*/*", 0),
            ("application/*", 0),
            ("application/problem+json, */*;q=0.5", 1),
            ("application/json;q=0.5, application/problem+json;q=0.9", 1),
            ("application/json;q=0.5, text/plain;q=0.5", 0),
            ("application/json;q=0, */*", 1),
            (
                "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
                0,
            ),
            // Unknown types, and malformed headers.
            ("image/png", 0),
            ("text/plain;q=2", 0),
            ("text/plain;q=0.1234", 0),
            ("text/plain;q=", 0),
            (";;,,/,", 0),
            ("", 0),
        ] {
            let mut headers = HeaderMap::new();
            assert_eq!(preferred(&headers, &TYPES), 0);
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            assert_eq!(preferred(&headers, &TYPES), expected, "{accept}");
        }
    }

    #[test]
    fn lines_are_one_list_of_which_the_beginning_is_read() {
        let mut headers = HeaderMap::new();
        headers.append(header::ACCEPT, "image/png".parse().unwrap());
        headers.append(header::ACCEPT, "text/plain".parse().unwrap());
        assert_eq!(preferred(&headers, &TYPES), 2);
        let long = format!("{}text/plain", "image/png,".repeat(100_000));
        headers.insert(header::ACCEPT, long.parse().unwrap());
        assert_eq!(preferred(&headers, &TYPES), 0);
    }
}

//! Items of a structured field list (RFC 9651): the name of a limit, which needs no escaping, with integer parameters. A
//! parameter is given with the punctuation around its name.

use http::HeaderValue;

/// What stands between two items.
pub(super) const SEPARATOR: &[u8] = b", ";

/// Adds an item with two parameters, of which the second is optional.
#[inline(always)]
pub(super) fn add_item(
    list: &mut Vec<u8>,
    limit: &str,
    first: (&str, u32),
    (second, maybe): (&str, Option<u64>),
) {
    let mut buffers = [itoa::Buffer::new(), itoa::Buffer::new()];
    let [for_first, for_second] = &mut buffers;
    let (second, maybe) = parameter(second, maybe, for_second);
    add(
        list,
        [limit, first.0, for_first.format(first.1), second, maybe],
    );
}

/// Adds an [item](add_item) with a third parameter, which is optional too.
#[inline(always)]
pub(super) fn add_item_with(
    list: &mut Vec<u8>,
    limit: &str,
    first: (&str, u32),
    (second, maybe): (&str, Option<u64>),
    (third, perhaps): (&str, Option<u64>),
) {
    let mut buffers = [
        itoa::Buffer::new(),
        itoa::Buffer::new(),
        itoa::Buffer::new(),
    ];
    let [for_first, for_second, for_third] = &mut buffers;
    let (second, maybe) = parameter(second, maybe, for_second);
    let (third, perhaps) = parameter(third, perhaps, for_third);
    let number = for_first.format(first.1);
    add(
        list,
        [limit, first.0, number, second, maybe, third, perhaps],
    );
}

/// Returns a list as the value of a field. A full vector is converted without a copy.
#[inline(always)]
pub(super) fn value(list: Vec<u8>) -> HeaderValue {
    HeaderValue::try_from(list).expect("limit names are ASCII")
}

#[inline(always)]
fn parameter<'a>(
    name: &'a str,
    number: Option<u64>,
    buffer: &'a mut itoa::Buffer,
) -> (&'a str, &'a str) {
    number.map_or(("", ""), |number| (name, buffer.format(number)))
}

#[inline(always)]
fn add<const PARTS: usize>(list: &mut Vec<u8>, parts: [&str; PARTS]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    match list.is_empty() {
        true => *list = Vec::with_capacity(1 + length),
        false => {
            list.reserve_exact(SEPARATOR.len() + 1 + length);
            list.extend_from_slice(SEPARATOR);
        }
    }
    list.push(b'"');
    for part in parts {
        list.extend_from_slice(part.as_bytes());
    }
}

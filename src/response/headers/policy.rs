use std::sync::OnceLock;

use http::HeaderValue;

use super::exact;
use crate::{
    decision::{ClientFigures, Decision, ceil_secs},
    transaction::Algorithm,
};

/// A limit's item of `RateLimit-Policy`. It is the same for all clients without an override that are in the lowest
/// tier, so it is built once. The item of a monthly quota is built each time, because months have different lengths.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policy(OnceLock<UsualPolicy>);

/// The item of most clients, and what it depends on.
#[derive(Clone, Debug)]
struct UsualPolicy {
    algorithm: Algorithm,
    has_line: bool,
    is_reserved: bool,
    /// The cost of a request that the item names.
    cost: u32,
    item: HeaderValue,
    /// The item for requests of other costs.
    any_cost: HeaderValue,
}

impl UsualPolicy {
    #[inline]
    fn is_of(&self, figures: &ClientFigures<'_>) -> bool {
        figures.has_usual_terms(&self.algorithm, self.has_line)
            && figures.is_reserved() == self.is_reserved
    }

    #[inline]
    fn item(&self, cost: u32) -> HeaderValue {
        let is_usual = cost == self.cost;
        let item = if is_usual { &self.item } else { &self.any_cost };
        item.clone()
    }
}

impl Policy {
    #[inline]
    pub(super) fn item(&self, limit: &str, figures: &ClientFigures<'_>) -> HeaderValue {
        match self.0.get() {
            Some(usual) if usual.is_of(figures) => usual.item(figures.cost()),
            _ => self.new_item(limit, figures),
        }
    }

    /// Builds the item for a client with an override, or the first one of the limit, which is then reused.
    #[cold]
    fn new_item(&self, limit: &str, figures: &ClientFigures<'_>) -> HeaderValue {
        let (most, window) = figures.allowance();
        let window = Some(window).filter(|window| *window != Decision::NEVER);
        let secs = window.map(|window| ceil_secs(window).max(1));
        let standard = item(limit, ("\";q=", most), (";w=", secs));
        let cost = figures.cost();
        let item = exact::policy(&standard, figures.refill(), cost);
        if let Some(algorithm) = figures.algorithm().filter(|_| figures.is_usual()) {
            let _ = self.0.set(UsualPolicy {
                algorithm,
                has_line: figures.has_line(),
                is_reserved: figures.is_reserved(),
                cost,
                item: item.clone(),
                any_cost: exact::policy(&standard, figures.refill(), 1),
            });
        }
        item
    }
}

/// Builds an item of a structured field list (RFC 9651): the name of a limit, which needs no escaping,
/// with two integer parameters. The second one is optional. A name includes the punctuation around it.
#[inline(always)]
pub(super) fn item(
    limit: &str,
    first: (&str, u32),
    (second, maybe): (&str, Option<u64>),
) -> HeaderValue {
    let mut buffers = [itoa::Buffer::new(), itoa::Buffer::new()];
    let [for_first, for_second] = &mut buffers;
    let (second, maybe) = parameter(second, maybe, for_second);
    joined([limit, first.0, for_first.format(first.1), second, maybe])
}

/// Builds an [`item`] with a third parameter, which is optional too.
#[inline(always)]
pub(super) fn item_with(
    limit: &str,
    first: (&str, u32),
    (second, maybe): (&str, Option<u64>),
    (third, perhaps): (&str, Option<u64>),
) -> HeaderValue {
    let mut buffers = [
        itoa::Buffer::new(),
        itoa::Buffer::new(),
        itoa::Buffer::new(),
    ];
    let [for_first, for_second, for_third] = &mut buffers;
    let (second, maybe) = parameter(second, maybe, for_second);
    let (third, perhaps) = parameter(third, perhaps, for_third);
    let number = for_first.format(first.1);
    joined([limit, first.0, number, second, maybe, third, perhaps])
}

#[inline(always)]
fn parameter<'a>(
    name: &'a str,
    number: Option<u64>,
    buffer: &'a mut itoa::Buffer,
) -> (&'a str, &'a str) {
    number.map_or(("", ""), |number| (name, buffer.format(number)))
}

/// Joins the parts of an item. A full vector is converted to a value without a copy.
#[inline(always)]
fn joined<const PARTS: usize>(parts: [&str; PARTS]) -> HeaderValue {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut text = Vec::with_capacity(1 + length);
    text.push(b'"');
    for part in parts {
        text.extend_from_slice(part.as_bytes());
    }
    HeaderValue::try_from(text).expect("limit names are ASCII")
}

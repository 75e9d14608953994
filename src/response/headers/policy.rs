use std::sync::OnceLock;

use http::HeaderValue;

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
    item: HeaderValue,
}

impl UsualPolicy {
    #[inline]
    fn is_of(&self, figures: &ClientFigures<'_>) -> bool {
        figures.has_usual_terms(&self.algorithm, self.has_line)
    }
}

impl Policy {
    #[inline]
    pub(super) fn item(&self, limit: &str, figures: &ClientFigures<'_>) -> HeaderValue {
        match self.0.get() {
            Some(usual) if usual.is_of(figures) => usual.item.clone(),
            _ => self.new_item(limit, figures),
        }
    }

    /// Builds the item for a client with an override, or the first one of the limit, which is then reused.
    #[cold]
    fn new_item(&self, limit: &str, figures: &ClientFigures<'_>) -> HeaderValue {
        let (most, window) = figures.allowance();
        let window = Some(window).filter(|window| *window != Decision::NEVER);
        let secs = window.map(|window| ceil_secs(window).max(1));
        let item = item(limit, ("\";q=", most), (";w=", secs));
        if let Some(algorithm) = figures.algorithm().filter(|_| figures.is_usual()) {
            let _ = self.0.set(UsualPolicy {
                algorithm,
                has_line: figures.has_line(),
                item: item.clone(),
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
    (first, number): (&str, u32),
    (second, maybe): (&str, Option<u64>),
) -> HeaderValue {
    let mut buffers = [itoa::Buffer::new(), itoa::Buffer::new()];
    let [for_first, for_second] = &mut buffers;
    let number = for_first.format(number);
    let (second, maybe) = match maybe {
        Some(number) => (second, for_second.format(number)),
        None => ("", ""),
    };
    // A full vector is converted to a value without a copy.
    let length = limit.len() + first.len() + number.len() + second.len() + maybe.len();
    let mut text = Vec::with_capacity(1 + length);
    text.push(b'"');
    for part in [limit, first, number, second, maybe] {
        text.extend_from_slice(part.as_bytes());
    }
    HeaderValue::try_from(text).expect("limit names are ASCII")
}

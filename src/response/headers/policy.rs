use std::sync::OnceLock;

use http::HeaderValue;

use crate::{
    decision::{Decision, Quota},
    response::seconds::ceil_secs,
    transaction::Algorithm,
};

/// A limit's item of `RateLimit-Policy`, which is the same for all clients without an override, as long as they are in
/// the lowest tier. The item of a quota per month is built each time, because months have different lengths.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policy(OnceLock<(Algorithm, HeaderValue)>);

impl Policy {
    #[inline]
    pub(super) fn item(&self, limit: &str, quota: &Quota<'_>) -> HeaderValue {
        match self.0.get() {
            Some((algorithm, item)) if quota.is_usual() && quota.is_by(algorithm) => item.clone(),
            _ => self.new_item(limit, quota),
        }
    }

    /// Builds the item for a client with an override, or the first one of the limit, which is then reused.
    #[cold]
    fn new_item(&self, limit: &str, quota: &Quota<'_>) -> HeaderValue {
        let (most, window) = quota.allowance();
        let window = Some(window).filter(|window| *window != Decision::NEVER);
        let secs = window.map(|window| ceil_secs(window).max(1));
        let item = item(limit, [("\";q=", Some(most.into())), (";w=", secs)]);
        if let Some(algorithm) = quota.algorithm().filter(|_| quota.is_usual()) {
            let _ = self.0.set((algorithm, item.clone()));
        }
        item
    }
}

/// Builds an item of a structured field list (RFC 9651): the name of a limit, which needs no escaping,
/// with integer parameters.
pub(super) fn item(limit: &str, parameters: [(&str, Option<u64>); 2]) -> HeaderValue {
    let mut buffers = [itoa::Buffer::new(), itoa::Buffer::new()];
    let mut parts = ["\"", limit, "", "", "", ""];
    let written = parameters.into_iter().zip(&mut buffers);
    for (part, ((key, value), buffer)) in parts[2..].chunks_exact_mut(2).zip(written) {
        if let Some(value) = value {
            part.copy_from_slice(&[key, buffer.format(value)]);
        }
    }
    // A full vector becomes the value without a copy.
    let mut text = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
    for part in parts {
        text.extend_from_slice(part.as_bytes());
    }
    HeaderValue::try_from(text).expect("limit names are ASCII")
}

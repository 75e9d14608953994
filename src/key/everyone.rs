use http::request::Parts;

use super::{Extracted, KeyExtractor};

/// One bucket for all requests: what the server itself can bear.
#[derive(Clone, Copy, Debug, Default)]
pub struct Everyone;

impl KeyExtractor for Everyone {
    fn extract(&self, _: &Parts) -> Extracted {
        "everyone".into()
    }
}

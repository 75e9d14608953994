use http::request::Parts;

use super::{Extracted, KeyExtractor};
use crate::id::IdFormat;

/// One bucket for all requests: what the server itself can bear.
#[derive(Clone, Copy, Debug, Default)]
pub struct Everyone;

impl KeyExtractor for Everyone {
    fn extract(&self, _: &Parts) -> Extracted {
        "everyone".into()
    }

    fn fits(&self, format: IdFormat) -> bool {
        format == IdFormat::Opaque
    }
}

use http::request::Parts;

use super::{Extracted, KeyExtractor, Nature};
use crate::id::IdFormat;

/// One bucket for all requests: what the server itself can bear.
#[derive(Clone, Copy, Debug, Default)]
pub struct Everyone;

const ID: &str = "everyone";

impl KeyExtractor for Everyone {
    fn extract(&self, _: &Parts) -> Extracted {
        ID.into()
    }

    fn nature(&self) -> Nature {
        Nature::OneForAll
    }

    fn can_find(&self, folded: &str) -> bool {
        folded == ID
    }

    fn fits(&self, format: IdFormat) -> bool {
        format == IdFormat::Opaque
    }
}

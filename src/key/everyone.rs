use http::request::Parts;

use super::{
    extracted::Extracted,
    extractor::{IdProperties, IdSource, KeyExtractor},
};
use crate::id::IdFormat;

/// One bucket for all requests, to protect the server as a whole. It is an extractor for a [`Rule`](crate::Rule).
#[derive(Clone, Copy, Debug, Default)]
pub struct Everyone;

const ID: &str = "everyone";

impl KeyExtractor for Everyone {
    fn extract(&self, _: &Parts) -> Extracted {
        ID.into()
    }

    fn describe(&self) -> IdProperties {
        IdProperties::new(IdSource::OneForAll)
            .fits(|format| format == IdFormat::Opaque)
            .can_find(|folded| folded == ID)
    }
}

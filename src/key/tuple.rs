//! Tuples of extractors, whose ids are joined.

use http::request::Parts;

use super::{
    extractor::{self, IdSource, KeyExtractor},
    missing_id::MissingId,
};
use crate::id::{Id, IdFormat};

macro_rules! tuple {
    ($($extractor:ident $field:tt),+) => {
        /// One bucket for each combination of ids, such as `12345678:example.com`. In all parts but the last, a colon
        /// is written as `%3A` and a percent sign as `%25`, so that a client cannot reach another client's bucket.
        ///
        /// If one of the ids is a [secret](Id::secret), so is the joined id. If one of the extractors skips the rule or has no
        /// id, so does the tuple.
        impl<$($extractor: KeyExtractor),+> KeyExtractor for ($($extractor,)+) {
            fn extract(&self, parts: &Parts) -> Result<Option<Id>, MissingId> {
                self.extract_as(parts, IdFormat::Opaque)
            }

            fn extract_as(&self, parts: &Parts, format: IdFormat) -> Result<Option<Id>, MissingId> {
                join(&[$(&self.$field),+], parts, format)
            }

            fn fits(&self, format: IdFormat) -> bool {
                parts_fit(&[$(&self.$field),+], format)
            }

            fn source(&self) -> IdSource {
                [$(self.$field.source()),+].into_iter().max().unwrap_or_default()
            }
        }
    };
}

tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);

fn parts_fit(extractors: &[&dyn KeyExtractor], format: IdFormat) -> bool {
    match (format.pair(), extractors) {
        (Some([first, second]), [a, b]) => a.fits(first) && b.fits(second),
        _ => format == IdFormat::Opaque,
    }
}

/// Joins the ids of several extractors. For a format of pairs, each id is folded in the format of its part, and otherwise it is
/// used as it is.
fn join(
    extractors: &[&dyn KeyExtractor],
    parts: &Parts,
    format: IdFormat,
) -> Result<Option<Id>, MissingId> {
    let formats = format.pair().filter(|pair| pair.len() == extractors.len());
    let mut joined = String::new();
    let mut is_secret = false;
    for (i, extractor) in extractors.iter().enumerate() {
        let format = formats.map_or(IdFormat::Opaque, |formats| formats[i]);
        let Some(id) = extractor.extract_as(parts, format)? else {
            return Ok(None);
        };
        is_secret |= id.is_secret();
        if i > 0 {
            joined.push(':');
        }
        let part = id.as_str();
        let is_last = i + 1 == extractors.len();
        if is_last || !part.contains([':', '%']) {
            joined.push_str(part);
        } else {
            joined.push_str(&part.replace('%', "%25").replace(':', "%3A"));
        }
    }
    let joined = Id::from(joined).secret_if(is_secret);
    match (formats, extractors) {
        (Some([_, IdFormat::Opaque]), [.., last]) => {
            extractor::fold(*last, joined, format).map(Some)
        }
        _ => Ok(Some(joined)),
    }
}

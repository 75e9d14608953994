//! Extractors made of others: one id or else another, ids with a prefix, and tuples.

use std::sync::atomic::AtomicBool;

use http::request::Parts;

use super::extractor::{IdSource, KeyExtractor, MissingId};
use crate::id::{Id, IdFormat};

/// Created by [`KeyExtractor::or_else`].
pub(super) struct OrElse<A, B> {
    pub(super) first: A,
    pub(super) other: B,
    pub(super) logged: AtomicBool,
}

impl<A: KeyExtractor, B: KeyExtractor> KeyExtractor for OrElse<A, B> {
    fn extract(&self, parts: &Parts) -> Result<Option<Id>, MissingId> {
        self.extract_as(parts, IdFormat::Opaque)
    }

    fn extract_as(&self, parts: &Parts, format: IdFormat) -> Result<Option<Id>, MissingId> {
        match self.first.extract_as(parts, format) {
            Ok(Some(id)) => return Ok(Some(id)),
            Ok(None) => {}
            Err(missing) => missing.log_once(None, "fall back to another id", &self.logged),
        }
        self.other.extract_as(parts, format)
    }

    fn fits(&self, format: IdFormat) -> bool {
        self.first.fits(format) && self.other.fits(format)
    }

    fn source(&self) -> IdSource {
        self.first.source().or_else(self.other.source())
    }
}

/// Created by [`KeyExtractor::prefix`].
pub(super) struct Prefixed<E> {
    pub(super) extractor: E,
    pub(super) prefix: &'static str,
}

impl<E: KeyExtractor> KeyExtractor for Prefixed<E> {
    fn extract(&self, parts: &Parts) -> Result<Option<Id>, MissingId> {
        let found = self.extractor.extract_as(parts, IdFormat::Opaque)?;
        Ok(found.map(|id| {
            let prefixed = Id::display(format_args!("{}{id}", self.prefix));
            prefixed.secret_if(id.is_secret())
        }))
    }

    fn fits(&self, format: IdFormat) -> bool {
        format == IdFormat::Opaque && self.extractor.fits(format)
    }

    fn source(&self) -> IdSource {
        match self.extractor.source() {
            IdSource::Client => IdSource::Unknown,
            other => other,
        }
    }
}

macro_rules! tuple {
    ($($extractor:ident $place:tt),+) => {
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
                join(&[$(&self.$place),+], parts, format)
            }

            fn fits(&self, format: IdFormat) -> bool {
                parts_fit(&[$(&self.$place),+], format)
            }

            fn source(&self) -> IdSource {
                [$(self.$place.source()),+].into_iter().max().unwrap_or_default()
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

/// Joins the ids of several extractors: those of a pair in the formats of its parts, and all others as they are.
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
    Ok(Some(Id::from(joined).secret_if(is_secret)))
}

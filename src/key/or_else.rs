use std::{fmt, sync::Arc};

use http::request::Parts;

use super::{
    extracted::{Extracted, MissingId},
    extractor::{IdProperties, KeyExtractor},
};
use crate::id::{Id, IdFormat};

/// Combinators for [`KeyExtractor`]s.
pub trait KeyExtractorExt: KeyExtractor + Sized {
    /// Uses `other` if this extractor finds no id that is valid in the limit's format: if the id is absent, empty,
    /// sent twice, too long or malformed.
    ///
    /// Both kinds of ids belong to one limit. For two limits, use [`Rule::or_else`](crate::Rule::or_else). In a
    /// longer chain, the last extractor decides what happens if there is no id.
    ///
    /// ```
    /// use tollgate::{ClientIp, Rule, key::{ExtensionId, KeyExtractorExt}};
    ///
    /// #[derive(Clone)]
    /// struct User { name: String }
    ///
    /// // The user that an outer layer has authenticated, else the address.
    /// let user = ExtensionId::optional(|user: &User| format!("user:{}", user.name));
    /// let rule = Rule::new("requests", user.or_else(ClientIp::peer()));
    /// # let _ = rule;
    /// ```
    ///
    /// Both kinds of ids share the limit's buckets. Give one of them a prefix if both extractors can find the same
    /// text. A limit whose format one of the two cannot produce is an error at startup.
    #[must_use]
    fn or_else(self, other: impl KeyExtractor) -> OrElse {
        let mut alternatives = flattened(self);
        alternatives.extend(flattened(other));
        OrElse {
            alternatives: alternatives.into(),
        }
    }
}

impl<T: KeyExtractor> KeyExtractorExt for T {}

fn flattened(extractor: impl KeyExtractor) -> Vec<Arc<dyn KeyExtractor>> {
    match extractor.describe().each() {
        [] => vec![Arc::new(extractor)],
        each => each.to_vec(),
    }
}

/// Extractors that are tried in turn. Created by [`KeyExtractorExt::or_else`].
#[derive(Clone)]
pub struct OrElse {
    alternatives: Arc<[Arc<dyn KeyExtractor>]>,
}

impl KeyExtractor for OrElse {
    /// Finds the first id. Only a rule knows the format, and continues with the next extractor if the id does not fit
    /// it.
    fn extract(&self, parts: &Parts) -> Extracted {
        let mut last = Extracted::Skip;
        for extractor in &*self.alternatives {
            last = extractor.extract(parts);
            if matches!(&last, Extracted::Id(id) if is_some_id(id)) {
                break;
            }
        }
        last
    }

    fn describe(&self) -> IdProperties {
        let each = self.alternatives.iter().map(|one| one.describe());
        let each: Arc<[IdProperties]> = each.collect();
        let (of_formats, of_ids, of_errors) =
            (Arc::clone(&each), Arc::clone(&each), Arc::clone(&each));
        let source = each.iter().map(IdProperties::id_source).max();
        IdProperties::new(source.unwrap_or_default())
            .secret_if(each.iter().any(IdProperties::has_secrets))
            .fits(move |format| of_formats.iter().all(|one| one.has_format(format)))
            .can_find(move |folded| of_ids.iter().any(|one| one.may_find(folded)))
            .invalid(move |error| match of_errors.last() {
                Some(last) => last.missing(error),
                None => MissingId::client(error.to_string()),
            })
            .alternatives(&self.alternatives)
    }
}

/// Returns whether a text is an id in some format.
fn is_some_id(id: &Id) -> bool {
    IdFormat::Opaque.fold(id.as_str()).is_ok()
}

impl fmt::Debug for OrElse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OrElse({} extractors)", self.alternatives.len())
    }
}

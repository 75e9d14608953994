//! Ids of several extractors, joined: a tuple of extractors is one.

use std::sync::Arc;

use http::request::Parts;

use super::{
    extracted::{Extracted, MissingId},
    extractor::{IdProperties, KeyExtractor},
};
use crate::id::{Id, IdFormat};

macro_rules! joined {
    ($($extractor:ident $place:tt),+; $last:ident $end:tt) => {
        /// One bucket for each combination of ids, such as `12345678:example.com`. In all parts but the last, a colon
        /// is written as `%3A` and a percent sign as `%25`, so that a client cannot reach another client's bucket.
        ///
        /// If one of the ids is a [secret](Id::secret), so is the joined id.
        ///
        /// If one of the extractors skips the rule or has no id, so does the tuple. If the limit's format is a pair,
        /// no part can be an [`or_else`](super::KeyExtractorExt::or_else): write `(a, c).or_else((b, c))` instead.
        impl<$($extractor: KeyExtractor,)+ $last: KeyExtractor> KeyExtractor for ($($extractor,)+ $last) {
            fn extract(&self, parts: &Parts) -> Extracted {
                let (mut joined, mut is_secret) = (String::new(), false);
                $(match self.$place.extract(parts) {
                    Extracted::Id(id) if !id.as_str().is_empty() => {
                        push(&mut joined, id.as_str());
                        is_secret |= id.is_secret();
                    }
                    Extracted::Id(_) => return empty(),
                    other => return other,
                })+
                match self.$end.extract(parts) {
                    Extracted::Id(id) if !id.as_str().is_empty() => {
                        joined.push_str(id.as_str());
                        is_secret |= id.is_secret();
                        Extracted::Id(Id::from(joined).secret_if(is_secret))
                    }
                    Extracted::Id(_) => empty(),
                    other => other,
                }
            }

            fn describe(&self) -> IdProperties {
                of_parts([$(self.$place.describe(),)+ self.$end.describe()])
            }
        }
    };
}

joined!(A 0; B 1);
joined!(A 0, B 1; C 2);
joined!(A 0, B 1, C 2; D 3);

/// Describes the joined ids.
fn of_parts<const N: usize>(parts: [IdProperties; N]) -> IdProperties {
    let parts = Arc::new(parts);
    let of_errors = Arc::clone(&parts);
    let source = parts.iter().map(IdProperties::id_source).max();
    let same: Option<Vec<_>> = parts.iter().map(IdProperties::sameness).collect();
    let joined = IdProperties::new(source.unwrap_or_default());
    let joined = match same {
        Some(same) => joined.same_if(format!("{same:?}")),
        None => joined,
    };
    joined
        .secret_if(parts.iter().any(IdProperties::has_secrets))
        .fits(move |format| match (format.pair(), &parts[..]) {
            // With alternatives, it is not known which part is malformed.
            (Some((first, second)), [a, b]) if a.each().is_empty() && b.each().is_empty() => {
                a.has_format(first) && b.has_format(second)
            }
            _ => format == IdFormat::Opaque,
        })
        .invalid(move |error| {
            // Here neither. A part that the client sends is reported first.
            let mut all = of_errors.iter().map(|part| part.missing(error));
            let client = all.find(|missing| !missing.is_servers_fault());
            client.unwrap_or_else(|| of_errors[0].missing(error))
        })
}

fn push(joined: &mut String, id: &str) {
    for c in id.chars() {
        match c {
            ':' => joined.push_str("%3A"),
            '%' => joined.push_str("%25"),
            c => joined.push(c),
        }
    }
    joined.push(':');
}

#[cold]
fn empty() -> Extracted {
    Extracted::Missing(MissingId::client(
        "a part of the id is empty: send all of them",
    ))
}

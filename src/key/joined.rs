//! Ids of several extractors, joined: a tuple of extractors is one.

use http::request::Parts;

use super::{Extracted, KeyExtractor, Missing, Nature};
use crate::id::{IdError, IdFormat};

macro_rules! joined {
    ($($extractor:ident $place:tt),+; $last:ident $end:tt) => {
        /// One bucket for each combination of ids: `12345678:example.com`. In all but the last, a colon is written
        /// `%3A` and a percent sign `%25`, so that no client can write its way into another's bucket.
        ///
        /// If one of the extractors skips the rule, or finds that the id is missing, so do all.
        impl<$($extractor: KeyExtractor,)+ $last: KeyExtractor> KeyExtractor for ($($extractor,)+ $last) {
            fn extract(&self, parts: &Parts) -> Extracted {
                let mut joined = String::new();
                $(match self.$place.extract(parts) {
                    Extracted::Id(id) if !id.as_str().is_empty() => push(&mut joined, id.as_str()),
                    Extracted::Id(_) => return empty(),
                    other => return other,
                })+
                match self.$end.extract(parts) {
                    Extracted::Id(id) if !id.as_str().is_empty() => {
                        joined.push_str(id.as_str());
                        Extracted::Id(joined.into())
                    }
                    Extracted::Id(_) => empty(),
                    other => other,
                }
            }

            fn fits(&self, format: IdFormat) -> bool {
                let is_pair = [$($place),+].len() == 1;
                match format.pair() {
                    Some((first, second)) => {
                        is_pair && self.0.fits(first) && self.1.fits(second)
                    }
                    None => format == IdFormat::Opaque,
                }
            }

            fn nature(&self) -> Nature {
                [$(self.$place.nature()),+].into_iter().fold(self.$end.nature(), Nature::max)
            }

            fn invalid(&self, error: &IdError) -> Missing {
                // Which part is wrong is not known: whoever sends one of them should look first.
                let all = [$(self.$place.invalid(error),)+ self.$end.invalid(error)];
                let client = all.iter().find(|missing| !missing.is_servers_fault());
                client.unwrap_or(&all[0]).clone()
            }
        }
    };
}

joined!(A 0; B 1);
joined!(A 0, B 1; C 2);
joined!(A 0, B 1, C 2; D 3);

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
    Extracted::Missing(Missing::client(
        "a part of the id is empty: send all of them",
    ))
}

use std::sync::Arc;

use ahash::RandomState;
use indexmap::IndexMap;

use super::{
    limit::Limit,
    mistake::{LimitsError, Location},
    named::NamedLimit,
    overrides::Override,
};
use crate::{algorithm::Algorithm, id::IdError, message::did_you_mean, metrics::Meter};

/// All limits of an application: for each name a default, and overrides for single clients. Created by
/// [`Limits::builder`].
#[derive(Clone, Debug, Default)]
pub struct Limits {
    pub(super) named: IndexMap<Arc<str>, NamedLimit, RandomState>,
    /// A hash of all sources. Within one process, limits with the same hash are of the same sources.
    pub(crate) digest: u64,
}

impl Limits {
    /// Completes limits from sources with this hash.
    pub(super) fn finished(mut self, digest: u64, is_shadow: bool, redacts_ids: bool) -> Self {
        self.digest = digest;
        for named in self.named.values_mut() {
            let named = named.edit();
            named.is_shadow = is_shadow || named.declared.shadow == Some(true);
            named.redacts_ids = redacts_ids;
        }
        self
    }

    /// The limit of this name, or `None` if the name is not known.
    #[must_use]
    #[inline]
    pub fn get(&self, name: &str) -> Option<&NamedLimit> {
        // A few names are compared faster than one is hashed. Most that differ have another length or last letter.
        let is_same = |other: &str| {
            let a = other.as_bytes();
            let b = name.as_bytes();
            a.len() == b.len() && a.last() == b.last() && a == b
        };
        match self.named.len() {
            0..=8 => {
                let mut all = self.named.iter();
                all.find(|(name, _)| is_same(name)).map(|(_, named)| named)
            }
            _ => self.named.get(name),
        }
    }

    /// Returns the place of a limit.
    pub(crate) fn place_of(&self, name: &str) -> Option<u32> {
        u32::try_from(self.named.get_index_of(name)?).ok()
    }

    /// Returns the limit at a place.
    #[inline]
    pub(crate) fn at(&self, place: u32) -> &NamedLimit {
        &self.named[place as usize]
    }

    /// All limits, in the order in which they were defined.
    pub fn iter(&self) -> impl Iterator<Item = &NamedLimit> {
        self.named.values()
    }

    /// Returns limits with another override of one client, which replaces the one that it has. With `None`, the client has no
    /// override any more.
    ///
    /// The copy shares all other overrides, so it takes as long for a hundred thousand of them as for one.
    ///
    /// ```
    /// use tollgate::{Limit, Limits};
    ///
    /// let limits = Limits::builder().limit("requests", Limit::per_second(10)).build()?;
    /// let raised = limits.with_override("requests", "203.0.113.7", Some(Limit::per_second(100)))?;
    /// let of = |limits: &Limits| limits.get("requests")?.limit_of("203.0.113.7").ok()?.cloned();
    /// assert_eq!(of(&raised), Some(Limit::per_second(100)));
    /// assert_eq!(of(&limits), Some(Limit::per_second(10)));
    /// # Ok::<_, tollgate::limit::LimitsError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the name is not known, or the id is not in the format of the limit.
    pub fn with_override(
        &self,
        name: &str,
        id: &str,
        limit: Option<Limit>,
    ) -> Result<Self, LimitsError> {
        let mut limits = self.clone();
        let Some(named) = limits.named.get_mut(name) else {
            return Err(LimitsError::of_limit(name, self.unknown(name)));
        };
        let mistaken =
            |error: IdError| LimitsError::of_limit(name, error.to_string()).of_id(Some(id));
        let folded = named.format().canonical(id).map_err(mistaken)?;
        let own =
            |limit: Limit| Override::new(id, folded.as_str(), limit.into(), Location::default());
        named
            .edit()
            .overrides
            .change(folded.as_str(), limit.map(own));
        Ok(limits)
    }

    /// Returns every name, sorted.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.iter().map(NamedLimit::name).collect();
        names.sort_unstable();
        names
    }

    /// Starts the counters of all limits at 0.
    pub(crate) fn begin_counters(&self) {
        for named in self.iter() {
            let algorithm = named.limit().and_then(Limit::algorithm);
            let has_permits = matches!(algorithm, Some(Algorithm::Concurrency(_)));
            Meter::begin(named.name(), has_permits);
        }
    }

    /// Says what is wrong with an unknown name.
    pub(crate) fn unknown(&self, name: &str) -> String {
        let hint = did_you_mean(name, &self.names());
        format!("no limit has this name: {hint}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        id::{IdFormat, MISSING},
        limit::{LimitName, LimitsBuilder},
    };

    fn builder() -> LimitsBuilder {
        let orders = LimitName::new("orders", 6, IdFormat::RegId);
        Limits::builder()
            .limit(orders, Limit::per_hour(1))
            .override_for("orders", "7", Limit::BLOCKED)
    }

    fn limit_of<'a>(limits: &'a Limits, id: &str) -> Option<&'a Limit> {
        limits.get("orders").unwrap().limit_of(id).unwrap()
    }

    #[test]
    fn one_override_is_added_changed_or_removed() {
        let limits = builder().build().unwrap();
        let nine = Limit::per_second(9);
        for (id, new, expected) in [
            ("8", Some(nine.clone()), Some(&nine)),
            ("7", Some(nine.clone()), Some(&nine)),
            ("7", None, Some(&Limit::per_hour(1))),
            ("8", None, Some(&Limit::per_hour(1))),
            (MISSING, Some(Limit::UNLIMITED), Some(&Limit::UNLIMITED)),
        ] {
            let changed = limits.with_override("orders", id, new).unwrap();
            assert_eq!(limit_of(&changed, id), expected, "{id}");
            assert_eq!(changed.digest, limits.digest);
            assert_eq!(limit_of(&limits, "7"), Some(&Limit::BLOCKED));
            assert_eq!(limit_of(&limits, "8"), Some(&Limit::per_hour(1)));
        }
        for (name, id, message) in [
            (
                "order",
                "8",
                "limit `order`: no limit has this name: did you mean `orders`?",
            ),
            (
                "orders",
                "x",
                "limit `orders`: `x` is not an id in the format regId: ",
            ),
        ] {
            let error = limits.with_override(name, id, None).unwrap_err();
            assert!(error.to_string().starts_with(message), "{error}");
        }
    }

    #[test]
    fn own_override_comes_before_the_values_of_a_transaction_and_these_before_the_default() {
        let limits = builder().build().unwrap();
        let orders = limits.get("orders").unwrap();
        let values = Limit::per_second(9);
        assert_eq!(orders.in_force("7", Some(&values)), Some(&Limit::BLOCKED));
        assert_eq!(orders.in_force("8", Some(&values)), Some(&values));
        assert_eq!(orders.in_force("8", None), Some(&Limit::per_hour(1)));
    }

    #[test]
    fn few_names_and_many_are_found_by_name_and_by_place() {
        for count in [1, 8, 9, 200] {
            let names: Vec<_> = (0..count).map(|i| format!("n{i}")).collect();
            let limit = |builder: LimitsBuilder, name: &String| {
                builder.limit(name.as_str(), Limit::per_second(1))
            };
            let limits = names.iter().fold(Limits::builder(), limit).build().unwrap();
            for name in &names {
                let place = limits.place_of(name).unwrap();
                let found = (limits.get(name).unwrap().name(), limits.at(place).name());
                assert_eq!(found, (&**name, &**name));
            }
            assert!(limits.get("n").is_none() && limits.place_of("n").is_none());
        }
    }

    #[test]
    fn sources_are_the_same_if_code_and_texts_are() {
        let digest = |builder: &LimitsBuilder| builder.build().unwrap().digest;
        let text = |text| builder().overrides_text("o.json", text);
        assert_eq!(digest(&text("[]")), digest(&text("[]")));
        let others = [
            text("[ ]"),
            builder(),
            text("[]").shadow(true),
            text("[]").limit("a", Limit::BLOCKED),
        ];
        for other in others {
            assert_ne!(digest(&text("[]")), digest(&other), "{other:?}");
        }
    }

    #[test]
    fn shadow_mode_is_that_of_the_limit_or_of_all() {
        for (own, file, all, expected) in [
            (None, "{}", false, false),
            (None, "{}", true, true),
            (Some(true), "{}", false, true),
            (Some(true), r#"{"shadow": false}"#, false, false),
            (Some(false), r#"{"shadow": true}"#, false, true),
            (Some(false), "{}", true, true),
        ] {
            let name = LimitName::from("a");
            let name = own.map_or(name.clone(), |own| name.shadow(own));
            let builder = Limits::builder().name(name).shadow(all);
            let builder = builder.defaults_text("d.json", &format!("{{\"a\": {file}}}"));
            let limits = builder.build().unwrap();
            assert_eq!(
                limits.get("a").unwrap().is_shadow(),
                expected,
                "{own:?} {file} {all}"
            );
        }
    }
}

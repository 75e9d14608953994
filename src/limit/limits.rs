use std::sync::Arc;

use ahash::RandomState;
use indexmap::IndexMap;

use super::{
    client_override::Override,
    limit::Limit,
    mistake::{LimitsError, Location},
    named::NamedLimit,
};
use crate::{algorithm::Algorithm, message::did_you_mean, metrics::Meter};

/// All limits of an application: for each name a default, and overrides for single clients. Created by
/// [`Limits::builder`].
#[derive(Clone, Debug, Default)]
pub struct Limits {
    pub(super) named: IndexMap<Arc<str>, NamedLimit, RandomState>,
    /// A hash of all sources. Within one process, limits with equal hashes have the same sources.
    pub(crate) digest: u64,
}

impl Limits {
    /// Completes the limits, whose sources have this hash.
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
        // Comparing a few names is faster than hashing one. Most different names differ in length or in the last letter.
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

    /// Returns the index of a limit.
    pub(crate) fn index_of(&self, name: &str) -> Option<u32> {
        u32::try_from(self.named.get_index_of(name)?).ok()
    }

    /// Returns the limit at an index.
    #[inline]
    pub(crate) fn at(&self, index: u32) -> &NamedLimit {
        &self.named[index as usize]
    }

    /// All limits, in the order in which they were defined.
    pub fn iter(&self) -> impl Iterator<Item = &NamedLimit> {
        self.named.values()
    }

    /// Returns limits with another override of one client, which replaces the one that it has. With `None`, the client has no
    /// override any more.
    ///
    /// The copy shares all other overrides, so it takes no longer with a hundred thousand of them. A change of the override of a
    /// range copies those of all ranges.
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
    /// If the name is not known, or the id is neither in the format of the limit nor, for addresses, a range.
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
        let mistaken = |mistake: String| LimitsError::of_limit(name, mistake).of_id(Some(id));
        let folded = named.canonical(id).map_err(mistaken)?;
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

    /// Returns the message about an unknown name.
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
    fn address_comes_before_a_range_and_a_longer_range_before_a_shorter_one() {
        let by_address = LimitName::unnumbered("by-address", IdFormat::IpAddress);
        let opaque = "198.51.100.0/24";
        let limits = Limits::builder()
            .limit(by_address, Limit::per_second(1))
            .limit("opaque", Limit::per_second(1))
            .override_for("by-address", "198.51.100.0/24", Limit::per_second(24))
            .override_for("by-address", "198.51.0.0/16", Limit::per_second(16))
            .override_for("by-address", "198.51.100.7", Limit::per_second(32))
            .override_for("by-address", "198.51.101.7/32", Limit::per_second(33))
            .override_for("by-address", "2001:0db8:7::/48", Limit::per_second(48))
            .override_for("opaque", opaque, Limit::per_second(24));
        let limits = limits.build().unwrap();
        let named = limits.get("by-address").unwrap();
        for (id, count, own) in [
            ("198.51.100.7", 32, Some("198.51.100.7")),
            ("198.51.101.7", 33, Some("198.51.101.7/32")),
            ("198.51.100.8", 24, Some("198.51.100.0/24")),
            ("::ffff:198.51.100.8", 24, Some("198.51.100.0/24")),
            ("198.51.101.8", 16, Some("198.51.0.0/16")),
            ("198.52.100.7", 1, None),
            ("2001:db8:7:1::", 48, Some("2001:0db8:7::/48")),
            ("2001:db8:8::", 1, None),
            (MISSING, 1, None),
        ] {
            let limit = Limit::per_second(count);
            assert_eq!(named.limit_of(id), Ok(Some(&limit)), "{id}");
            assert_eq!(named.override_of(id).map(Override::id), own, "{id}");
        }
        // A range has an override, but is not a client.
        let range = named.override_of("2001:db8:7::/48").unwrap();
        assert_eq!(range.limit(), &Limit::per_second(48));
        assert!(named.override_of("198.51.100.0/25").is_none());
        assert!(named.limit_of("198.51.100.0/24").is_err());
        // Ids of other formats cannot be ranges.
        let named = limits.get("opaque").unwrap();
        assert_eq!(named.override_of(opaque).map(Override::id), Some(opaque));
        assert!(named.override_of("198.51.100.7").is_none());
    }

    #[test]
    fn override_of_a_range_is_added_changed_or_removed() {
        let name = LimitName::unnumbered("by-address", IdFormat::IpAddress);
        let limits = Limits::builder().limit(name, Limit::per_second(1));
        let none = limits.build().unwrap();
        let set = |limits: &Limits, range, limit| {
            limits.with_override("by-address", range, limit).unwrap()
        };
        let of = |limits: &Limits| {
            let named = limits.get("by-address").unwrap();
            named.limit_of("2001:db8:7::1").unwrap().cloned()
        };
        let added = set(&none, "2001:db8::/32", Some(Limit::per_second(2)));
        let changed = set(&added, "2001:0db8::/32", Some(Limit::per_second(3)));
        let removed = set(&changed, "2001:db8::/32", None);
        for (limits, count) in [(none, 1), (added, 2), (changed, 3), (removed, 1)] {
            assert_eq!(of(&limits), Some(Limit::per_second(count)));
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
                let index = limits.index_of(name).unwrap();
                let found = (limits.get(name).unwrap().name(), limits.at(index).name());
                assert_eq!(found, (&**name, &**name));
            }
            assert!(limits.get("n").is_none() && limits.index_of("n").is_none());
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

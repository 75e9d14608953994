use std::sync::Arc;

use super::{
    client_override::Override, limit::Limit, mistake::Location, name::LimitName,
    overrides::Overrides,
};
use crate::{
    algorithm::{Algorithm, LeaseShare},
    id::{Id, IdError, IdFormat, MISSING, range},
    metrics::Meter,
    transaction::{BucketKey, LimitKey, LimitSeed, OnFailure},
};

/// The text that follows the name of a limit in `RateLimit`.
pub(crate) const REMAINING: &str = ";r=";

/// A limit that is in force: its name, its default, and its overrides. Returned by [`Limits::get`](super::Limits::get). Clones
/// share it.
#[derive(Clone, Debug)]
pub struct NamedLimit(Arc<NamedLimitData>);

#[derive(Clone, Debug)]
pub(super) struct NamedLimitData {
    pub(super) declared: LimitName,
    pub(super) limit: Option<Limit>,
    pub(super) overrides: Overrides,
    /// The location where the default, or its absence, is defined. Before that, the location where the name is declared.
    pub(super) location: Location,
    pub(super) is_defined: bool,
    /// Whether it never refuses, because it or all limits are in shadow mode.
    pub(super) is_shadow: bool,
    /// Whether operators see the ids of clients as hashes.
    pub(super) redacts_ids: bool,
    pub(super) format: IdFormat,
    /// The limit's item of `RateLimit` up to its first number.
    lead: Box<str>,
    seed: LimitSeed,
    meter: Meter,
}

impl NamedLimit {
    pub(super) fn new(declared: LimitName, location: Location) -> Self {
        Self(Arc::new(NamedLimitData {
            limit: None,
            overrides: Overrides::new(declared.format.unwrap_or_default()),
            location,
            is_defined: false,
            is_shadow: false,
            redacts_ids: false,
            format: declared.format.unwrap_or_default(),
            lead: format!("\"{}\"{REMAINING}", declared.name).into(),
            seed: LimitSeed::of(key(&declared)),
            meter: Meter::default(),
            declared,
        }))
    }

    /// Returns the data for a change. They are copied if another version of the limits shares them.
    pub(super) fn edit(&mut self) -> &mut NamedLimitData {
        Arc::make_mut(&mut self.0)
    }

    pub(super) fn location(&self) -> &Location {
        &self.0.location
    }

    /// Returns whether it was defined, with a default or explicitly without one.
    pub(super) fn is_defined(&self) -> bool {
        self.0.is_defined
    }

    /// Returns whether both are the same limit, with the same values.
    #[inline]
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the beginning of its item of `RateLimit`.
    #[inline]
    pub(crate) fn lead(&self) -> &str {
        &self.0.lead
    }

    /// Returns whether the limit is hidden from clients.
    #[inline]
    pub(crate) fn is_hidden(&self) -> bool {
        self.is_shadow() || self.is_block()
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.declared.name
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.0.declared.name)
    }

    /// The number, if it has one.
    #[must_use]
    pub fn number(&self) -> Option<u32> {
        self.0.declared.number
    }

    /// The format of its clients' ids.
    #[must_use]
    pub fn format(&self) -> IdFormat {
        self.0.format
    }

    /// The default, or `None` if only clients with an override are limited.
    #[must_use]
    pub fn limit(&self) -> Option<&Limit> {
        self.0.limit.as_ref()
    }

    /// The limit of a client: its override, or else the default, or else none.
    ///
    /// ```
    /// use tollgate::{Limit, Limits};
    ///
    /// let limits = Limits::builder()
    ///     .limit("requests", Limit::per_second(10))
    ///     .override_for("requests", "198.51.100.2", Limit::BLOCKED)
    ///     .build()?;
    /// let requests = limits.get("requests").expect("it was just defined");
    /// assert_eq!(requests.limit_of("203.0.113.7"), Ok(Some(&Limit::per_second(10))));
    /// assert_eq!(requests.limit_of("198.51.100.2"), Ok(Some(&Limit::BLOCKED)));
    /// # Ok::<_, tollgate::limit::LimitsError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the id is not in the limit's [format](Self::format).
    pub fn limit_of(&self, id: &str) -> Result<Option<&Limit>, IdError> {
        Ok(self.in_force(self.fold(id)?.as_str(), None))
    }

    /// The override of a client, if it has one: that of its id or, of a limit by addresses, that of the longest range that has the
    /// address. `id` can also be a range, such as `198.51.100.0/24`, for the override of it.
    #[must_use]
    pub fn override_of(&self, id: &str) -> Option<&Override> {
        let folded = self.fold(id).ok().or_else(|| self.canonical(id).ok())?;
        self.0.overrides.get(folded.as_str())
    }

    /// All overrides, in the order in which they were added.
    #[must_use]
    pub fn overrides(&self) -> impl ExactSizeIterator<Item = &Override> {
        self.0.overrides.apart_from(None)
    }

    /// Returns the default, if there is one, and the overrides, each with its id. Overrides that are shared with the version
    /// `before` are left out, because they were checked with it, and there can be a million.
    pub(crate) fn unchecked<'a>(
        &'a self,
        before: Option<&'a Self>,
    ) -> impl Iterator<Item = (Option<&'a str>, &'a Limit)> {
        let default = self.limit().map(|limit| (None, limit));
        let overrides = self
            .0
            .overrides
            .apart_from(before.map(|named| &named.0.overrides));
        let overrides = overrides.map(|own| (Some(own.id()), own.limit()));
        default.into_iter().chain(overrides)
    }

    /// The key of a client's bucket, such as `6:12345678`.
    ///
    /// # Errors
    ///
    /// If the id is not in the limit's [format](Self::format).
    pub fn bucket_key(&self, id: &str) -> Result<String, IdError> {
        let folded = self.fold(id)?;
        let limit = self.in_force(folded.as_str(), None);
        let algorithm = limit.and_then(Limit::algorithm).map(Algorithm::key);
        let key = BucketKey::new(self.key(), folded.as_str());
        Ok(key.of(algorithm.unwrap_or_default()).to_string())
    }

    /// The description, if there is one.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.0.declared.description.as_deref()
    }

    /// The link to documentation, if there is one.
    #[must_use]
    pub fn docs(&self) -> Option<&str> {
        self.0.declared.docs.as_deref()
    }

    /// Returns whether the limit never refuses, because it or all limits are in shadow mode.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.0.is_shadow
    }

    /// Returns whether the limit is a list of [blocked clients](super::LimitsBuilder::block). Its description is the reason.
    #[must_use]
    pub fn is_block(&self) -> bool {
        let algorithm = self.limit().and_then(Limit::algorithm);
        matches!(algorithm, Some(Algorithm::Block(_)))
    }

    /// Returns the limit of the client with a folded id. `values` have come with the transaction, and replace the
    /// default.
    #[inline]
    pub(crate) fn in_force<'a>(&'a self, id: &str, values: Option<&'a Limit>) -> Option<&'a Limit> {
        self.own(id).or(values).or(self.0.limit.as_ref())
    }

    /// Returns whether the limit was explicitly turned off.
    pub(crate) fn is_off(&self) -> bool {
        self.0.is_defined && self.0.limit.is_none()
    }

    /// Returns the override of the client with a folded id.
    pub(crate) fn own(&self, folded: &str) -> Option<&Limit> {
        self.0.overrides.get(folded).map(Override::limit)
    }

    pub(crate) fn override_count(&self) -> usize {
        self.0.overrides.len()
    }

    /// Returns the part of bucket keys that stands for the name.
    #[inline]
    pub(crate) fn key(&self) -> LimitKey<'_> {
        key(&self.0.declared)
    }

    /// Returns the part of fingerprints that all buckets of this limit share.
    pub(crate) fn seed(&self) -> LimitSeed {
        self.0.seed
    }

    pub(crate) fn failure(&self) -> Option<OnFailure> {
        self.0.declared.on_failure
    }

    /// The part of the burst that each process may charge in advance, as files have it: `5%`.
    #[must_use]
    pub fn leased(&self) -> Option<String> {
        self.lease().map(|share| share.to_string())
    }

    pub(crate) fn lease(&self) -> Option<LeaseShare> {
        self.0.declared.lease
    }

    /// Returns whether operators see the ids of clients as hashes.
    pub(crate) fn redacts_ids(&self) -> bool {
        self.0.redacts_ids
    }

    /// Returns the counters of this limit's transactions.
    pub(crate) fn meter(&self) -> &Meter {
        &self.0.meter
    }

    /// Canonicalizes the id of an override: that of a client or, of a limit by addresses, a range of clients.
    pub(super) fn canonical(&self, id: &str) -> Result<Id, String> {
        if self.0.format != IdFormat::IpAddress || !id.contains('/') {
            let canonical = self.0.format.canonical(id);
            return canonical.map_err(|error| error.to_string());
        }
        let range = range(id)?;
        let is_address = range.prefix_len() == range.max_prefix_len();
        Ok(if is_address {
            range.addr().into()
        } else {
            Id::display(range)
        })
    }

    fn fold(&self, id: &str) -> Result<Id, IdError> {
        match id {
            MISSING => self.0.format.canonical(id),
            id => self.0.format.fold(id),
        }
    }
}

fn key(name: &LimitName) -> LimitKey<'_> {
    let by_name = LimitKey::Name(&name.name);
    name.number.map_or(by_name, LimitKey::Number)
}

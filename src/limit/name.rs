use std::{fmt, sync::Arc};

use thiserror::Error;

use crate::{
    backend::LeaseShare,
    id::{IdFormat, shortened},
    message::debug_is_message,
    transaction::{LimitKey, OnFailure},
};

/// The name of a limit, its number, and the format of its clients' ids.
///
/// The number replaces the name in bucket keys, so that a limit can be renamed. The application assigns it, and must
/// not change it as long as there are buckets, across deployments. Without a number, keys contain the name.
///
/// Names match `[A-Za-z][A-Za-z0-9_.-]*`. [`LimitsBuilder::build`](super::LimitsBuilder::build) rejects other names.
///
/// ```
/// use tollgate::{id::IdFormat, limit::LimitName};
///
/// let orders = LimitName::new("NewOrdersPerAccount", 6, IdFormat::RegId);
/// assert_eq!(orders.key().to_string(), "6");
/// // A name alone stands for itself, and takes any id.
/// assert_eq!(LimitName::from("uploads"), LimitName::unnumbered("uploads", IdFormat::Opaque));
/// assert_eq!(LimitName::from("uploads").key().to_string(), "uploads");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LimitName {
    name: Arc<str>,
    number: Option<u32>,
    format: IdFormat,
    on_failure: Option<OnFailure>,
    shadow: Option<bool>,
    lease: Option<LeaseShare>,
    is_block: bool,
    about: Arc<About>,
}

/// The description of a limit in messages to clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct About {
    description: Option<Box<str>>,
    docs: Option<Box<str>>,
}

impl LimitName {
    /// A name with a number and an id format.
    #[must_use]
    pub fn new(name: &str, number: u32, format: IdFormat) -> Self {
        Self::of(name, Some(number), format)
    }

    /// A name without a number, with an id format. Bucket keys contain the name.
    #[must_use]
    pub fn unnumbered(name: &str, format: IdFormat) -> Self {
        Self::of(name, None, format)
    }

    pub(super) fn of(name: &str, number: Option<u32>, format: IdFormat) -> Self {
        Self {
            name: name.into(),
            number,
            format,
            on_failure: None,
            shadow: None,
            lease: None,
            is_block: false,
            about: Arc::default(),
        }
    }

    /// Sets what happens while the store does not answer, if it differs from the default of the
    /// [`FailurePolicy`](crate::backend::FailurePolicy).
    #[must_use]
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = Some(on_failure);
        self
    }

    /// Turns shadow mode on or off. A limit in shadow mode is decided, charged and reported to operators, but never
    /// refuses a request. Use it to watch a new limit before you enforce it. See the
    /// [recipe](crate::guide::recipes::shadow_mode).
    #[must_use]
    pub fn shadow(mut self, shadow: bool) -> Self {
        self.shadow = Some(shadow);
        self
    }

    /// Sets the part of the burst or the quota that each process may charge in advance: `lease(1, 20)` is a twentieth,
    /// 5 %. This needs a [`Lease`](crate::backend::Lease) around the store, and a quota or a limit with burst, count and
    /// period.
    ///
    /// # Panics
    ///
    /// If the part is below a thousandth of a per cent, or larger than the whole.
    #[must_use]
    #[track_caller]
    pub fn lease(mut self, part: u32, of: u32) -> Self {
        self.lease = Some(LeaseShare::new(part, of));
        self
    }

    /// Sets the description, in the words that follow "too many" in messages to clients: `new registrations`. The
    /// default is the name.
    #[must_use]
    pub fn description(mut self, description: &str) -> Self {
        Arc::make_mut(&mut self.about).description = Some(description.into());
        self
    }

    /// Sets a link to documentation for clients, which is shown in the message and the `Link` header of refusals. It
    /// needs a scheme.
    #[must_use]
    pub fn docs(mut self, link: &str) -> Self {
        Arc::make_mut(&mut self.about).docs = Some(link.into());
        self
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// The number, if it has one.
    #[must_use]
    pub fn number(&self) -> Option<u32> {
        self.number
    }

    /// The format of its clients' ids.
    #[must_use]
    #[inline]
    pub fn format(&self) -> IdFormat {
        self.format
    }

    /// Returns whether the limit is in shadow mode.
    #[must_use]
    #[inline]
    pub fn is_shadow(&self) -> bool {
        self.shadow == Some(true)
    }

    /// The part of the burst or the quota that each process may charge in advance, if it is set.
    #[must_use]
    pub fn leased(&self) -> Option<LeaseShare> {
        self.lease
    }

    /// The description, if there is one.
    #[must_use]
    pub fn described(&self) -> Option<&str> {
        self.about.description.as_deref()
    }

    /// The link to documentation, if there is one.
    #[must_use]
    pub fn documented(&self) -> Option<&str> {
        self.about.docs.as_deref()
    }

    /// Returns whether the limit is a list of [blocked clients](super::LimitsBuilder::block). Its description is the reason.
    #[must_use]
    #[inline]
    pub fn is_block(&self) -> bool {
        self.is_block
    }

    /// Makes the limit a list of blocked clients, which has nothing to lease.
    pub(super) fn block(mut self, reason: &str) -> Self {
        (self.is_block, self.lease) = (true, None);
        self.description(reason)
    }

    /// Returns whether a link is valid in a header and has a scheme.
    pub(super) fn has_good_docs(&self) -> bool {
        let uri = |docs: &str| docs.parse::<http::Uri>().ok();
        let good = |docs: &str| uri(docs).is_some_and(|uri| uri.scheme().is_some());
        let stands = |docs: &str| !docs.contains(['<', '>', '"']);
        self.documented()
            .is_none_or(|docs| good(docs) && stands(docs))
    }

    #[inline]
    pub(crate) fn failure(&self) -> Option<OnFailure> {
        self.on_failure
    }

    /// Sets the properties that a file gives beyond number and format.
    pub(super) fn say(
        mut self,
        shadow: Option<bool>,
        lease: Option<LeaseShare>,
        description: Option<&str>,
        docs: Option<&str>,
    ) -> Self {
        (self.shadow, self.lease) = (shadow, lease);
        self.about = Arc::new(About {
            description: description.map(Into::into),
            docs: docs.map(Into::into),
        });
        self
    }

    /// Copies the properties of `said` beyond number and format.
    pub(super) fn adopt(&mut self, said: &Self) {
        self.on_failure = said.on_failure.or(self.on_failure);
        self.shadow = said.shadow.or(self.shadow);
        self.lease = said.lease.or(self.lease);
        if said.about != self.about {
            let About { description, docs } = (*said.about).clone();
            let about = Arc::make_mut(&mut self.about);
            about.description = description.or_else(|| about.description.take());
            about.docs = docs.or_else(|| about.docs.take());
        }
    }

    /// Returns the part of bucket keys that stands for the name.
    #[must_use]
    #[inline]
    pub fn key(&self) -> LimitKey<'_> {
        self.number
            .map_or(LimitKey::Name(&self.name), LimitKey::Number)
    }

    /// Returns whether this is only a name, without number and format.
    pub(super) fn is_bare(&self) -> bool {
        self.number.is_none() && self.format == IdFormat::default()
    }

    pub(super) fn validate(&self) -> Result<(), NameError> {
        let mut chars = self.name.chars();
        let starts = chars.next().is_some_and(|c| c.is_ascii_alphabetic());
        let goes_on = chars.all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
        if starts && goes_on {
            Ok(())
        } else {
            Err(NameError(shortened(&self.name)))
        }
    }
}

impl From<&str> for LimitName {
    fn from(name: &str) -> Self {
        Self::unnumbered(name, IdFormat::default())
    }
}

impl fmt::Display for LimitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}

/// The error for an invalid name. [`LimitsBuilder::build`](super::LimitsBuilder::build) returns it.
#[derive(Clone, PartialEq, Eq, Error)]
#[error(
    "`{0}` is not a limit name: start with an ASCII letter, \
     and continue with letters, digits, `_`, `.` or `-`"
)]
pub struct NameError(String);

debug_is_message!(NameError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_begin_with_a_letter() {
        for good in ["a", "NewOrdersPerAccount", "api.v2", "A-b_c.9"] {
            assert_eq!(LimitName::from(good).validate(), Ok(()), "{good}");
        }
        for bad in ["", "6", "_a", "a b", "a:b", "a\"", "ä", "aä", "a\n"] {
            assert!(LimitName::from(bad).validate().is_err(), "{bad}");
        }
    }
}

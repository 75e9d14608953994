use std::sync::Arc;

use crate::{
    algorithm::LeaseShare,
    id::{IdFormat, shortened},
    transaction::OnFailure,
};

/// The name of a limit, its number, and the format of its clients' ids.
///
/// The number replaces the name in bucket keys, so that a limit can be renamed. The application assigns it, and must
/// not change it as long as there are buckets, across deployments. Without a number, keys contain the name.
///
/// Names match `[A-Za-z][A-Za-z0-9_.-]*`. [`LimitsBuilder::build`](super::LimitsBuilder::build) rejects other names. A text
/// converts to a name without a number, whose ids can be any text.
///
/// ```
/// use tollgate::{Limit, Limits, id::IdFormat, limit::LimitName};
///
/// let limits = Limits::builder()
///     .limit(LimitName::new("NewOrdersPerAccount", 6, IdFormat::RegId), Limit::per_hour(100))
///     .limit("uploads", Limit::per_hour(10))
///     .build()?;
/// let key = |name, id| limits.get(name).and_then(|named| named.bucket_key(id).ok());
/// assert_eq!(key("NewOrdersPerAccount", "12345678").as_deref(), Some("6:12345678"));
/// assert_eq!(key("uploads", "alice").as_deref(), Some("uploads:alice"));
/// # Ok::<_, tollgate::limit::LimitsError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LimitName {
    pub(crate) name: Arc<str>,
    pub(super) number: Option<u32>,
    /// `None` if no format was given.
    pub(super) format: Option<IdFormat>,
    pub(super) on_failure: Option<OnFailure>,
    pub(super) shadow: Option<bool>,
    pub(super) lease: Option<LeaseShare>,
    pub(super) description: Option<Arc<str>>,
    pub(super) docs: Option<Arc<str>>,
}

impl LimitName {
    /// A name with a number and an id format.
    #[must_use]
    pub fn new(name: &str, number: u32, format: IdFormat) -> Self {
        let mut name = Self::unnumbered(name, format);
        name.number = Some(number);
        name
    }

    /// A name without a number, with an id format. Bucket keys contain the name.
    #[must_use]
    pub fn unnumbered(name: &str, format: IdFormat) -> Self {
        let mut name = Self::from(name);
        name.format = Some(format);
        name
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

    /// Sets the part of the burst that each process may charge in advance: `lease(1, 20)` is a twentieth, 5 %. This needs
    /// a [`Lease`](crate::backend::Lease) around the store, and a limit with burst, count and period.
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
        self.description = Some(description.into());
        self
    }

    /// Sets a link to documentation for clients, which is shown in the message and the `Link` header of refusals. It
    /// needs a scheme.
    #[must_use]
    pub fn docs(mut self, link: &str) -> Self {
        self.docs = Some(link.into());
        self
    }

    /// Takes over the options of `given`, apart from number and format.
    pub(super) fn adopt(&mut self, given: &Self) {
        self.on_failure = given.on_failure.or(self.on_failure);
        self.shadow = given.shadow.or(self.shadow);
        self.lease = given.lease.or(self.lease);
        self.description = given.description.clone().or(self.description.take());
        self.docs = given.docs.clone().or(self.docs.take());
    }

    /// Returns the mistakes of a name that is new.
    pub(super) fn mistakes(&self) -> impl Iterator<Item = String> {
        let rest = self.name.strip_prefix(|c: char| c.is_ascii_alphabetic());
        let is_rest = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        let spelling = !rest.is_some_and(|rest| rest.chars().all(is_rest));
        let spelling = spelling.then(|| {
            let remedy = "and continue with letters, digits, `_`, `.` or `-`";
            let name = shortened(&self.name);
            format!("`{name}` is not a limit name: start with an ASCII letter, {remedy}")
        });
        let format = self.format.and_then(|format| {
            let feature = format.missing_feature()?;
            let ids = format!("ids in the format {format} need tollgate's feature `{feature}`");
            Some(ids + ": enable it in Cargo.toml, or use another format")
        });
        let mistakes = [spelling, format, self.link_mistake()];
        mistakes.into_iter().flatten()
    }

    /// Returns the mistake in the link, if it has no scheme or is not valid in a header.
    pub(super) fn link_mistake(&self) -> Option<String> {
        let docs = self.docs.as_deref()?;
        let uri = docs.parse::<http::Uri>();
        let has_scheme = uri.is_ok_and(|uri| uri.scheme().is_some());
        let is_link = has_scheme && !docs.contains(['<', '>', '"']);
        let remedy = "write a link with its scheme, such as `https://example.com/limits`";
        (!is_link).then(|| format!("docs is `{}`: {remedy}", shortened(docs)))
    }
}

impl From<&str> for LimitName {
    fn from(name: &str) -> Self {
        Self {
            name: name.into(),
            number: None,
            format: None,
            on_failure: None,
            shadow: None,
            lease: None,
            description: None,
            docs: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_begin_with_a_letter() {
        let mistakes = |name: &str| LimitName::from(name).mistakes().count();
        for good in ["a", "NewOrdersPerAccount", "api.v2", "A-b_c.9"] {
            assert_eq!(mistakes(good), 0, "{good}");
        }
        for bad in ["", "6", "_a", "a b", "a:b", "a\"", "ä", "aä", "a\n", "a~w"] {
            assert_eq!(mistakes(bad), 1, "{bad}");
        }
    }

    #[test]
    fn links_have_a_scheme_and_fit_a_header() {
        for (link, is_good) in [
            ("https://example.com/limits#orders", true),
            ("http://a", true),
            ("example.com/limits", false),
            ("/limits", false),
            ("https://example.com/a b", false),
            ("https://example.com/>", false),
            ("", false),
        ] {
            let mistake = LimitName::from("a").docs(link).link_mistake();
            assert_eq!(mistake.is_none(), is_good, "{link}");
        }
    }
}

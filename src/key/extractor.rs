use std::{fmt, sync::Arc};

use http::request::Parts;

use super::extracted::{Extracted, MissingId};
use crate::id::{IdError, IdFormat};

/// Finds the id of the client that sent a request, in the head of the request.
///
/// It runs for every request, before anything else. It should neither block nor do much work, and must not panic,
/// whatever the request contains.
///
/// The [module docs](super) list the extractors of this crate, and show how to write one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not extract the id of a client",
    note = "a closure does: `|parts: &http::request::Parts| -> Option<String> {{ .. }}`",
    note = "see `tollgate::key` for ready ones, such as `ClientIp::peer()`"
)]
pub trait KeyExtractor: Send + Sync + 'static {
    /// Extracts the id from a request's head.
    fn extract(&self, parts: &Parts) -> Extracted;

    /// Describes the ids that the extractor finds. Called once, when a rule is made of the extractor.
    fn describe(&self) -> IdProperties {
        IdProperties::default()
    }
}

impl<F, R> KeyExtractor for F
where
    F: Fn(&Parts) -> R + Send + Sync + 'static,
    R: Into<Extracted>,
{
    fn extract(&self, parts: &Parts) -> Extracted {
        self(parts).into()
    }
}

/// Describes the ids that a [`KeyExtractor`] finds. Properties that are not set are treated as unknown.
///
/// ```
/// use http::request::Parts;
/// use tollgate::{id::IdFormat, key::{IdProperties, Extracted, IdSource, KeyExtractor, MissingId}};
///
/// /// The account of a client certificate, as a proxy passes it on.
/// struct Certificate;
///
/// impl KeyExtractor for Certificate {
///     fn extract(&self, parts: &Parts) -> Extracted {
///         let account = parts.headers.get("x-certificate-account");
///         match account.and_then(|account| account.to_str().ok()) {
///             Some(account) => account.into(),
///             None => Extracted::Missing(MissingId::server("have the proxy set the header")),
///         }
///     }
///
///     fn describe(&self) -> IdProperties {
///         IdProperties::new(IdSource::Proxies)
///             .fits(|format| matches!(format, IdFormat::Opaque | IdFormat::RegId))
///             .invalid(|_| MissingId::server("the proxy's certificate has no account's number"))
///     }
/// }
/// ```
#[derive(Clone, Default)]
pub struct IdProperties {
    id_source: IdSource,
    fits: Option<Arc<Fits>>,
    finds: Option<Arc<Finds>>,
    invalid: Option<Arc<Invalid>>,
    alternatives: Vec<Arc<dyn KeyExtractor>>,
    secret: bool,
    same_if: Option<Arc<str>>,
}

type Fits = dyn Fn(IdFormat) -> bool + Send + Sync;
type Finds = dyn Fn(&str) -> bool + Send + Sync;
type Invalid = dyn Fn(&IdError) -> MissingId + Send + Sync;

/// The source of the ids of a [`KeyExtractor`]. [`IdProperties::new`] has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum IdSource {
    /// All requests share one id, on purpose.
    OneForAll,
    /// Unknown.
    #[default]
    Unknown,
    /// A header of trusted proxies.
    Proxies,
    /// The address at the other end of the connection.
    Peer,
    /// A header that any client can send.
    Anyone,
}

impl IdProperties {
    /// Describes ids of any format, found in `id_source`. The [checks](crate::check) use the source.
    #[must_use]
    pub fn new(id_source: IdSource) -> Self {
        Self {
            id_source,
            ..Self::default()
        }
    }

    /// Sets which formats the ids can have. A rule whose limit has another format is an error at startup, because it
    /// would refuse every request. By default, ids can have any format.
    #[must_use]
    pub fn fits(mut self, fits: impl Fn(IdFormat) -> bool + Send + Sync + 'static) -> Self {
        self.fits = Some(Arc::new(fits));
        self
    }

    /// Sets which ids the extractor can find, given in their [format](IdFormat). Overrides for other ids are logged.
    /// By default, it can find any id.
    #[must_use]
    pub fn can_find(mut self, finds: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.finds = Some(Arc::new(finds));
        self
    }

    /// Sets the reason that is given if an id is not in the limit's format. The request then has no id. By default,
    /// the client is at fault and gets the error.
    #[must_use]
    pub fn invalid(
        mut self,
        invalid: impl Fn(&IdError) -> MissingId + Send + Sync + 'static,
    ) -> Self {
        self.invalid = Some(Arc::new(invalid));
        self
    }

    /// Declares that ids can be [secrets](crate::id::Id::secret), which the extractor marks as such.
    /// [`Limiter::has_secret_ids`](crate::Limiter::has_secret_ids) returns it to tools for administrators.
    #[must_use]
    pub fn secret(self) -> Self {
        self.secret_if(true)
    }

    /// Declares that all extractors with this text find the same in a request. Several rules with such extractors extract the
    /// id once. Put everything into the text that the id depends on: the type, and its configuration.
    #[must_use]
    pub fn same_if(mut self, text: impl Into<Arc<str>>) -> Self {
        self.same_if = Some(text.into());
        self
    }

    pub(super) fn secret_if(mut self, secret: bool) -> Self {
        self.secret = secret;
        self
    }

    /// Turns this into the description of several extractors that are tried in turn.
    pub(super) fn alternatives(mut self, alternatives: &[Arc<dyn KeyExtractor>]) -> Self {
        self.alternatives = alternatives.into();
        self
    }

    /// Returns the source of the ids.
    #[must_use]
    pub fn id_source(&self) -> IdSource {
        self.id_source
    }

    /// Returns whether both extractors find the same in a request.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.same_if.is_some() && self.same_if == other.same_if
    }

    /// Returns the text that extractors which find the same have in common.
    pub(super) fn sameness(&self) -> Option<&str> {
        self.same_if.as_deref()
    }

    pub(crate) fn has_secrets(&self) -> bool {
        self.secret
    }

    pub(crate) fn has_format(&self, format: IdFormat) -> bool {
        self.fits.as_ref().is_none_or(|fits| fits(format))
    }

    pub(crate) fn may_find(&self, folded: &str) -> bool {
        self.finds.as_ref().is_none_or(|finds| finds(folded))
    }

    #[cold]
    pub(crate) fn missing(&self, error: &IdError) -> MissingId {
        match &self.invalid {
            Some(invalid) => invalid(error),
            None => MissingId::client(error.to_string()),
        }
    }

    /// Returns the extractors that are tried in turn, if there are several.
    pub(crate) fn each(&self) -> &[Arc<dyn KeyExtractor>] {
        &self.alternatives
    }
}

impl fmt::Debug for IdProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdProperties")
            .field("id_source", &self.id_source)
            .field("secret", &self.secret)
            .field("alternatives", &self.alternatives.len())
            .finish_non_exhaustive()
    }
}

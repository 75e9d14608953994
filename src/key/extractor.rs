use std::{fmt, sync::Arc};

use http::request::Parts;

use super::extracted::{Extracted, Missing};
use crate::id::{IdError, IdFormat};

/// Says who a request is from, by its head alone.
///
/// It runs for each request, before anything else, so it should neither block nor do much work, and
/// must not panic whatever the request holds.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say who a request is from",
    note = "a closure does: `|parts: &http::request::Parts| -> Option<String> {{ .. }}`",
    note = "see `tollgate::key` for ready ones, such as `ClientIp::peer()`"
)]
pub trait KeyExtractor: Send + Sync + 'static {
    /// Extracts the id from a request's head.
    fn extract(&self, parts: &Parts) -> Extracted;

    /// Describes the ids that it finds. It is asked once, when a rule is made of the extractor.
    fn describe(&self) -> Description {
        Description::default()
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

/// What a [`KeyExtractor`] says of the ids that it finds, once, when a rule is made of it. What is left out is not known.
///
/// ```
/// use http::request::Parts;
/// use tollgate::{id::IdFormat, key::{Description, Extracted, IdSource, KeyExtractor, Missing}};
///
/// /// The account of a client certificate, as a proxy passes it on.
/// struct Certificate;
///
/// impl KeyExtractor for Certificate {
///     fn extract(&self, parts: &Parts) -> Extracted {
///         let account = parts.headers.get("x-certificate-account");
///         match account.and_then(|account| account.to_str().ok()) {
///             Some(account) => account.into(),
///             None => Extracted::Missing(Missing::server("have the proxy set the header")),
///         }
///     }
///
///     fn describe(&self) -> Description {
///         Description::new(IdSource::Proxies)
///             .fits(|format| matches!(format, IdFormat::Opaque | IdFormat::RegId))
///             .invalid(|_| Missing::server("the proxy's certificate has no account's number"))
///     }
/// }
/// ```
#[derive(Clone, Default)]
pub struct Description {
    id_source: IdSource,
    fits: Option<Arc<Fits>>,
    finds: Option<Arc<Finds>>,
    invalid: Option<Arc<Invalid>>,
    alternatives: Vec<Arc<dyn KeyExtractor>>,
}

type Fits = dyn Fn(IdFormat) -> bool + Send + Sync;
type Finds = dyn Fn(&str) -> bool + Send + Sync;
type Invalid = dyn Fn(&IdError) -> Missing + Send + Sync;

/// What a [`KeyExtractor`] goes by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum IdSource {
    /// All requests have one id, and shall.
    OneForAll,
    /// That is not known.
    #[default]
    Unknown,
    /// What certain proxies say.
    Proxies,
    /// The address at the other end of the connection.
    Peer,
    /// What anyone says.
    Anyone,
}

impl Description {
    /// A description of ids of any format, by what the extractor goes by. The [checks](crate::check) ask for that.
    #[must_use]
    pub fn new(id_source: IdSource) -> Self {
        Self {
            id_source,
            ..Self::default()
        }
    }

    /// Says whether the ids may be in a format. A rule whose requests would all be refused is an error at start. By
    /// default, they may be in any.
    #[must_use]
    pub fn fits(mut self, fits: impl Fn(IdFormat) -> bool + Send + Sync + 'static) -> Self {
        self.fits = Some(Arc::new(fits));
        self
    }

    /// Says whether the extractor can find an id, given in its [format](IdFormat). An override for an id that no
    /// request has is logged. By default, it can find any.
    #[must_use]
    pub fn can_find(mut self, finds: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.finds = Some(Arc::new(finds));
        self
    }

    /// Says what is wrong with a request whose id is not in the limit's format. It has no id then. By default, that is
    /// the client's fault, who reads the error.
    #[must_use]
    pub fn invalid(
        mut self,
        invalid: impl Fn(&IdError) -> Missing + Send + Sync + 'static,
    ) -> Self {
        self.invalid = Some(Arc::new(invalid));
        self
    }

    /// Makes it the description of extractors that are asked in turn, instead of the one that has it.
    pub(super) fn alternatives(mut self, alternatives: &[Arc<dyn KeyExtractor>]) -> Self {
        self.alternatives = alternatives.into();
        self
    }

    /// What the extractor goes by.
    #[must_use]
    pub fn id_source(&self) -> IdSource {
        self.id_source
    }

    pub(crate) fn has_format(&self, format: IdFormat) -> bool {
        self.fits.as_ref().is_none_or(|fits| fits(format))
    }

    pub(crate) fn may_find(&self, folded: &str) -> bool {
        self.finds.as_ref().is_none_or(|finds| finds(folded))
    }

    #[cold]
    pub(crate) fn missing(&self, error: &IdError) -> Missing {
        match &self.invalid {
            Some(invalid) => invalid(error),
            None => Missing::client(error.to_string()),
        }
    }

    /// The extractors that are asked in turn, if it is several.
    pub(crate) fn each(&self) -> &[Arc<dyn KeyExtractor>] {
        &self.alternatives
    }
}

impl fmt::Debug for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Description")
            .field("id_source", &self.id_source)
            .field("alternatives", &self.alternatives.len())
            .finish_non_exhaustive()
    }
}

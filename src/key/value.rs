//! Ids that are values of a request: a header, an extension, or the same for all requests.

use std::{any::type_name, fmt, sync::Arc};

use http::{HeaderName, HeaderValue, request::Parts};

use super::{
    extractor::{IdSource, KeyExtractor},
    missing_id::MissingId,
};
use crate::id::{Id, IdError};

/// The maximum length of an id that clients choose, in bytes.
pub(super) const MAX_LEN: usize = 1024;

/// The value of a header, such as the account that a gateway has authenticated.
///
/// The header must be sent once and contain visible ASCII, at most 1024 bytes after trimming.
/// Otherwise the request has no id. A client that can set the header chooses its own bucket, so use a header that
/// only your gateway can set.
///
/// The id is a [secret](Id::secret), because many headers hold keys, tokens or sessions: refusals and events contain a hash of it.
/// For a header that is not a secret, use [`shown`](Self::shown).
///
/// ```
/// use tollgate::{Rule, key::HeaderId};
///
/// let rule = Rule::new("NewOrdersPerAccount", HeaderId::new("x-account-id").shown());
/// # let _ = rule;
/// ```
#[derive(Clone, Debug)]
pub struct HeaderId {
    name: HeaderName,
    is_shown: bool,
    challenge: Option<&'static str>,
}

impl HeaderId {
    /// The id in the header `name`.
    ///
    /// # Panics
    ///
    /// If `name` is not a valid header name.
    #[must_use]
    #[track_caller]
    pub fn new(name: &str) -> Self {
        Self {
            name: header_name(name),
            is_shown: false,
            challenge: None,
        }
    }

    /// Shows the ids in refusals and events. Use it for headers whose values are not secret, such as the number of an account. The
    /// text of a refusal is then `too many requests (…) from 12345678`.
    #[must_use]
    pub fn shown(mut self) -> Self {
        self.is_shown = true;
        self
    }

    /// Refuses requests without an id with 401 and this challenge, like [`MissingId::unauthorized`].
    ///
    /// # Panics
    ///
    /// If the challenge is not visible ASCII.
    #[must_use]
    #[track_caller]
    pub fn unauthorized(mut self, challenge: &'static str) -> Self {
        let _ = HeaderValue::from_static(challenge);
        self.challenge = Some(challenge);
        self
    }

    fn missing(&self, reason: fmt::Arguments<'_>) -> MissingId {
        let missing = MissingId::client(format!("header `{}`{reason}", self.name));
        match self.challenge {
            Some(challenge) => missing.unauthorized(challenge),
            None => missing,
        }
    }
}

#[track_caller]
pub(super) fn header_name(name: &str) -> HeaderName {
    match name.parse() {
        Ok(name) => name,
        Err(_) => panic!("`{name}` is not a header name: use ASCII letters, digits and `-`"),
    }
}

impl KeyExtractor for HeaderId {
    fn extract(&self, parts: &Parts) -> Result<Option<Id>, MissingId> {
        let mut values = parts.headers.get_all(&self.name).iter();
        let problem = match (values.next().map(HeaderValue::to_str), values.next()) {
            (None, _) => "is missing",
            (_, Some(_)) => "appears more than once",
            (Some(Err(_)), None) => "is not visible ASCII",
            (Some(Ok(value)), None) => match value.trim() {
                "" => "is empty",
                id if id.len() > MAX_LEN => "is longer than 1024 bytes",
                id => return Ok(Some(Id::from(id).secret_if(!self.is_shown))),
            },
        };
        Err(self.missing(format_args!(
            " {problem}: send it once, with the id as its value"
        )))
    }

    fn invalid(&self, error: &IdError) -> MissingId {
        self.missing(format_args!(": {error}"))
    }

    fn source(&self) -> IdSource {
        IdSource::Client
    }
}

/// An id from a value of type `T` that an outer layer, such as an authentication layer, has put into the request's
/// extensions.
///
/// ```
/// use tollgate::{Rule, id::Id, key::ExtensionId};
///
/// #[derive(Clone)]
/// struct User { number: u64 }
///
/// let rule = Rule::new("requests", ExtensionId::new(|user: &User| Id::display(user.number)));
/// # let _ = rule;
/// ```
#[derive(Clone)]
pub struct ExtensionId<T> {
    id: Arc<dyn Fn(&T) -> Id + Send + Sync>,
    is_optional: bool,
}

impl<T> ExtensionId<T> {
    /// Computes the id from the extension, which every request must have. A request without it is refused with 500,
    /// and the missing layer is logged, unless the rule says otherwise.
    #[must_use]
    pub fn new<I: Into<Id>>(id: impl Fn(&T) -> I + Send + Sync + 'static) -> Self {
        Self {
            id: Arc::new(move |value| id(value).into()),
            is_optional: false,
        }
    }

    /// Computes the id from an extension that only some requests have, such as those of users who have logged in. The
    /// rule is skipped for other requests, and nothing is logged.
    ///
    /// Requests without the extension are not limited by this rule. Add an extractor or a rule for them with
    /// [`or_else`](KeyExtractor::or_else) or [`Rule::or_else`](crate::Rule::or_else).
    ///
    /// ```
    /// use tollgate::{ClientIp, Rule, key::ExtensionId};
    ///
    /// #[derive(Clone)]
    /// struct User { name: String }
    ///
    /// let user = ExtensionId::optional(|user: &User| user.name.clone());
    /// let rule = Rule::new("per-user", user).or_else(Rule::new("per-ip", ClientIp::peer()));
    /// # let _ = rule;
    /// ```
    #[must_use]
    pub fn optional<I: Into<Id>>(id: impl Fn(&T) -> I + Send + Sync + 'static) -> Self {
        Self {
            is_optional: true,
            ..Self::new(id)
        }
    }
}

impl<T: Send + Sync + 'static> KeyExtractor for ExtensionId<T> {
    fn extract(&self, parts: &Parts) -> Result<Option<Id>, MissingId> {
        match parts.extensions.get::<T>() {
            Some(value) => Ok(Some((self.id)(value))),
            None if self.is_optional => Ok(None),
            None => Err(MissingId::server(format!(
                "the request has no extension `{}`: add the layer that sets it outside of this one, or use \
                 `ExtensionId::optional` if requests may come without it",
                type_name::<T>()
            ))),
        }
    }

    fn invalid(&self, error: &IdError) -> MissingId {
        // The error must not quote the id, neither to the client nor in the log.
        let error = error.clone().secret_if(true);
        MissingId::server(format!("extension `{}`: {error}", type_name::<T>()))
    }
}

impl<T> fmt::Debug for ExtensionId<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ExtensionId")
            .field(&type_name::<T>())
            .finish()
    }
}

/// One bucket for all requests, to protect the server as a whole. It is an extractor for a [`Rule`](crate::Rule).
#[derive(Clone, Copy, Debug, Default)]
pub struct Everyone;

impl KeyExtractor for Everyone {
    fn extract(&self, _: &Parts) -> Result<Option<Id>, MissingId> {
        Ok(Some("everyone".into()))
    }

    fn source(&self) -> IdSource {
        IdSource::Shared
    }
}

use http::{HeaderName, HeaderValue, request::Parts};

use super::{
    extracted::{Extracted, MissingId},
    extractor::{IdProperties, KeyExtractor},
};
use crate::id::{Id, IdError};

/// The value of a header, such as the account that a gateway has authenticated.
///
/// The header must be sent once and contain visible ASCII, at most [`MAX_LEN`](Self::MAX_LEN) bytes after trimming.
/// Otherwise the request has no id. A client that can set the header chooses its own bucket, so use a header that
/// only your gateway can set.
///
/// The id is a [secret](Id::secret), because many headers hold keys, tokens or sessions: refusals and events contain a hash
/// of it. For a header that is no secret, use [`shown`](Self::shown).
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
    /// The maximum length of an id, in bytes. Longer values count as missing.
    pub const MAX_LEN: usize = 1024;

    /// The id in the header `name`.
    ///
    /// # Panics
    ///
    /// If `name` is not a valid header name.
    #[must_use]
    #[track_caller]
    pub fn new(name: &str) -> Self {
        match name.parse() {
            Ok(name) => Self {
                name,
                is_shown: false,
                challenge: None,
            },
            Err(_) => panic!("`{name}` is not a header name: use ASCII letters, digits and `-`"),
        }
    }

    /// Shows the ids in refusals and events. Use it for headers whose values are no secrets, such as the number of an
    /// account. The text of a refusal is then `too many requests (…) from 12345678`.
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

    fn missing(&self, problem: &str) -> Extracted {
        let name = &self.name;
        let reason = format!("header `{name}` {problem}: send it once, with the id as its value");
        Extracted::Missing(refused(reason, self.challenge))
    }
}

impl KeyExtractor for HeaderId {
    fn extract(&self, parts: &Parts) -> Extracted {
        let mut values = parts.headers.get_all(&self.name).iter();
        let Some(value) = values.next() else {
            return self.missing("is missing");
        };
        if values.next().is_some() {
            return self.missing("appears more than once");
        }
        match value.to_str().map(str::trim) {
            Ok("") => self.missing("is empty"),
            Ok(id) if id.len() > Self::MAX_LEN => {
                self.missing(&format!("is longer than {} bytes", Self::MAX_LEN))
            }
            Ok(id) => Id::from(id).secret_if(!self.is_shown).into(),
            Err(_) => self.missing("is not visible ASCII"),
        }
    }

    fn describe(&self) -> IdProperties {
        let Self {
            name,
            is_shown,
            challenge,
        } = self.clone();
        let invalid =
            move |error: &IdError| refused(format!("header `{name}`: {error}"), challenge);
        IdProperties::default()
            .invalid(invalid)
            .secret_if(!is_shown)
            .same_if(format!("{self:?}"))
    }
}

fn refused(reason: String, challenge: Option<&'static str>) -> MissingId {
    let missing = MissingId::client(reason);
    match challenge {
        Some(challenge) => missing.unauthorized(challenge),
        None => missing,
    }
}

use std::sync::atomic::AtomicBool;

use http::request::Parts;

use super::missing_id::MissingId;
use crate::id::{Id, IdError, IdFormat};

/// Finds the id of the client that sent a request, in the head of the request.
///
/// It runs for every request, before anything else. It should neither block nor do much work, and must not panic,
/// whatever the request contains.
///
/// The [module docs](super) list the extractors of this crate, and show how to write one. A closure that returns an `Option` of an
/// id or a text is an extractor, if the type of its argument is written out.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not extract the id of a client",
    note = "a closure does: `|parts: &http::request::Parts| -> Option<String> {{ .. }}`",
    note = "see `tollgate::key` for ready ones, such as `ClientIp::peer()`"
)]
pub trait KeyExtractor: Send + Sync + 'static {
    /// Extracts the id from a request's head. `None` skips the rule.
    ///
    /// # Errors
    ///
    /// If the request should have an id, and has none.
    fn extract(&self, parts: &Parts) -> Result<Option<Id>, MissingId>;

    /// Extracts the id in its canonical form in the format of a limit.
    ///
    /// # Errors
    ///
    /// As [`extract`](Self::extract), and if the id is not in the format.
    fn extract_as(&self, parts: &Parts, format: IdFormat) -> Result<Option<Id>, MissingId> {
        let Some(id) = self.extract(parts)? else {
            return Ok(None);
        };
        fold(self, id, format).map(Some)
    }

    /// Returns the reason for a request whose id is not in the limit's format. By default, it is a mistake of the client.
    fn invalid(&self, error: &IdError) -> MissingId {
        MissingId::client(error.to_string())
    }

    /// Returns whether the ids can have a format. A rule whose limit has another format is an error at startup, because it would
    /// refuse every request. By default, they can have any.
    fn fits(&self, format: IdFormat) -> bool {
        format == IdFormat::Opaque || self.source() != IdSource::Shared
    }

    /// Returns where the ids come from, for checks of the layer's configuration. Only the extractors of this crate know it.
    #[doc(hidden)]
    fn source(&self) -> IdSource {
        IdSource::Unknown
    }

    /// Uses `other` if this extractor finds no id that is valid in the limit's format: if the id is absent, empty, sent twice, too
    /// long or malformed.
    ///
    /// Both kinds of ids share one limit and its buckets, so a value that clients choose needs a [prefix](Self::prefix). For two
    /// limits, use [`Rule::or_else`](crate::Rule::or_else). In a longer chain, the last extractor decides what happens if there is
    /// no id. If one of the two cannot produce ids in the format of a limit, this is an error at startup.
    ///
    /// ```
    /// use tollgate::{ClientIp, Rule, key::{HeaderId, KeyExtractor}};
    ///
    /// // The account that a gateway has authenticated, else the address.
    /// let account = HeaderId::new("x-account").prefix("account:");
    /// let rule = Rule::new("requests", account.or_else(ClientIp::peer()));
    /// # let _ = rule;
    /// ```
    #[must_use]
    fn or_else(self, other: impl KeyExtractor) -> impl KeyExtractor
    where
        Self: Sized,
    {
        OrElse {
            first: self,
            other,
            logged: AtomicBool::default(),
        }
    }

    /// Writes a text before each id, so that the ids of several extractors differ: with `account:`, the id `192.0.2.1` becomes
    /// `account:192.0.2.1`, and cannot be the address of another client. Overrides then name the whole id. Only opaque ids can have
    /// a prefix.
    #[must_use]
    fn prefix(self, prefix: &'static str) -> impl KeyExtractor
    where
        Self: Sized,
    {
        PrefixedExtractor {
            extractor: self,
            prefix,
        }
    }
}

impl<F, I> KeyExtractor for F
where
    F: Fn(&Parts) -> Option<I> + Send + Sync + 'static,
    I: Into<Id>,
{
    fn extract(&self, parts: &Parts) -> Result<Option<Id>, MissingId> {
        Ok(self(parts).map(Into::into))
    }
}

/// The source of the ids of a [`KeyExtractor`]. An extractor that consists of several has the source that comes last in this list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum IdSource {
    /// All requests share one id, or a few, on purpose.
    Shared,
    /// Unknown.
    #[default]
    Unknown,
    /// A value that clients can choose, such as a header.
    Client,
    /// The address of the client, as trusted proxies or a function name it.
    Address,
    /// The address at the other end of the connection.
    Peer,
    /// The address in a header that any client can send.
    AnyHeader,
    /// A value that clients can choose, or else an address. A client that sends another client's address as the value uses up that
    /// client's bucket.
    Colliding,
}

impl IdSource {
    /// Returns the source of ids that come from this extractor or else from another one.
    pub(super) fn or_else(self, other: Self) -> Self {
        match (self.min(other), self.max(other)) {
            (Self::Client, Self::Address | Self::Peer | Self::AnyHeader) => Self::Colliding,
            (_, last) => last,
        }
    }

    /// Returns the mistake if ids of this source show one: the code of the check, and what to change.
    pub(crate) fn mistake(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::AnyHeader => Some((
                "everyone-trusted",
                "proxy headers are trusted from any peer: use `Proxies::trusted` or `Proxies::hops`, so that clients \
                 cannot choose their address",
            )),
            Self::Colliding => Some((
                "ids-collide",
                "a value that clients choose can be the address of another client: add `.prefix(\"account:\")` to \
                 its extractor",
            )),
            _ => None,
        }
    }
}

/// Folds the id that an extractor has found.
pub(super) fn fold(
    extractor: &(impl KeyExtractor + ?Sized),
    id: Id,
    format: IdFormat,
) -> Result<Id, MissingId> {
    format.fold_id(id).map_err(|error| {
        let missing = extractor.invalid(&error);
        missing.with_reason_in_events(extractor.invalid(&error.secret_if(true)))
    })
}

/// An extractor that is created by [`KeyExtractor::or_else`].
struct OrElse<A, B> {
    first: A,
    other: B,
    logged: AtomicBool,
}

impl<A: KeyExtractor, B: KeyExtractor> KeyExtractor for OrElse<A, B> {
    fn extract(&self, parts: &Parts) -> Result<Option<Id>, MissingId> {
        self.extract_as(parts, IdFormat::Opaque)
    }

    fn extract_as(&self, parts: &Parts, format: IdFormat) -> Result<Option<Id>, MissingId> {
        match self.first.extract_as(parts, format) {
            Ok(Some(id)) => return Ok(Some(id)),
            Ok(None) => {}
            Err(missing) => missing.log_once(None, "fall back to another id", &self.logged),
        }
        self.other.extract_as(parts, format)
    }

    fn fits(&self, format: IdFormat) -> bool {
        self.first.fits(format) && self.other.fits(format)
    }

    fn source(&self) -> IdSource {
        self.first.source().or_else(self.other.source())
    }
}

/// An extractor that is created by [`KeyExtractor::prefix`].
struct PrefixedExtractor<E> {
    extractor: E,
    prefix: &'static str,
}

impl<E: KeyExtractor> KeyExtractor for PrefixedExtractor<E> {
    fn extract(&self, parts: &Parts) -> Result<Option<Id>, MissingId> {
        let found = self.extractor.extract_as(parts, IdFormat::Opaque)?;
        Ok(found.map(|id| {
            let prefixed = Id::display(format_args!("{}{id}", self.prefix));
            prefixed.secret_if(id.is_secret())
        }))
    }

    fn fits(&self, format: IdFormat) -> bool {
        format == IdFormat::Opaque && self.extractor.fits(format)
    }

    fn source(&self) -> IdSource {
        match self.extractor.source() {
            IdSource::Client => IdSource::Unknown,
            other => other,
        }
    }
}

//! Denials as errors, and their text for people.

use std::{error::Error, fmt, time::Duration};

use super::{LimitHandle, LimiterError, wait_text::wait_in_words};
use crate::{
    batch::{Member, OwnedMember},
    decision::Decision,
    transaction::Operation,
};

/// The reason why a client was not [admitted](LimitHandle::admit): its limit denies it, or could not be decided.
///
/// Its text is one for people, such as `too many logins (5 in any 15 minutes) from alice: retry in 15 minutes`. Code behind a
/// [`RateLimitLayer`](crate::RateLimitLayer) returns it as the response that the layer would have sent, by
/// [`Assessment::refuse`](crate::layer::Assessment::refuse). With the feature `tonic`, it converts to a `Status`.
#[derive(Debug)]
pub struct NotAdmitted(pub(crate) Box<NotAdmittedBy>);

#[derive(Debug)]
pub(crate) enum NotAdmittedBy {
    Limit {
        client: OwnedMember,
        decision: Decision,
    },
    Error {
        /// `None` if the limit or the id is not valid.
        client: Option<OwnedMember>,
        error: LimiterError,
    },
}

impl LimitHandle {
    /// Charges the client like [`spend`](Self::spend), and returns a denial as an error, for handlers with limits of their own.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter, Limits, MemoryBackend};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limits = Limits::builder().limit("exports", Limit::per_hour(1)).build()?;
    /// let exports = Limiter::new(limits, MemoryBackend::new()).limit("exports")?;
    ///
    /// exports.admit("alice").await?;
    /// let denied = exports.admit("alice").await.expect_err("one an hour");
    /// assert_eq!(
    ///     denied.to_string(),
    ///     "limit `exports` exceeded (1 per hour, 1 at once) from alice: retry in 60 minutes"
    /// );
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the limit denies the client; if it is a [concurrency limit](crate::Limit::concurrent), whose permits need
    /// [`enter`](Self::enter); and as [`spend`](Self::spend).
    pub async fn admit(&self, id: &str) -> Result<Decision, NotAdmitted> {
        let transaction = self.transaction(id);
        let prepared = self.limiter().client(Operation::Spend, &transaction);
        let client = prepared.map_err(|error| NotAdmitted::by_error(None, error))?;
        let member = client.as_member();
        let has_permits = member.has_bucket() && member.algorithm().hold().is_some();
        if has_permits {
            let error = LimiterError::unsupported(
                self.name(),
                "it has permits, which nobody would give back: use `enter`",
            );
            return Err(NotAdmitted::by_error(Some(client), error));
        }
        match self.limiter().decide(Operation::Spend, &client).await {
            Ok(decision) if decision.allowed() => Ok(decision),
            Ok(decision) => Err(NotAdmitted::by_limit(client, decision)),
            Err(error) => Err(NotAdmitted::by_error(Some(client), error)),
        }
    }
}

impl NotAdmitted {
    fn by_limit(client: OwnedMember, decision: Decision) -> Self {
        Self(Box::new(NotAdmittedBy::Limit { client, decision }))
    }

    fn by_error(client: Option<OwnedMember>, error: LimiterError) -> Self {
        Self(Box::new(NotAdmittedBy::Error { client, error }))
    }

    /// Returns the denial, or `None` if the client could not be decided.
    #[must_use]
    pub fn decision(&self) -> Option<&Decision> {
        match &*self.0 {
            NotAdmittedBy::Limit { decision, .. } => Some(decision),
            NotAdmittedBy::Error { .. } => None,
        }
    }

    /// Returns the time after which the client would be admitted; `None` if that is not known, or never.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.decision()?.retry_after()
    }
}

impl fmt::Display for NotAdmitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (client, decision) = match &*self.0 {
            NotAdmittedBy::Limit { client, decision } => (client, decision),
            NotAdmittedBy::Error { error, .. } => return error.fmt(f),
        };
        DenialText::new(&client.as_member(), decision).fmt(f)?;
        match decision.retry_after_secs() {
            Some(secs) => write!(f, ": retry in {}", wait_in_words(secs.max(1))),
            None => Ok(()),
        }
    }
}

impl Error for NotAdmitted {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &*self.0 {
            NotAdmittedBy::Limit { .. } => None,
            NotAdmittedBy::Error { error, .. } => error.source(),
        }
    }
}

/// What a limit says to a client that it denies.
pub(crate) struct DenialText<'a> {
    member: &'a Member<'a>,
    decision: &'a Decision,
}

impl<'a> DenialText<'a> {
    pub(crate) fn new(member: &'a Member<'a>, decision: &'a Decision) -> Self {
        Self { member, decision }
    }
}

impl fmt::Display for DenialText<'_> {
    /// Writes `too many new orders (300 per 3 hours, 300 at once) from 12345678` or, for a limit without a description,
    /// ``limit `free` exceeded (1000 per calendar month; the cost is 50) from alice``.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.member.limit;
        if let Some(reason) = self.member.block_reason() {
            return f.write_str(reason);
        }
        let is_blocked = self.decision.blocked();
        // The limit of a layer with one limit is called `requests`.
        let requests = (limit.name() == "requests").then_some("requests");
        match (limit.description().or(requests), is_blocked) {
            (Some(what), true) => write!(f, "{what} are blocked")?,
            (Some(what), false) => write!(f, "too many {what}")?,
            (None, true) => write!(f, "limit `{}` is blocked", limit.name())?,
            (None, false) => write!(f, "limit `{}` exceeded", limit.name())?,
        }
        if let Some(values) = self.member.by.filter(|_| !is_blocked) {
            write!(f, " ({values:#}")?;
            match self.member.ask.cost {
                0 | 1 => f.write_str(")")?,
                cost => write!(f, "; the cost is {cost})")?,
            }
        }
        let preposition = if is_blocked { "for" } else { "from" };
        let client = self.member.client();
        client.map_or(Ok(()), |client| {
            write!(f, " {preposition} {}", client.shown())
        })
    }
}

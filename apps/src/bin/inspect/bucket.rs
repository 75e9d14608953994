//! The state of a bucket, without a charge.

use std::time::Duration;

use serde::Serialize;
use tollgate::{Limiter, Transaction, decision::Source, limiter::LimiterError};

use super::client::Client;

/// A client, and its bucket.
#[derive(Serialize)]
pub(crate) struct BucketState {
    #[serde(flatten)]
    pub(crate) client: Client,
    /// Whether a request at a cost of 1 would pass now, if the limit were not in shadow mode.
    passes: bool,
    limited: bool,
    /// The source of the decision: the store, or this process on its own.
    source: &'static str,
    /// What the bucket holds.
    remaining: Option<u32>,
    /// The time until a request at a cost of 1 passes.
    next_after_us: Option<u64>,
    /// The time until there is one more token or, for tiers, more room or another tier.
    next_token_after_us: Option<u64>,
    reset_after_us: Option<u64>,
}

impl BucketState {
    /// Asks for the state of a client's bucket.
    pub(crate) async fn ask(limiter: &Limiter, client: Client) -> Result<Self, LimiterError> {
        let transaction = Transaction::new(&client.limit, &client.id);
        let decision = limiter.peek(&transaction).await?;
        let limited = decision.limited();
        Ok(Self {
            passes: decision.allowed() && !decision.would_be_denied(),
            limited,
            source: source(decision.source()),
            remaining: decision.remaining(),
            next_after_us: micros(decision.next_after()).filter(|_| limited),
            next_token_after_us: micros(decision.more_after()).filter(|_| limited),
            reset_after_us: micros(decision.reset_after()).filter(|_| limited),
            client,
        })
    }
}

/// The effect of a reset on a client's bucket.
pub(crate) enum ResetEffect {
    Fills,
    /// Nothing, for this reason.
    Nothing(&'static str),
}

impl ResetEffect {
    /// Finds out the effect of a reset.
    pub(crate) async fn ask(limiter: &Limiter, client: &Client) -> Result<Self, LimiterError> {
        let transaction = Transaction::new(&client.limit, &client.id);
        let bucket = limiter.peek(&transaction).await?;
        Ok(match bucket {
            bucket if !bucket.limited() => Self::Nothing("the client is not limited"),
            bucket if bucket.blocked() => {
                Self::Nothing("the client is blocked by an override: remove that")
            }
            bucket if bucket.reset_after() == Some(Duration::ZERO) => {
                Self::Nothing("the bucket is full")
            }
            _ => Self::Fills,
        })
    }
}

pub(crate) fn source(source: Source) -> &'static str {
    match source {
        Source::Cache => "cache",
        Source::Lease => "lease",
        Source::Local => "local",
        _ => "store",
    }
}

/// A wait, or `None` if its end is not known or never comes.
pub(crate) fn micros(wait: Option<Duration>) -> Option<u64> {
    wait.map(|wait| u64::try_from(wait.as_micros()).unwrap_or(u64::MAX))
}

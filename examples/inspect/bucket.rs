//! The state of a bucket, without a charge.

use std::time::Duration;

use serde::Serialize;
use tollgate::{
    Decision, Limiter, Transaction, decision::Source, limiter::LimiterError, transaction::Mode,
};

use super::client::Client;

/// A client, and its bucket.
#[derive(Serialize)]
pub(crate) struct BucketState {
    #[serde(flatten)]
    pub(crate) client: Client,
    /// The cost that was checked. A token bucket is checked with 0, and shows the tokens that it holds. Tiers cannot be checked
    /// with 0: they show the state after one more unit.
    asked: u32,
    /// Whether this cost would pass, if the limit were not in shadow mode.
    passes: bool,
    limited: bool,
    /// The source of the decision: the store, or this process on its own.
    source: &'static str,
    remaining: Option<u32>,
    /// The time until this cost would pass.
    next_after_us: Option<u64>,
    /// The time until there is one more token or, for tiers, more room or another tier.
    next_token_after_us: Option<u64>,
    reset_after_us: Option<u64>,
}

impl BucketState {
    /// Asks for the state of a client's bucket.
    pub(crate) async fn ask(limiter: &Limiter, client: Client) -> Result<Self, LimiterError> {
        let tiers = client
            .values
            .as_ref()
            .and_then(|values| values.get("tiers"));
        let asked = u32::from(tiers.is_some());
        let transaction = Transaction::new(&client.limit, &client.id).cost(asked);
        let decision = limiter.check(&transaction.mode(Mode::CheckOnly)).await?;
        let limited = decision.limited();
        Ok(Self {
            asked,
            passes: decision.allowed() && !decision.would_be_denied(),
            limited,
            source: source(&decision),
            remaining: decision.remaining(),
            next_after_us: micros(decision.next_after()).filter(|_| limited),
            next_token_after_us: decision.next_token_after().and_then(micros),
            reset_after_us: micros(decision.reset_after()).filter(|_| limited),
            client,
        })
    }
}

fn source(decision: &Decision) -> &'static str {
    match decision.source() {
        Source::Cache => "cache",
        Source::Lease => "lease",
        Source::Local => "local",
        _ => "store",
    }
}

/// A wait, or `None` if it never ends.
fn micros(wait: Duration) -> Option<u64> {
    let ends = wait != Decision::NEVER;
    ends.then(|| u64::try_from(wait.as_micros()).unwrap_or(u64::MAX))
}

//! Refusals that are kept for operators. They own their texts, whose lengths are bounded.

use std::time::{Duration, SystemTime};

use http::request::Parts;

use super::{denial::Denial, refusal::Refusal, refusal_id::RefusalId};
use crate::{decision::Source, id::Id};

/// The most bytes of other texts. Longer ones are cut.
const LONGEST_TEXT: usize = 256;
/// The most limits of one refusal.
const MOST_CHARGES: usize = 4;

/// A refusal that a [`RefusalLog`](super::RefusalLog) keeps.
///
/// ```
/// use tollgate::response::KeptRefusal;
///
/// // What an operator may read to a client.
/// fn answer(kept: &KeptRefusal) -> String {
///     let limits = kept.charges.iter().map(|charge| {
///         let values = charge.values.as_deref().unwrap_or("no values");
///         format!("{} ({values})", charge.limit)
///     });
///     format!("{}: {} {}", kept.id, kept.reason, limits.collect::<Vec<_>>().join(", "))
/// }
/// # let _ = answer;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KeptRefusal {
    /// The reference, which the client has too.
    pub id: RefusalId,
    /// The instant, by the clock of this machine.
    pub at: SystemTime,
    /// The reason, like the `reason` of `rate_limiting_refusals_total`: `over_limit`, `blocked`, `too_costly`, `listed`, `no_id`,
    /// `unavailable` (the store did not answer) or `misconfigured`.
    pub reason: &'static str,
    /// The name of the deny list, the reason of a block, or the reason why a request has no id. At most 256 bytes.
    pub detail: Option<Box<str>>,
    /// The route that axum has matched, as written in the router: `/users/{id}`. At most 256 bytes. `None` without the
    /// feature `axum`, and if no route is known.
    pub path: Option<Box<str>>,
    /// The wait that the client was told; `None` if waiting is pointless.
    pub retry_after: Option<Duration>,
    /// The limits that denied the request, the strictest first, at most four. If the store did not answer, the limits that
    /// could not be decided. Empty for a request without an id, or on a deny list.
    pub charges: Vec<RefusedCharge>,
}

/// A limit that has denied a request, with the bucket as it was then. [`KeptRefusal`] has an example.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RefusedCharge {
    /// The limit's name.
    pub limit: Box<str>,
    /// The canonical id of the client, or a hash of it: if it is a [secret](Id::secret), if
    /// [`redact_ids`](crate::limit::LimitsBuilder::redact_ids) is on, or if it is longer than 128 bytes. `None` if requests
    /// without an id share the bucket.
    pub client: Option<Box<str>>,
    /// Whether `client` is a hash.
    pub is_hashed: bool,
    /// The cost of the request.
    pub cost: u32,
    /// The limit's values for this client, such as `10 per 1s, 20 at once`.
    pub values: Option<Box<str>>,
    /// Whether an override has replaced the default for this client.
    pub is_override: bool,
    /// The number of whole tokens that were left; `None` if the store did not answer.
    pub remaining: Option<u32>,
    /// The time after which the same request would have passed;
    /// [`Decision::NEVER`](crate::Decision::NEVER) if it never would have. `None` if the store did not answer.
    pub retry_after: Option<Duration>,
    /// The time after which the bucket would have been full. `None` if the store did not answer.
    pub reset_after: Option<Duration>,
    /// The source of the decision.
    pub source: Source,
}

impl KeptRefusal {
    pub(super) fn new(id: RefusalId, refusal: &Refusal<'_>) -> Self {
        let strictest = |denial: &&Denial<'_>| {
            let strictest = refusal.denial();
            strictest.is_some_and(|strictest| std::ptr::eq(strictest.decision, denial.decision))
        };
        let first = refusal.charged().iter().filter(strictest);
        let others = refusal.charged().iter().filter(|denial| !strictest(denial));
        let charges = first.chain(others).take(MOST_CHARGES);
        Self {
            id,
            at: SystemTime::now(),
            reason: refusal.reason.as_str(),
            detail: refusal.reason.detail().map(shortened),
            path: route(refusal.request).map(shortened),
            retry_after: refusal.retry_after(),
            charges: charges.map(RefusedCharge::new).collect(),
        }
    }
}

impl RefusedCharge {
    fn new(denial: &Denial<'_>) -> Self {
        let own = denial.own_limit();
        let client = denial.kept_client();
        let is_decided = denial.decision.limited();
        let figure = |wait: Duration| is_decided.then_some(wait);
        Self {
            limit: denial.limit.into(),
            is_hashed: client.as_ref().is_some_and(Id::is_secret),
            client: client.map(|client| client.shown().into()),
            cost: denial.cost,
            values: own.map(|(limit, _)| shortened(&limit.to_string())),
            is_override: own.is_some_and(|(_, is_override)| is_override),
            remaining: denial.decision.remaining(),
            retry_after: figure(denial.decision.next_after()),
            reset_after: figure(denial.decision.reset_after()),
            source: denial.decision.source(),
        }
    }

    /// Returns whether this is the client with a canonical id.
    pub(super) fn is_of(&self, canonical: &str) -> bool {
        let id = || Id::from(canonical).secret();
        self.client
            .as_deref()
            .is_some_and(|client| match self.is_hashed {
                true => client == id().shown(),
                false => client == canonical,
            })
    }
}

#[cfg(feature = "axum")]
pub(super) fn route(request: &Parts) -> Option<&str> {
    let path = request.extensions.get::<axum::extract::MatchedPath>();
    path.map(axum::extract::MatchedPath::as_str)
}

#[cfg(not(feature = "axum"))]
pub(super) fn route(_: &Parts) -> Option<&str> {
    None
}

/// Cuts a text that is too long.
fn shortened(text: &str) -> Box<str> {
    const CUT: &str = "\u{2026}";
    if text.len() <= LONGEST_TEXT {
        return text.into();
    }
    let mut ends = (0..=LONGEST_TEXT - CUT.len()).rev();
    let end = ends.find(|end| text.is_char_boundary(*end));
    let (start, _) = text.split_at(end.unwrap_or_default());
    format!("{start}{CUT}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(&*shortened("short"), "short");
        for letter in ["a", "\u{e4}", "\u{1f980}"] {
            let cut = shortened(&letter.repeat(300));
            assert!(
                (LONGEST_TEXT - 4..=LONGEST_TEXT).contains(&cut.len()),
                "{cut}"
            );
            assert!(cut.ends_with('\u{2026}'), "{cut}");
        }
    }
}

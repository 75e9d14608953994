use std::{borrow::Cow, fmt, time::Duration};

use super::message::Message;
use crate::{
    decision::{Decision, Source},
    id::Id,
    limit::{Limit, Limits, NamedLimit},
};

/// The most bytes of an id in events. Of a longer one, they have the hash.
const LONGEST_ID: usize = 128;

/// A limit that denies a request. [`ResponseFormat`](super::ResponseFormat) has an example.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Denial<'a> {
    /// The limit's name.
    pub limit: &'a str,
    /// The id of the client. It can be a [secret](Id::secret), and is [`Id::MISSING`] if requests without an id share a
    /// bucket: show [`client`](Self::client) instead.
    pub id: &'a Id,
    /// The cost of the request.
    pub cost: u32,
    /// The description of the limit, if its name has one.
    pub description: Option<&'a str>,
    /// The link to documentation for clients, if the limit's name has one.
    pub docs: Option<&'a str>,
    /// The decision on the limit.
    pub decision: &'a Decision,
    /// The limit, if it is defined.
    named: Option<&'a NamedLimit>,
}

impl<'a> Denial<'a> {
    pub(crate) fn new(
        named: Option<&'a NamedLimit>,
        limit: &'a str,
        id: &'a Id,
        cost: u32,
        decision: &'a Decision,
    ) -> Self {
        let name = named.map(|named| &named.name);
        Self {
            named,
            limit,
            id,
            cost,
            description: name.and_then(|name| name.described()),
            docs: name.and_then(|name| name.documented()),
            decision,
        }
    }

    /// The client, as a text for people: its id or, if that is a [secret](Id::secret), a hash of it. `None` if requests
    /// without an id share the bucket.
    #[must_use]
    pub fn client(&self) -> Option<Cow<'a, str>> {
        self.has_id().then(|| self.id.shown())
    }

    fn has_id(&self) -> bool {
        self.id.as_str() != Id::MISSING
    }

    /// Returns the time until this limit would admit the same request; [`Decision::NEVER`] if it never will. The time until a
    /// permit comes back is not known, so it is `for_permits`.
    pub(super) fn wait(&self, for_permits: Duration) -> Duration {
        let wait = self.decision.retry_after();
        if self.decision.hold().is_some() && self.exceeded().is_none() {
            return for_permits;
        }
        // Any cost above 0 waits at least for the next token. A cost of 0 is only denied in debt. The wait of tiers is
        // complete already, and a client that may wait gets the time until there is room in the line.
        let is_whole = self.cost > 0 || self.block().is_some();
        match is_whole || self.decision.has_tiers() || self.decision.may_wait() {
            true => wait,
            false => wait.max(self.decision.next_token_after().unwrap_or_default()),
        }
    }

    /// Returns the most that passes at once, if the request costs more.
    pub(super) fn exceeded(&self) -> Option<u32> {
        let most = match (self.decision.source(), self.decision.algorithm()?) {
            // A local decision uses a share of the limit. The store applies the whole limit once it answers again.
            (Source::Local, _) => self.own_limit().and_then(|(limit, _)| limit.max_cost())?,
            (_, algorithm) => Limit::of(algorithm).max_cost()?,
        };
        (self.cost > most).then_some(most)
    }

    /// Returns the limit of this client as operators see it, and whether that is an override.
    pub(super) fn own_limit(&self) -> Option<(&'a Limit, bool)> {
        let named = self.named?;
        let (limit, is_override) = match self.has_id() {
            false => named.shown(Id::MISSING),
            true => named.shown(named.name.format().fold(self.id.as_str()).ok()?.as_str()),
        };
        limit.map(|limit| (limit, is_override))
    }

    /// Returns the reason of a block, if the limit is a list of blocked clients.
    pub(super) fn block(&self) -> Option<&'a str> {
        let name = self.named.map(|named| &named.name);
        name.filter(|name| name.is_block())?.described()
    }

    /// Returns the canonical id of the client for events.
    pub(super) fn shown_client(&self) -> Option<Id> {
        let named = self.named.filter(|_| self.has_id())?;
        let folded = named.name.format().fold(self.id.as_str()).ok()?;
        let is_long = folded.as_str().len() > LONGEST_ID;
        let is_secret = self.id.is_secret() || named.redacts_ids() || is_long;
        Some(Id::from(folded.as_str()).secret_if(is_secret))
    }

    /// Writes the limit that was in force for this client. Most clients have the default, whose text is cached.
    fn write_limit(&self, message: &mut impl Message) {
        let Some(algorithm) = self.decision.algorithm() else {
            return;
        };
        match self.named.and_then(|named| named.words(&algorithm)) {
            Some(words) => message.words(words),
            None => message.words(&format!(" ({})", Limit::of(algorithm))),
        }
    }

    /// Writes the text of [`Display`](fmt::Display).
    pub(super) fn write(&self, message: &mut impl Message) {
        if let Some(reason) = self.block() {
            return message.text(reason);
        }
        let is_blocked = self.decision.blocked();
        match described(self.description, self.limit) {
            Some(what) if is_blocked => {
                message.text(what);
                message.words(" are blocked");
            }
            Some(what) => {
                message.words("too many ");
                message.text(what);
                self.write_limit(message);
            }
            None => {
                message.words("limit `");
                message.text(self.limit);
                message.words(if is_blocked {
                    "` is blocked"
                } else {
                    "` exceeded"
                });
                if !is_blocked {
                    self.write_limit(message);
                }
            }
        }
        let of_client = if is_blocked { " for " } else { " from " };
        if let Some(id) = self.client() {
            message.words(of_client);
            message.text(&id);
        }
    }
}

impl fmt::Display for Denial<'_> {
    /// Writes `too many new orders (300 per 3h0m0s, 300 at once) from 12345678` or, for a limit without a description,
    /// ``limit `free` exceeded (1000 per calendar month) from alice``.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text);
        f.write_str(&text)
    }
}

/// A request that can never pass, because its cost is too high. [`ResponseFormat`](super::ResponseFormat) has an
/// example.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CostExceeded<'a> {
    /// The limit's name.
    pub limit: &'a str,
    /// The cost of the request.
    pub cost: u32,
    /// The most that passes at once.
    pub most: u32,
    /// The description of the limit, if its name has one.
    pub description: Option<&'a str>,
    /// The link to documentation for clients, if the limit's name has one.
    pub docs: Option<&'a str>,
}

impl<'a> CostExceeded<'a> {
    pub(crate) fn new(limits: &'a Limits, limit: &'a str, cost: u32, most: u32) -> Self {
        let name = limits.get(limit).map(|named| &named.name);
        Self {
            limit,
            cost,
            most,
            description: name.and_then(|name| name.described()),
            docs: name.and_then(|name| name.documented()),
        }
    }

    pub(super) fn of(denial: &Denial<'a>, most: u32) -> Self {
        Self {
            limit: denial.limit,
            cost: denial.cost,
            most,
            description: denial.description,
            docs: denial.docs,
        }
    }
}

impl fmt::Display for CostExceeded<'_> {
    /// Writes `too many new orders at once: the request costs 400, and at most 300 can pass`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match described(self.description, self.limit) {
            Some(what) => write!(f, "too many {what} at once")?,
            None => write!(f, "limit `{}` exceeded at once", self.limit)?,
        }
        let Self { cost, most, .. } = self;
        write!(f, ": the request costs {cost}, and at most {most} can pass")
    }
}

/// Returns the words that follow "too many", if they are known. The limit of a layer with one limit is called `requests`.
fn described<'a>(description: Option<&'a str>, limit: &str) -> Option<&'a str> {
    const REQUESTS: &str = "requests";
    description.or_else(|| (limit == REQUESTS).then_some(REQUESTS))
}

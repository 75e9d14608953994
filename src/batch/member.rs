use std::{fmt, ptr};

use crate::{
    algorithm::{Algorithm, Ask, Verb},
    id::{Id, IdFormat, MISSING, client_hash},
    limit::{Limit, NamedLimit},
    transaction::{BucketKey, Fingerprint, Mode, OnFailure, Operation},
};

/// One client's use of one limit, as part of a [`Batch`](crate::backend::custom::Batch). The page for
/// [authors of backends](crate::backend::custom) has an example.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Member<'a> {
    pub(crate) limit: &'a NamedLimit,
    /// The limit that holds for the client, if one does.
    pub(crate) by: Option<&'a Limit>,
    /// In the limit's canonical form.
    pub(crate) id: &'a str,
    pub(crate) print: Fingerprint,
    /// The question to the bucket.
    pub(crate) ask: Ask,
    pub(crate) role: MemberRole,
}

/// The role of a member in its batch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemberRole {
    pub(crate) mode: Mode,
    /// The policy for the time without the store, if it is not that of the limit.
    pub(crate) on_failure: Option<OnFailure>,
    /// Whether the id is a secret.
    pub(crate) is_secret: bool,
    /// Whether the member corrects an earlier decision, which was recorded.
    pub(crate) is_correction: bool,
    /// Whether the values of the limit have come with the request.
    pub(crate) is_brought: bool,
    /// Whether a refund or a renewal is about a charge that this process has made without the store. Only the backend that has made
    /// the charge acts on it.
    pub(crate) is_local: bool,
    pub(crate) basis: DecisionBasis,
    /// The index of its rule in a layer.
    pub(crate) rule: u32,
}

/// The basis of the decision on a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DecisionBasis {
    /// The state of its bucket.
    #[default]
    Bucket,
    /// No limit holds for the client, so it passes.
    NoLimit,
    /// The client is blocked, so it is denied in any state.
    Block,
}

impl<'a> Member<'a> {
    /// Creates a member of a batch that spends. The id is in the canonical form of the limit's ids.
    #[must_use]
    pub fn new(limit: &'a NamedLimit, id: &'a str, cost: u32, mode: Mode) -> Self {
        let ask = Ask {
            waits: true,
            ..Ask::new(Verb::Spend, cost)
        };
        let role = MemberRole {
            mode,
            ..MemberRole::default()
        };
        let client = client_hash(id);
        let mut member = Self::prepared(Operation::Spend, limit, (id, client), None, ask, role);
        if member.has_bucket() {
            member.name_permits();
        }
        member
    }

    /// Creates a member. The id comes with its hash. `brought` is the limit that has come with the request, which replaces the
    /// default.
    // Inlined, so that the member is created in its final location. Moving it would take longer than the arithmetic.
    #[inline(always)]
    pub(crate) fn prepared(
        operation: Operation,
        limit: &'a NamedLimit,
        (id, client): (&'a str, u64),
        brought: Option<&'a Limit>,
        ask: Ask,
        role: MemberRole,
    ) -> Self {
        let is_shadow = limit.is_shadow();
        let mode = if is_shadow {
            role.mode.silent()
        } else {
            role.mode
        };
        let verb = operation.verb(mode);
        let by = limit.in_force(id, brought);
        let algorithm = by.and_then(Limit::algorithm);
        let basis = match by {
            _ if algorithm.is_some() => DecisionBasis::Bucket,
            Some(by) if by.is_blocked() && operation != Operation::Reset => DecisionBasis::Block,
            _ => DecisionBasis::NoLimit,
        };
        Self {
            limit,
            by,
            id,
            print: limit
                .seed()
                .fingerprint(algorithm.map(Algorithm::key).unwrap_or_default(), client),
            // Each field is written separately. Copying a part of them at once would read it in wide loads, which wait for narrow
            // stores.
            ask: Ask {
                verb,
                cost: ask.cost,
                min_cost: ask.min_cost,
                waits: ask.waits && mode == Mode::CheckAndSpend,
                saturates: is_shadow || role.is_correction,
                charge: None,
            },
            role: MemberRole {
                mode,
                is_brought: brought.is_some(),
                basis,
                ..role
            },
        }
    }

    /// Adds the cost of another rule of the same bucket.
    pub(crate) fn add_cost(&mut self, cost: u32) {
        self.ask.cost = self.ask.cost.saturating_add(cost);
        self.ask.min_cost = self.ask.cost;
    }

    /// Names the permits that the member asks for, if its algorithm has permits.
    #[inline]
    pub(crate) fn name_permits(&mut self) {
        if self.ask.verb == Verb::Spend
            && let Some(permits) = self.algorithm().new_permits(self.ask.cost)
        {
            self.ask.charge = Some(permits);
        }
    }

    /// Decides by this limit, not by the default.
    #[must_use]
    pub fn by(self, limit: &'a Limit) -> Self {
        let id = (self.id, self.print.client);
        Self::prepared(
            Operation::Spend,
            self.limit,
            id,
            Some(limit),
            self.ask,
            self.role,
        )
    }

    /// The bucket.
    #[must_use]
    pub fn key(&self) -> BucketKey<'a> {
        BucketKey {
            limit: self.limit.key(),
            algorithm: self.algorithm().key(),
            id: self.id,
        }
    }

    /// The limit's name and its values.
    #[must_use]
    pub const fn limit(&self) -> &'a NamedLimit {
        self.limit
    }

    /// The units that are asked for.
    #[must_use]
    pub const fn cost(&self) -> u32 {
        self.ask.cost
    }

    /// Returns whether the id is a secret, such as an API key. A store should keep a hash of it, and no log may show it.
    #[must_use]
    pub const fn is_secret(&self) -> bool {
        self.role.is_secret
    }

    /// The algorithm of the bucket. Every member of a batch has one, because clients without a limit are left out.
    #[inline]
    pub(crate) fn algorithm(&self) -> &'a Algorithm {
        let algorithm = self.by.and_then(Limit::algorithm);
        algorithm.expect("a member of a batch has a bucket")
    }

    /// The role in the batch.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.role.mode
    }

    /// The format of the bucket's id. A store with many nodes uses it to keep the buckets of one client together.
    #[must_use]
    pub fn format(&self) -> IdFormat {
        self.limit.format()
    }

    /// The policy while the store does not answer, if the limit has one. For a limit in shadow mode, it never refuses.
    #[must_use]
    pub fn on_failure(&self) -> Option<OnFailure> {
        self.role.on_failure.or(self.limit.failure())
    }

    /// Returns the id of the client; `None` if requests without an id share the bucket.
    pub(crate) fn client(&self) -> Option<Id> {
        let is_client = self.id != MISSING;
        is_client.then(|| Id::from(self.id).secret_if(self.role.is_secret))
    }

    /// Returns the reason of a block, if the limit is a list of blocked clients. It is the description of the list.
    pub(crate) fn block_reason(&self) -> Option<&'a str> {
        self.limit.description().filter(|_| self.limit.is_block())
    }

    /// Returns whether the id may not be shown in logs and errors.
    pub(crate) fn is_hidden(&self) -> bool {
        self.role.is_secret || self.limit.redacts_ids()
    }

    /// Returns the id for logs and errors.
    pub(crate) fn logged_id(&self) -> Id {
        let is_hidden = self.id != MISSING && self.is_hidden();
        Id::from(self.id).secret_if(is_hidden)
    }

    /// Returns the limit that replaces the default for this client.
    #[inline]
    pub(crate) fn own(&self) -> Option<&'a Limit> {
        let default = self.limit.limit();
        self.by
            .filter(|by| !default.is_some_and(|default| ptr::eq(*by, default)))
    }

    /// Returns whether the client has an override.
    pub(crate) fn is_overridden(&self) -> bool {
        self.limit.own(self.id).is_some()
    }

    /// Returns whether the request may have to wait in line.
    #[inline]
    pub(crate) fn may_wait(&self) -> bool {
        self.ask.waits && self.by.is_some_and(|by| by.line().is_some())
    }

    /// Returns whether the decision depends on a bucket.
    #[inline]
    pub(crate) const fn has_bucket(&self) -> bool {
        matches!(self.role.basis, DecisionBasis::Bucket)
    }

    /// Returns whether an operation changes the bucket if the member and its batch pass.
    #[inline]
    pub(crate) const fn writes(&self, operation: Operation) -> bool {
        match operation {
            Operation::Spend | Operation::Refund | Operation::Renew => {
                self.role.mode.spends() && self.ask.cost > 0
            }
            Operation::Reset => true,
            Operation::Check | Operation::Peek => false,
        }
    }
}

/// Writes a hash instead of a secret id.
impl fmt::Debug for Member<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("limit", &self.limit.name())
            .field("id", &self.logged_id())
            .field("by", &self.by)
            .field("ask", &self.ask)
            .field("mode", &self.mode())
            .finish_non_exhaustive()
    }
}

/// A [`Member`] that owns its data.
#[derive(Clone)]
pub(crate) struct OwnedMember {
    limit: NamedLimit,
    by: Option<Limit>,
    id: Box<str>,
    print: Fingerprint,
    ask: Ask,
    role: MemberRole,
}

impl OwnedMember {
    pub(crate) fn as_member(&self) -> Member<'_> {
        let default = self.limit.limit();
        Member {
            limit: &self.limit,
            // An own value is kept only if it is not the default, which `limit` contains.
            by: self.by.as_ref().or(default),
            id: &self.id,
            print: self.print,
            ask: self.ask,
            role: self.role,
        }
    }

    pub(crate) fn limit(&self) -> &NamedLimit {
        &self.limit
    }

    /// Prepares a correction of the client's charge, by the limit in force. It is not recorded, because the decision on the charge
    /// was.
    pub(crate) fn corrected<'a>(
        &'a self,
        operation: Operation,
        limit: &'a NamedLimit,
        ask: Ask,
        mode: Mode,
    ) -> Member<'a> {
        // An override takes precedence over a limit that the request has brought.
        let is_brought = self.role.is_brought && self.limit.own(&self.id).is_none();
        let brought = self.by.as_ref().filter(|_| is_brought);
        let role = MemberRole {
            mode,
            is_secret: self.role.is_secret,
            is_correction: true,
            ..MemberRole::default()
        };
        let id = (&*self.id, self.print.client);
        Member::prepared(operation, limit, id, brought, ask, role)
    }
}

impl fmt::Debug for OwnedMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_member().fmt(f)
    }
}

impl From<&Member<'_>> for OwnedMember {
    fn from(member: &Member<'_>) -> Self {
        Self {
            limit: member.limit.clone(),
            by: member.own().cloned(),
            id: member.id.into(),
            print: member.print,
            ask: member.ask,
            role: member.role,
        }
    }
}

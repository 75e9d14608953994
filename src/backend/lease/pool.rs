use std::{collections::HashMap, iter::zip, mem, sync::Arc, time::Duration};

use ahash::RandomState;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{SplitLimit, is_leased};
use crate::{
    algorithm::{Algorithm, Ask, Charge, Figures, LeaseShare, Wait},
    batch::{Batch, Member, MemberRole, OwnedMember},
    decision::Answer,
    transaction::{Mode, Operation},
};

/// The most buckets with units. The store decides requests for further ones.
const BUCKETS: usize = 16_384;

/// The most buckets whose units are returned together.
const TOGETHER: usize = 256;

/// The units that this process has charged ahead, by the fingerprint of their bucket.
#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<HashMap<u64, LeasedBucket, RandomState>>);

/// The units that this process has of one bucket. Those that it holds and those under way are together at most its part of the
/// burst.
#[derive(Debug)]
struct LeasedBucket {
    whole: Algorithm,
    share: Option<LeaseShare>,
    /// The bucket, with the limit by which the store charges.
    bucket: Arc<OwnedMember>,
    units: u32,
    /// Units on their way: the store may have charged them already, or may not have refunded them yet.
    under_way: u32,
    /// The instant at which units were last taken or arrived.
    used_at: Instant,
}

/// Units of a bucket that are charged ahead, or returned.
#[derive(Debug)]
pub(super) struct LeasedUnits {
    bucket: Arc<OwnedMember>,
    units: u32,
}

impl Pool {
    /// Decides a batch from the units that are held for its members. Returns false, without any change, if they do not suffice.
    pub(super) fn decide(&self, batch: &Batch<'_>, answers: &mut [Answer]) -> bool {
        if !is_leased(batch) {
            return false;
        }
        let mut pool = self.0.lock();
        let suffices = |member: &Member<'_>| {
            let held = pool.get(&member.print.bucket);
            held.is_some_and(|held| held.is_for(member) && held.units >= member.ask.cost.max(1))
        };
        if !batch.members.iter().all(suffices) {
            return false;
        }
        for (member, answer) in zip(batch.members, answers) {
            if let Some(held) = pool.get_mut(&member.print.bucket) {
                *answer = held.take(batch, member);
            }
        }
        true
    }

    /// Begins to charge ahead for a member that the store decides, from the second request for its bucket on. Units that were
    /// charged by an earlier version of the limit stay charged.
    pub(super) fn begin(&self, member: &Member<'_>, split: &SplitLimit) -> Option<LeasedUnits> {
        let mut pool = self.0.lock();
        if let Some(held) = pool.get_mut(&member.print.bucket)
            && held.is_for(member)
        {
            return held.charge(member, split);
        }
        if pool.len() < BUCKETS {
            pool.insert(member.print.bucket, LeasedBucket::new(member, split));
        }
        None
    }

    /// Ends a charge or a return, unless the limit has changed since. Units that have arrived are held from now on.
    pub(super) fn end(&self, units: &LeasedUnits, have_come: bool) {
        let mut pool = self.0.lock();
        let held = pool.get_mut(&units.bucket.as_member().print.bucket);
        if let Some(held) = held.filter(|held| Arc::ptr_eq(&held.bucket, &units.bucket)) {
            held.under_way -= units.units;
            if have_come {
                held.units += units.units;
                held.used_at = Instant::now();
            }
        }
    }

    /// Takes the units that were not used for this time, of at most 256 buckets, to return them. Forgets buckets without units.
    pub(super) fn take_unused(&self, time: Duration) -> Vec<LeasedUnits> {
        let mut taken = Vec::new();
        self.0.lock().retain(|_, held| {
            if taken.len() == TOGETHER || held.used_at.elapsed() < time {
                return true;
            }
            let units = mem::take(&mut held.units);
            if units > 0 {
                taken.push(held.send(units));
            }
            held.under_way > 0
        });
        taken
    }
}

impl LeasedBucket {
    fn new(member: &Member<'_>, split: &SplitLimit) -> Self {
        let role = MemberRole {
            mode: Mode::CheckAndSpend,
            ..member.role
        };
        let bucket = OwnedMember::from(&Member {
            by: Some(&split.at_store),
            role,
            ..*member
        });
        Self {
            whole: member.algorithm().clone(),
            share: member.limit.lease(),
            bucket: Arc::new(bucket),
            units: 0,
            under_way: 0,
            used_at: Instant::now(),
        }
    }

    /// Returns whether the units were charged by the limit in force.
    fn is_for(&self, member: &Member<'_>) -> bool {
        self.whole == *member.algorithm() && self.share == member.limit.lease()
    }

    /// Takes the cost of a member. The caller has checked that there are enough units.
    fn take(&mut self, batch: &Batch<'_>, member: &Member<'_>) -> Answer {
        let left = self.units - member.ask.cost;
        let mut charge = Charge::default();
        if batch.writes(member) {
            self.units = left;
            charge.units = member.ask.cost;
        }
        self.used_at = Instant::now();
        Answer {
            passed: true,
            figures: Some(Figures {
                limit: self.whole.capacity(),
                remaining: left,
                more_after: Wait::UNKNOWN,
                reset_after: Wait::UNKNOWN,
                ..Figures::default()
            }),
            charge,
        }
    }

    /// Begins to charge as many units as there is room for, if requests like this one could be decided from them.
    fn charge(&mut self, member: &Member<'_>, split: &SplitLimit) -> Option<LeasedUnits> {
        let room = split.units - self.units - self.under_way;
        let helps = member.mode().spends() && (1..=split.units).contains(&member.ask.cost);
        (room > 0 && helps).then(|| self.send(room))
    }

    fn send(&mut self, units: u32) -> LeasedUnits {
        self.under_way += units;
        LeasedUnits {
            bucket: Arc::clone(&self.bucket),
            units,
        }
    }
}

impl LeasedUnits {
    /// Returns a member that charges or refunds the units.
    pub(super) fn member(&self, operation: Operation) -> Member<'_> {
        let member = self.bucket.as_member();
        Member {
            ask: Ask::new(operation.verb(member.mode()), self.units),
            ..member
        }
    }
}

//! Calls that wait for their answers, and the groups of calls that can share a command.

use std::sync::Arc;

use tokio::{sync::oneshot, time::Instant};

use super::{
    error::{Failure, RedisError},
    protocol::{Call, Reply},
};
use crate::backend::breaker::Attempt;

/// The most buckets in a shared command. Twice as many would block the server for twice as long, and save little.
pub(super) const MOST_TOGETHER: usize = 128;

/// The size of a group that is sent while other commands are in flight, so that server and client work at the same time.
pub(super) const LARGE: usize = MOST_TOGETHER / 2;

/// A call that waits for its answer.
pub(super) struct WaitingCall {
    /// The caller shares it, and frees it. If the task of a link did, it would wait for the allocator at each call.
    pub(super) call: Arc<Call>,
    pub(super) slot: u16,
    /// Whether the server is importing the slot.
    pub(super) asking: bool,
    /// Whether calls that came later may have been sent before it.
    pub(super) is_overtaken: bool,
    pub(super) deadline: Instant,
    pub(super) attempt: Attempt,
    pub(super) reply: oneshot::Sender<Result<Reply, Failure>>,
}

impl WaitingCall {
    /// Hands out the answer. An answer after the deadline counts as a failure of the server, even if the caller has left.
    pub(super) fn answer(self, answer: Result<Reply, Failure>, now: Instant) {
        let is_answer = answer.as_ref().map_or_else(Failure::is_answer, |_| true);
        if is_answer && now < self.deadline {
            self.attempt.succeeded();
        } else {
            self.attempt.failed();
        }
        drop(self.call);
        let _caller_has_left = self.reply.send(answer);
    }
}

/// Groups the calls that can share a command. Overtaken calls come first. Equal calls become neighbours, because the script
/// decides them faster.
///
/// If each call is about one bucket, calls are sorted by bucket: those about the same one keep their order, and the others do not
/// depend on each other. A call about several buckets prevents the sorting. Calls whose callers have left, or whose deadline is
/// over, are not sent.
pub(super) fn together(calls: Vec<WaitingCall>) -> Vec<Vec<WaitingCall>> {
    let now = Instant::now();
    let (late, mut calls): (Vec<_>, _) = calls.into_iter().partition(|call| now >= call.deadline);
    answer_all(late, &Failure::NotDone(RedisError::Timeout));
    calls.retain(|call| !call.reply.is_closed());
    let are_single = calls.iter().all(|call| call.call.bucket.is_some());
    let bucket = |call: &WaitingCall| call.call.bucket.filter(|_| are_single);
    calls.sort_by_cached_key(|call| {
        let is_new = !call.is_overtaken;
        (call.slot, call.call.now, is_new, bucket(call))
    });
    let mut groups = Vec::<Vec<WaitingCall>>::new();
    let mut weight = 0;
    for call in calls {
        weight += call.call.weight;
        let joins = |group: &&mut Vec<WaitingCall>| {
            let is_alike =
                |first: &WaitingCall| (first.slot, first.call.now) == (call.slot, call.call.now);
            let are_asking = call.asking || group[0].asking;
            weight <= MOST_TOGETHER && is_alike(&group[0]) && !are_asking
        };
        match groups.last_mut().filter(joins) {
            Some(group) => group.push(call),
            None => {
                weight = call.call.weight;
                groups.push(vec![call]);
            }
        }
    }
    groups
}

pub(super) fn weight(calls: &[WaitingCall]) -> usize {
    calls.iter().map(|call| call.call.weight).sum()
}

pub(super) fn answer_all(calls: impl IntoIterator<Item = WaitingCall>, failure: &Failure) {
    let now = Instant::now();
    for call in calls {
        call.answer(Err(failure.clone()), now);
    }
}

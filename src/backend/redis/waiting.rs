//! Calls that wait for their answers, and which of them can travel together.

use tokio::{sync::oneshot, time::Instant};

use super::{
    error::{Failure, RedisError},
    protocol::{Call, Reply},
};
use crate::backend::breaker::Attempt;

/// The most buckets in a shared command. Twice as many would save little more, and block the server for twice as long.
pub(super) const MOST_TOGETHER: usize = 128;

/// As many buckets leave while other commands are in flight, so that server and client work at the same time.
pub(super) const LARGE: usize = MOST_TOGETHER / 2;

/// A call that waits for its answer.
pub(super) struct WaitingCall {
    pub(super) call: Box<Call>,
    pub(super) slot: u16,
    /// Whether the server is importing the slot.
    pub(super) asking: bool,
    /// Whether calls that came later may have left before it.
    pub(super) is_overtaken: bool,
    pub(super) deadline: Instant,
    pub(super) attempt: Attempt,
    pub(super) reply: oneshot::Sender<Result<Reply, Failure>>,
}

impl WaitingCall {
    /// Hands out the answer. One that comes after the deadline is a failure, even if the caller has left.
    pub(super) fn answer(self, answer: Result<Reply, Failure>, now: Instant) {
        let is_answer = answer.as_ref().map_or_else(Failure::is_answer, |_| true);
        if is_answer && now < self.deadline {
            self.attempt.succeeded();
        } else {
            self.attempt.failed();
        }
        let _caller_has_left = self.reply.send(answer);
    }
}

/// Groups the calls that can share a command. Overtaken calls come first. Equal calls become neighbours, because the script
/// decides them faster.
///
/// Calls about one bucket stay in their order, and others do not depend on each other, unless one is about several buckets. Calls
/// whose callers have left, or whose time is over, are not sent.
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

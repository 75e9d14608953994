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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        backend::{breaker::Breaker, redis::KeyForm},
        clock::Timestamp,
    };

    type Caller = oneshot::Receiver<Result<Reply, Failure>>;

    /// A call about a bucket, or about several ones, and its caller.
    fn call(bucket: Option<u64>) -> (WaitingCall, Caller) {
        let mut call = Call::probe(&KeyForm::default());
        call.bucket = bucket;
        let (reply, caller) = oneshot::channel();
        let waiting = WaitingCall {
            call: Arc::new(call),
            slot: 0,
            asking: false,
            is_overtaken: false,
            deadline: Instant::now() + Duration::from_secs(3600),
            attempt: Breaker::default().attempt().unwrap(),
            reply,
        };
        (waiting, caller)
    }

    fn calls<const N: usize>(buckets: [Option<u64>; N]) -> ([WaitingCall; N], Vec<Caller>) {
        let mut callers = Vec::new();
        let calls = buckets.map(|bucket| {
            let (call, caller) = call(bucket);
            callers.push(caller);
            call
        });
        (calls, callers)
    }

    fn set_weight(call: &mut WaitingCall, weight: usize) {
        Arc::get_mut(&mut call.call).unwrap().weight = weight;
    }

    /// The bucket of each call in each group.
    fn grouped(calls: impl Into<Vec<WaitingCall>>) -> Vec<Vec<Option<u64>>> {
        let groups = together(calls.into()).into_iter();
        let buckets = |calls: Vec<WaitingCall>| calls.iter().map(|call| call.call.bucket).collect();
        groups.map(buckets).collect()
    }

    #[test]
    fn calls_about_one_bucket_become_neighbours_in_their_order() {
        let (mut calls, _callers) = calls([2, 1, 2].map(Some));
        set_weight(&mut calls[2], 5);
        let groups = together(calls.into());
        let found = groups[0]
            .iter()
            .map(|call| (call.call.bucket, call.call.weight));
        let found: Vec<_> = found.collect();
        assert_eq!(found, [(Some(1), 1), (Some(2), 1), (Some(2), 5)]);
    }

    #[test]
    fn call_about_several_buckets_prevents_sorting() {
        let (calls, _callers) = calls([Some(2), None, Some(1)]);
        assert_eq!(grouped(calls), [[Some(2), None, Some(1)]]);
    }

    #[test]
    fn overtaken_calls_are_first() {
        let (mut calls, _callers) = calls([1, 2, 3].map(Some));
        calls[2].is_overtaken = true;
        assert_eq!(grouped(calls), [[3, 1, 2].map(Some)]);
    }

    #[test]
    fn calls_to_an_importing_server_are_alone() {
        let (mut calls, _callers) = calls([1, 2, 3].map(Some));
        calls[1].asking = true;
        assert_eq!(grouped(calls), [1, 2, 3].map(|bucket| [Some(bucket)]));
    }

    #[test]
    fn calls_of_other_slots_or_times_are_in_other_groups() {
        let (mut calls, _callers) = calls([1, 2, 3, 4, 5].map(Some));
        calls[0].slot = 7;
        calls[1].slot = 7;
        Arc::get_mut(&mut calls[3].call).unwrap().now = Some(Timestamp::from_micros(1));
        let groups = grouped(calls);
        assert_eq!(
            groups,
            [
                vec![Some(3), Some(5)],
                vec![Some(4)],
                vec![Some(1), Some(2)]
            ]
        );
    }

    #[test]
    fn group_has_at_most_the_buckets_of_one_command() {
        let (mut calls, _callers) = calls([1, 2, 3, 4].map(Some));
        for call in &mut calls[..2] {
            set_weight(call, MOST_TOGETHER / 2);
        }
        assert_eq!(grouped(calls), [[1, 2].map(Some), [3, 4].map(Some)]);
    }

    #[test]
    fn calls_that_are_late_or_have_no_caller_are_not_sent() {
        let (mut late, mut caller) = call(Some(1));
        late.deadline = Instant::now();
        let (left, _) = call(Some(2));
        assert!(together(vec![late, left]).is_empty());
        let answer = caller.try_recv().unwrap();
        assert!(matches!(answer, Err(Failure::NotDone(RedisError::Timeout))));
    }

    #[test]
    fn answers_at_the_deadline_are_failures_of_the_server() {
        /// Answers one call after another at their deadline, or earlier, and returns whether that has opened the breaker.
        fn open_the_breaker(early: Duration) -> bool {
            let breaker = Breaker::default();
            for _ in 0..10 {
                let Some(attempt) = breaker.attempt() else {
                    break;
                };
                let (mut call, _caller) = call(Some(1));
                call.attempt = attempt;
                let now = call.deadline - early;
                // The server has answered, though with a denial.
                call.answer(Err(Failure::NoRoom(0)), now);
            }
            breaker.is_open()
        }

        assert!(open_the_breaker(Duration::ZERO));
        assert!(!open_the_breaker(Duration::from_micros(1)));
    }
}

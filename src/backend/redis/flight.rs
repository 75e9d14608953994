//! Calls that a task of the link sends together, and whose answers it hands out.

use std::mem::take;

use super::{
    deadline::Deadline,
    error::Failure,
    group::{Answers, Group},
    lanes::{Reply, WaitingCall},
};

/// Calls on their way. If their task is dropped before it was polled, because its runtime has ended, nothing was sent,
/// and each caller sends its own call. If it is dropped later, the callers do not learn the outcome.
pub(super) struct Flight {
    calls: Vec<WaitingCall>,
    has_departed: bool,
}

impl Flight {
    pub(super) fn new(calls: Vec<WaitingCall>) -> Self {
        Self {
            calls,
            has_departed: false,
        }
    }

    /// Leaves out the calls whose callers have left by now. Returns the latest deadline of the others, if there are any.
    pub(super) fn depart(&mut self) -> Option<Deadline> {
        self.has_departed = true;
        self.calls.retain(|call| !call.reply.is_closed());
        self.calls.iter().map(|call| call.deadline).max()
    }

    pub(super) fn group(&self) -> Group<'_> {
        Group::new(self.calls.iter().map(|waiting| &waiting.call))
    }

    /// Hands out the answers. A caller that has left by now stays charged.
    pub(super) fn answer(mut self, answers: Result<Answers, Failure>) {
        let calls = take(&mut self.calls);
        let is_shared = calls.len() > 1;
        let mut answers = answers.map(Answers::into_iter);
        for WaitingCall { call, reply, .. } in calls {
            let answer = match &mut answers {
                Ok(answers) => answers.next().map(Reply::Answer),
                Err(failure) if is_shared && failure.is_of_the_keys() => {
                    Some(Reply::Alone(call.into()))
                }
                Err(failure) => Some(Reply::Answer(Err(failure.clone()))),
            };
            if let Some(answer) = answer {
                let _ = reply.send(answer);
            }
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if self.has_departed {
            return;
        }
        for WaitingCall { call, reply, .. } in take(&mut self.calls) {
            let _ = reply.send(Reply::Alone(call.into()));
        }
    }
}

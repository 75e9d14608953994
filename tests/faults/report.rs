//! The results of a run, and the properties that must hold after each run.

use std::{collections::BTreeMap, time::Instant};

use crate::{
    load::{Call, id_of},
    redis_support::Server,
    stack::{Answer, BURST, Stack, charged},
};

/// All calls of a run.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) stack: Stack,
    pub(crate) calls: Vec<Call>,
}

/// The results of an id of a limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    /// The units that the store has certainly admitted before a given time.
    pub(crate) seen: u32,
    /// The units that were admitted without the store before that time, because the machine was slow.
    pub(crate) early: u32,
    pub(crate) admitted: u32,
    pub(crate) denied: u32,
    pub(crate) without: u32,
    /// The calls that were given up at the deadline. The store may have charged them, which is not known.
    pub(crate) unsure: u32,
}

impl Report {
    /// Returns the number of calls that the store has not decided, according to their answers.
    pub(crate) fn without(&self) -> usize {
        let calls = self.calls.iter();
        calls.filter(|call| call.answer == Answer::Without).count()
    }

    /// No id was admitted more than `at_most` says, given what it was admitted before `known`. What a slow machine has
    /// admitted locally before that comes on top: it is of an outage of its own.
    #[track_caller]
    pub(crate) fn assert_admitted(&self, known: Instant, at_most: impl Fn(&str, &Sum) -> u32) {
        for ((limit, id), sum) in self.sums(known) {
            let allowed = at_most(limit, &sum) + sum.early;
            let admitted = sum.admitted;
            assert!(admitted <= allowed, "{limit} {id}: {sum:?} > {allowed}");
        }
    }

    /// No client of `local` was denied before it had spent all of its limit. A call that was given up at the deadline may have been
    /// counted twice: by the store, and by the process.
    #[track_caller]
    pub(crate) fn assert_none_denied_wrongly(&self) {
        for ((limit, id), sum) in self.sums(Instant::now()) {
            let all = sum.denied == 0 || sum.admitted + sum.unsure >= BURST;
            assert!(all || limit != "local", "{limit} {id}: {sum:?}");
        }
    }

    /// Each bucket of `refuse` was charged once for each call that was admitted, and at most once for each that was
    /// not answered. (By `local`, those are decided, and not seen here.)
    #[track_caller]
    pub(crate) fn assert_charged_once(&self, server: &Server) {
        for ((limit, id), sum) in self.sums(Instant::now()) {
            if limit == "refuse" {
                let charged = charged(server, limit, &id_of(id));
                let range = sum.admitted..=(sum.admitted + sum.without).min(BURST);
                assert!(range.contains(&charged), "{id}: {charged} for {sum:?}");
            }
        }
    }

    /// The calls of `local` and `refuse`, summed up.
    fn sums(&self, known: Instant) -> BTreeMap<(&'static str, usize), Sum> {
        let mut sums = BTreeMap::<_, Sum>::new();
        for call in self.calls.iter().filter(|call| call.limit != "allow") {
            let sum = sums.entry((call.limit, call.id)).or_default();
            let is_given_up = call.answer != Answer::Allowed && call.took >= self.stack.deadline;
            sum.unsure += u32::from(is_given_up);
            match call.answer {
                Answer::Allowed => {
                    sum.admitted += 1;
                    sum.seen += u32::from(call.begun + call.took <= known);
                }
                Answer::AllowedLocally => {
                    sum.admitted += 1;
                    sum.early += u32::from(call.begun < known);
                }
                Answer::Denied => sum.denied += 1,
                Answer::Without => sum.without += 1,
            }
        }
        sums
    }
}

/// A store that has failed and lost nothing: all may be spent once more locally.
pub(crate) fn away(limit: &str, _: &Sum) -> u32 {
    match limit {
        "local" => 2 * BURST,
        _ => BURST,
    }
}

/// The bound for a store that was down and has lost its data: clients can spend their whole limit once more.
pub(crate) fn lost(limit: &str, sum: &Sum) -> u32 {
    away(limit, sum) + BURST
}

/// The bound for a store that was down and has lost the units that were not `seen`.
pub(crate) fn failed_over(limit: &str, sum: &Sum) -> u32 {
    lost(limit, sum) - sum.seen.min(BURST)
}

//! Runs the suite on the backends that need no server, and on mistaken ones, whose mistakes it must find.

use std::{future::Future, panic::AssertUnwindSafe};

use super::{MapBackend, cases, driver::Driver, history};
use crate::{
    MemoryBackend,
    backend::{Backend, BackendError, DenyCache, async_trait},
    batch::Batch,
    clock::Timestamp,
    decision::Outcome,
    transaction::Operation,
};

crate::testing::conformance!(memory, MemoryBackend::new());
crate::testing::conformance!(map, MapBackend::default());
crate::testing::conformance!(deny_cache, DenyCache::new(MapBackend::default()), without: [figures]);

/// A mistake of a backend.
#[derive(Clone, Copy, Debug)]
enum Mistake {
    Order,
    Clock,
    Check,
    Halves,
    Reset,
    Coarse,
}

#[derive(Debug)]
struct WrongBackend(MapBackend, Mistake);

#[async_trait]
impl Backend for WrongBackend {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let Self(map, mistake) = self;
        let with = |operation| Batch::new(operation, batch.members).at(batch.now);
        match (mistake, batch.operation) {
            (Mistake::Order, _) => {
                let mut outcome = map.apply(batch).await?;
                outcome.answers.reverse();
                Ok(outcome)
            }
            (Mistake::Clock, _) => map.apply(&batch.at(None)).await,
            (Mistake::Check, Operation::Check) => map.apply(&with(Operation::Spend)).await,
            (Mistake::Reset, Operation::Reset) => map.apply(&with(Operation::Peek)).await,
            (Mistake::Halves, _) => {
                let mut answers = Vec::new();
                for member in batch.members.chunks(1) {
                    let one = Batch::new(batch.operation, member).at(batch.now);
                    answers.extend(map.apply(&one).await?.answers);
                }
                Ok(Outcome::new(answers))
            }
            (Mistake::Coarse, _) => {
                let whole = |now: Timestamp| Timestamp::from_micros(now.as_micros() / 1000 * 1000);
                map.apply(&batch.at(batch.now.map(whole))).await
            }
            _ => map.apply(batch).await,
        }
    }
}

/// Returns whether a case fails on a backend with a mistake.
fn finds<F: Future<Output = ()>>(mistake: Mistake, case: impl FnOnce(Driver) -> F) -> bool {
    let driver = Driver::new(WrongBackend(MapBackend::default(), mistake));
    let run = AssertUnwindSafe(|| super::block_on(case(driver)));
    std::panic::catch_unwind(run).is_err()
}

#[test]
fn each_mistake_is_found_by_its_case_and_by_a_history() {
    assert!(finds(
        Mistake::Order,
        cases::answers_are_in_the_order_of_the_members
    ));
    assert!(finds(
        Mistake::Clock,
        cases::equality_passes_and_a_microsecond_less_does_not
    ));
    assert!(finds(Mistake::Check, cases::check_changes_nothing));
    assert!(finds(Mistake::Halves, cases::denied_batch_changes_nothing));
    assert!(finds(Mistake::Reset, cases::reset_makes_as_new));
    assert!(finds(
        Mistake::Coarse,
        cases::equality_passes_and_a_microsecond_less_does_not
    ));
    for mistake in [
        Mistake::Order,
        Mistake::Clock,
        Mistake::Check,
        Mistake::Halves,
        Mistake::Reset,
        Mistake::Coarse,
    ] {
        assert!(
            finds(
                mistake,
                history::random_batches_are_decided_as_by_the_models
            ),
            "{mistake:?}"
        );
    }
}

#[test]
fn report_names_the_rule_and_the_operations_before() {
    let driver = Driver::new(WrongBackend(MapBackend::default(), Mistake::Check));
    let report = driver.report("check_changes_nothing");
    let case = cases::check_changes_nothing(driver);
    let run = AssertUnwindSafe(|| super::block_on(case));
    assert!(std::panic::catch_unwind(run).is_err());
    let report = report.to_string();
    let mut lines = report.lines();
    assert_eq!(
        lines.next(),
        Some("the backend breaks the rule \"check changes nothing\"")
    );
    let last = lines.last().unwrap();
    assert!(last.starts_with("- Check at "), "{last}");
    let answer = "-1, cost 10, CheckAndSpend: did not pass, 0 left";
    assert!(last.ends_with(answer), "{last}");
}

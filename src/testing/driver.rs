//! Asks a backend, and decides the same batches by the models.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::model::Model;
use crate::{
    algorithm::{Charge, Figures, Wait, quota::Per, tiers::Tier},
    backend::{Backend, BackendError},
    clock::Timestamp,
    decision::Answer,
    id::IdFormat,
    limit::{Limit, LimitName, Limits, NamedLimit},
    transaction::{Batch, Member, Mode, Operation},
};

/// The first instant of 2026.
pub const START: u64 = 1_767_225_600_000_000;
/// A second, in microseconds.
pub const SECOND: u64 = 1_000_000;

/// The places of the limits.
pub const GCRA: usize = 0;
/// Its interval is not a whole number of microseconds.
pub const SEVENTHS: usize = 1;
/// Requests wait in line.
pub const LINE: usize = 2;
pub const WINDOW: usize = 3;
pub const QUOTA: usize = 4;
pub const PERMITS: usize = 5;
pub const TIERS: usize = 6;
pub const HOURLY: usize = 7;
pub const ALL: [usize; 8] = [GCRA, SEVENTHS, LINE, WINDOW, QUOTA, PERMITS, TIERS, HOURLY];

/// A member of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    pub limit: usize,
    pub id: u64,
    pub cost: u32,
    pub mode: Mode,
    pub(crate) charge: Option<Charge>,
}

impl Question {
    #[must_use]
    pub fn new(limit: usize, id: u64, cost: u32) -> Self {
        Self {
            limit,
            id,
            cost,
            mode: Mode::CheckAndSpend,
            charge: None,
        }
    }

    #[must_use]
    pub fn mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    #[must_use]
    pub fn of(self, answer: &Answer) -> Self {
        Self {
            charge: Some(answer.charge),
            ..self
        }
    }
}

/// A backend with buckets that no other test uses.
#[derive(Clone)]
pub struct Driver {
    backend: Arc<dyn Backend>,
    run: Arc<str>,
    limits: Arc<Limits>,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Driver").field(&self.backend).finish()
    }
}

impl Driver {
    /// # Panics
    ///
    /// If a limit is wrong, which none is.
    pub fn new(backend: impl Backend) -> Self {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let time = SystemTime::now().duration_since(UNIX_EPOCH);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let burst = Tier::new(6, Duration::from_secs(5))
            .active(Duration::from_secs(5))
            .cooldown(Duration::from_secs(15));
        let lowest = Tier::new(4, Duration::from_secs(1)).active(Duration::from_secs(1));
        let limits = [
            Limit::per_second(5).burst(10),
            Limit::per(7, Duration::from_secs(1)).burst(10),
            Limit::per_second(5)
                .burst(10)
                .max_wait(Duration::from_secs(1)),
            Limit::window(10, Duration::from_secs(2)),
            Limit::quota(10, Per::first_use(Duration::from_secs(3))),
            Limit::concurrent(10).hold(Duration::from_secs(4)),
            Limit::tiers([lowest, burst]).expect("the tiers are right"),
            Limit::quota(10, Per::Hour),
        ];
        let mut builder = Limits::builder();
        for (number, limit) in (1..).zip(limits) {
            let name = LimitName::new(&format!("n{number}"), number, IdFormat::Opaque);
            builder = builder.limit(name, limit);
        }
        let limits = builder.build().expect("the limits are right");
        Self {
            backend: Arc::new(backend),
            run: format!(
                "{}-{}-{run}",
                std::process::id(),
                time.map_or(0, |time| time.as_nanos())
            )
            .into(),
            limits: Arc::new(limits),
        }
    }

    /// Asks the backend at an instant, or by its own clock.
    ///
    /// # Errors
    ///
    /// If the backend does not decide.
    pub async fn ask(
        &self,
        now: impl Into<Option<u64>>,
        operation: Operation,
        questions: &[Question],
    ) -> Result<Vec<Answer>, BackendError> {
        let ids = questions.iter().map(|question| self.id(question.id));
        let ids: Vec<_> = ids.collect();
        let members = questions.iter().zip(&ids);
        let members: Vec<_> = members
            .map(|(question, id)| self.member(operation, question, id))
            .collect();
        self.batch(now.into(), operation, &members).await
    }

    /// Asks by `try_apply` or by `apply`, which must not differ.
    pub(super) async fn batch(
        &self,
        now: Option<u64>,
        operation: Operation,
        members: &[Member<'_>],
    ) -> Result<Vec<Answer>, BackendError> {
        let batch = Batch::new(operation, members).at(now.map(Timestamp::from_micros));
        if now.is_some_and(|now| now % 2 == 0) {
            let mut answers = vec![Answer::default(); members.len()];
            if let Some(decided) = self.backend.try_apply(&batch, &mut answers) {
                return decided.map(|_| answers);
            }
        }
        let outcome = self.backend.apply(&batch).await?;
        assert_eq!(
            outcome.answers.len(),
            members.len(),
            "one answer for each member"
        );
        Ok(outcome.answers.to_vec())
    }

    /// Spends, and returns whether all voting members pass.
    ///
    /// # Panics
    ///
    /// If the backend does not decide.
    pub async fn spends(&self, now: impl Into<Option<u64>>, questions: &[Question]) -> bool {
        let answers = self.ask(now, Operation::Spend, questions).await;
        let answers = answers.expect("the batch is decided");
        let mut each = questions.iter().zip(answers);
        each.all(|(question, answer)| answer.passed || !question.mode.votes())
    }

    pub(super) fn id(&self, id: u64) -> String {
        format!("{}-{id}", self.run)
    }

    pub(super) fn member<'a>(
        &'a self,
        operation: Operation,
        question: &'a Question,
        id: &'a str,
    ) -> Member<'a> {
        let limit = self.limit(question.limit);
        let mut member = Member::new(limit, id, question.cost, question.mode);
        member.ask.verb = operation.verb(question.mode);
        member.ask.charge = question.charge;
        member
    }

    pub(super) fn limit(&self, place: usize) -> &NamedLimit {
        self.limits.iter().nth(place).expect("a known place")
    }
}

/// All buckets, as models.
#[derive(Debug, Default)]
pub(super) struct Models(HashMap<(usize, u64), Model>);

impl Models {
    /// Decides a batch. The answers of limits without a model are those of the backend, as are all charges.
    pub(super) fn decide(
        &mut self,
        driver: &Driver,
        now: u64,
        operation: Operation,
        questions: &[Question],
        answers: &[Answer],
    ) -> Vec<Answer> {
        if operation == Operation::Renew && questions.len() > 1 {
            let each = questions.chunks(1).zip(answers.chunks(1));
            return each
                .flat_map(|(question, answer)| {
                    self.decide(driver, now, operation, question, answer)
                })
                .collect();
        }
        let votes = |question: &Question| {
            matches!(operation, Operation::Check | Operation::Spend) && question.mode.votes()
        };
        let judged = questions.iter().zip(answers).map(|(question, answer)| {
            let bucket = self.bucket(driver, question);
            let ask = driver.member(operation, question, "").ask;
            bucket.map_or(answer.passed, |mut bucket| bucket.ask(&ask, now))
        });
        let judged: Vec<_> = judged.collect();
        let passes = questions
            .iter()
            .zip(&judged)
            .all(|(question, passes)| *passes || !votes(question));
        let mut expected = answers.to_vec();
        for ((question, judged), expected) in questions.iter().zip(judged).zip(&mut expected) {
            let Some(mut bucket) = self.bucket(driver, question) else {
                continue;
            };
            if operation == Operation::Reset {
                self.0.remove(&(question.limit, question.id));
                continue;
            }
            let member = driver.member(operation, question, "");
            let applies = judged && passes;
            if applies {
                bucket.ask(&member.ask, now);
            }
            let figures = bucket.figures(&member.ask, now);
            let delay = if applies { figures.delay } else { Wait::ZERO };
            expected.passed = judged && (passes || votes(question));
            expected.figures = Some(Figures { delay, ..figures });
            if applies && operation != Operation::Check && question.mode.spends() {
                self.0.insert((question.limit, question.id), bucket);
            }
        }
        expected
    }

    fn bucket(&self, driver: &Driver, question: &Question) -> Option<Model> {
        let known = self.0.get(&(question.limit, question.id));
        known
            .cloned()
            .or_else(|| Model::new(driver.member(Operation::Spend, question, "").algorithm()))
    }
}

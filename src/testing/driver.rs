//! Asks a backend, and decides the same batches with models of the algorithms.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;

use super::model::Model;
pub use super::model::START;
use crate::{
    algorithm::{
        Algorithm, AlgorithmKey, Ask, Charge, Figures, Verb, Wait, block::Block, quota::Per,
        tiers::Tier,
    },
    backend::{Backend, BackendError},
    batch::{Batch, Member, MemberRole},
    clock::Timestamp,
    decision::Answer,
    id::{IdFormat, client_hash},
    limit::{Limit, LimitName, Limits},
    transaction::{Mode, Operation},
};

/// A second, in microseconds.
pub const SECOND: u64 = 1_000_000;

/// The indexes of the limits, the first of which is a plain token bucket.
pub const GCRA: usize = 0;
/// A token bucket whose interval is not a whole number of microseconds.
pub const SEVENTHS: usize = 1;
/// A token bucket with a line.
pub const LINE: usize = 2;
pub const WINDOW: usize = 3;
pub const QUOTA: usize = 4;
pub const PERMITS: usize = 5;
pub const TIERS: usize = 6;
pub const HOURLY: usize = 7;
/// A list of blocked clients, which a debit blocks for a second per unit.
pub const BLOCK: usize = 8;
pub const ALL: [usize; 9] = [
    GCRA, SEVENTHS, LINE, WINDOW, QUOTA, PERMITS, TIERS, HOURLY, BLOCK,
];

/// The index of the first version of one more limit, whose values and algorithm change from one batch to the next.
pub const VERSIONS: usize = ALL.len();

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

/// A backend, with buckets that no other test uses.
#[derive(Clone)]
pub struct Driver {
    backend: Arc<dyn Backend>,
    run: Arc<str>,
    names: Arc<Limits>,
    /// The limits by their index, and the versions of the last one.
    limits: Arc<[Limit]>,
    operations: Arc<Mutex<VecDeque<String>>>,
}

/// Says which rule a backend has broken when its test panics, and which operations came before.
#[derive(Debug)]
pub struct Report {
    case: &'static str,
    operations: Arc<Mutex<VecDeque<String>>>,
}

impl Drop for Report {
    fn drop(&mut self) {
        if thread::panicking() {
            eprint!("{self}");
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = self.case.replace('_', " ");
        writeln!(f, "the backend breaks the rule \"{rule}\"")?;
        writeln!(
            f,
            "its latest operations, by microseconds since the Unix epoch:"
        )?;
        for operation in &*self.operations.lock() {
            writeln!(f, "- {operation}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Driver").field(&self.backend).finish()
    }
}

impl Driver {
    /// # Panics
    ///
    /// If one of the fixed limits is not valid, which does not happen.
    pub fn new(backend: impl Backend) -> Self {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let time = SystemTime::now().duration_since(UNIX_EPOCH);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let mut names = Limits::builder();
        for index in 0..=VERSIONS {
            let number = number(index);
            let name = LimitName::new(&format!("n{number}"), number, IdFormat::Opaque);
            names = names.limit(name, Limit::UNLIMITED);
        }
        Self {
            backend: Arc::new(backend),
            run: format!(
                "{}-{}-{run}",
                std::process::id(),
                time.map_or(0, |time| time.as_nanos())
            )
            .into(),
            names: Arc::new(names.build().expect("the names are right")),
            limits: fixed_limits().into(),
            operations: Arc::default(),
        }
    }

    /// Reports on a case until the report is dropped.
    #[must_use]
    pub fn report(&self, case: &'static str) -> Report {
        Report {
            case,
            operations: Arc::clone(&self.operations),
        }
    }

    /// Adds the versions of one more limit.
    #[must_use]
    pub fn versions(self, versions: impl IntoIterator<Item = Limit>) -> Self {
        let limits = self.limits.iter().cloned().chain(versions);
        Self {
            limits: limits.collect(),
            ..self
        }
    }

    /// Asks another backend for the same buckets.
    pub(super) fn on(&self, backend: impl Backend) -> Self {
        Self {
            backend: Arc::new(backend),
            operations: Arc::default(),
            ..self.clone()
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

    /// Asks, and keeps the operation for a [`Report`].
    pub(super) async fn batch(
        &self,
        now: Option<u64>,
        operation: Operation,
        members: &[Member<'_>],
    ) -> Result<Vec<Answer>, BackendError> {
        let answers = self.apply(now, operation, members).await;
        let mut operations = self.operations.lock();
        if operations.len() == OPERATIONS {
            operations.pop_front();
        }
        operations.push_back(summary(now, operation, members, &answers));
        answers
    }

    /// Asks with `try_apply` or with `apply`, whose answers must be equal.
    async fn apply(
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

    /// Returns the number of the limit, the algorithm, and the id. Versions of a limit with the same algorithm share a bucket.
    pub(super) fn bucket(&self, question: &Question) -> (u32, AlgorithmKey, u64) {
        let number = number(question.limit.min(VERSIONS));
        (number, self.algorithm(question.limit).key(), question.id)
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
        let (number, ..) = self.bucket(question);
        let name = self.names.at(number - 1);
        let ask = Ask {
            waits: true,
            ..Ask::new(Verb::Peek, question.cost)
        };
        let role = MemberRole {
            mode: question.mode,
            ..MemberRole::default()
        };
        let client = (id, client_hash(id));
        let limit = Some(self.limit(question.limit));
        let mut member = Member::prepared(operation, name, client, limit, ask, role);
        member.name_permits();
        member.ask.charge = question.charge.or(member.ask.charge);
        member
    }

    pub(super) fn limit(&self, index: usize) -> &Limit {
        &self.limits[index]
    }

    pub(super) fn algorithm(&self, index: usize) -> &Algorithm {
        let algorithm = self.limits[index].algorithm();
        algorithm.expect("no client is blocked or unlimited")
    }
}

/// The operations that a report shows.
const OPERATIONS: usize = 16;

/// Writes `Spend at 1000000: 1:alice, cost 3, CheckAndSpend: passed, 7 left`.
fn summary(
    now: Option<u64>,
    operation: Operation,
    members: &[Member<'_>],
    answers: &Result<Vec<Answer>, BackendError>,
) -> String {
    let now = now.map_or_else(|| "the backend's own time".into(), |now| now.to_string());
    let answers = match answers {
        Ok(answers) => answers,
        Err(error) => return format!("{operation:?} at {now}: {error}"),
    };
    let members = members.iter().zip(answers).map(|(member, answer)| {
        let passed = if answer.passed {
            "passed"
        } else {
            "did not pass"
        };
        let left = answer
            .figures
            .map(|figures| format!(", {} left", figures.remaining));
        format!(
            "{}, cost {}, {:?}: {passed}{}",
            member.key(),
            member.ask.cost,
            member.mode(),
            left.unwrap_or_default()
        )
    });
    let members: Vec<_> = members.collect();
    format!("{operation:?} at {now}: {}", members.join("; "))
}

/// Returns the number of the limit at an index.
fn number(index: usize) -> u32 {
    u32::try_from(index).expect("few limits") + 1
}

/// The limits by their index.
fn fixed_limits() -> [Limit; ALL.len()] {
    let burst = Tier::new(6, Duration::from_secs(5))
        .active(Duration::from_secs(5))
        .cooldown(Duration::from_secs(15));
    let lowest = Tier::new(4, Duration::from_secs(1)).active(Duration::from_secs(1));
    [
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
        Limit::of(Algorithm::Block(Block)),
    ]
}

/// The models of all buckets.
#[derive(Debug, Default)]
pub(super) struct Models(HashMap<(u32, AlgorithmKey, u64), Model>);

impl Models {
    /// Decides a batch. The answers for limits without a model, and all charges, are taken from the backend.
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
        for question in questions {
            let decides = matches!(operation.verb(question.mode), Verb::Spend | Verb::Debit);
            let bucket = self.0.get_mut(&driver.bucket(question));
            if let Some(bucket) = bucket.filter(|_| decides) {
                bucket.note(driver.algorithm(question.limit), now);
            }
        }
        let votes = |question: &Question| {
            matches!(operation, Operation::Check | Operation::Spend) && question.mode.votes()
        };
        let judged = questions.iter().zip(answers).map(|(question, answer)| {
            let bucket = self.bucket(driver, question);
            let member = driver.member(operation, question, "");
            bucket.map_or(answer.passed, |mut bucket| {
                bucket.ask(member.algorithm(), &member.ask, now)
            })
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
                self.0.remove(&driver.bucket(question));
                continue;
            }
            let member = driver.member(operation, question, "");
            let applies = judged && passes;
            if applies {
                bucket.ask(member.algorithm(), &member.ask, now);
            }
            let figures = bucket.figures(member.algorithm(), &member.ask, now);
            let delay = if applies { figures.delay } else { Wait::ZERO };
            expected.passed = judged && (passes || votes(question));
            expected.figures = Some(Figures { delay, ..figures });
            if applies && member.writes(operation) {
                // A full bucket is removed, so a clock that steps back does not bring it back.
                match figures.reset_after {
                    Wait::ZERO => self.0.remove(&driver.bucket(question)),
                    _ => self.0.insert(driver.bucket(question), bucket),
                };
            }
        }
        expected
    }

    fn bucket(&self, driver: &Driver, question: &Question) -> Option<Model> {
        let known = self.0.get(&driver.bucket(question));
        known
            .cloned()
            .or_else(|| Model::new(driver.member(Operation::Spend, question, "").algorithm()))
    }
}

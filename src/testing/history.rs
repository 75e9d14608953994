//! Runs random operations from a seed. The models and `MapBackend` decide them, too.

use super::{
    MapBackend,
    driver::{ALL, Driver, Models, Question, START},
    model::{DAY, HOUR},
    random::Random,
};
use crate::{
    algorithm::{AlgorithmKey, Charge},
    transaction::{Mode, Operation},
};

impl Random {
    /// Returns the instant of the next batch. Clocks also step back, and calendars begin new periods.
    fn instant(&mut self, now: u64) -> u64 {
        match self.below(400) {
            0..4 => now + HOUR / 3,
            4..8 => {
                let edge = *self.pick(&[HOUR, HOUR / 4]);
                (now / edge + 1) * edge - self.below(2)
            }
            8..10 => (now / DAY + 1) * DAY - self.below(2),
            10 => now + self.below(40) * DAY,
            // After such a pause, buckets are full, except for those of an hour or more.
            11..24 => now + 5_000_001,
            24..34 => now - self.below(700_000),
            _ => now + *self.pick(&[0, 0, 0, 1, 1, 999, 142_857, 200_000, 200_000, 700_000]),
        }
    }

    fn question(
        &mut self,
        driver: &Driver,
        operation: Operation,
        question: Question,
        charges: &[(Question, Charge)],
    ) -> Option<Question> {
        let algorithm = driver.algorithm(question.limit);
        let kind = algorithm.key();
        // Tiers reject a cost of 0.
        let least = u32::from(kind == AlgorithmKey::Tiers);
        let most = algorithm.capacity().div_ceil(6).max(12);
        let cost = u32::try_from(self.below(most.into()))
            .expect("it is small")
            .max(least);
        let question = Question { cost, ..question };
        let of = charges
            .iter()
            .rev()
            .filter(|(of, _)| driver.bucket(of) == driver.bucket(&question));
        let of: Vec<_> = of.take(4).collect();
        match operation {
            Operation::Refund | Operation::Renew if kind == AlgorithmKey::Tiers => None,
            Operation::Renew if kind != AlgorithmKey::Concurrency => None,
            Operation::Refund | Operation::Renew
                if kind == AlgorithmKey::Concurrency || self.below(2) == 0 =>
            {
                if of.is_empty() {
                    return None;
                }
                let (of, charge) = **self.pick(&of);
                Some(Question {
                    charge: Some(charge),
                    cost: charge.units.min(of.cost),
                    ..question
                })
            }
            Operation::Check | Operation::Spend => {
                let modes = [
                    Mode::CheckAndSpend,
                    Mode::CheckAndSpend,
                    Mode::CheckOnly,
                    Mode::SpendOnly,
                    Mode::Observe,
                    Mode::Debit,
                ];
                let some = if matches!(kind, AlgorithmKey::Concurrency | AlgorithmKey::Tiers) {
                    &modes[..5]
                } else {
                    &modes
                };
                let is_permit = kind == AlgorithmKey::Concurrency;
                let charge = is_permit.then(|| self.permits(cost, &of));
                let mode = *self.pick(some);
                Some(Question {
                    charge,
                    ..question.mode(mode)
                })
            }
            _ => Some(question),
        }
    }

    /// Returns the name of new permits, or of permits that were taken before, to repeat their question.
    fn permits(&mut self, units: u32, before: &[&(Question, Charge)]) -> Charge {
        if self.below(4) == 0 && !before.is_empty() {
            let (_, charge) = *self.pick(before);
            return *charge;
        }
        Charge {
            at: self.below(1 << 52),
            frac: 0,
            units,
        }
    }
}

/// Decides random batches of these limits from an instant on, and compares each answer.
///
/// # Panics
///
/// If an answer differs.
pub async fn live_through(driver: &Driver, start: u64, limits: &[usize], steps: u32, seed: u64) {
    let mut random = Random(seed);
    let mut models = Models::default();
    let map = driver.on(MapBackend::default());
    let mut now = start;
    let mut charges = Vec::new();
    for step in 0..steps {
        now = random.instant(now);
        let operation = *random.pick(&[
            Operation::Spend,
            Operation::Spend,
            Operation::Spend,
            Operation::Check,
            Operation::Refund,
            Operation::Renew,
            Operation::Peek,
            Operation::Reset,
        ]);
        if operation == Operation::Reset && random.below(4) > 0 {
            continue;
        }
        let mut batch: Vec<Question> = Vec::new();
        for _ in 0..=random.below(4) {
            // Each history has its own ids, so that several can run on one backend.
            let drawn = Question::new(*random.pick(limits), 2 * seed + random.below(2), 0);
            let question = random.question(driver, operation, drawn, &charges);
            let is_new = |new: &Question| {
                let mut all = batch.iter();
                all.all(|old| driver.bucket(old) != driver.bucket(new))
            };
            batch.extend(question.filter(is_new));
        }
        let answers = driver
            .ask(now, operation, &batch)
            .await
            .expect("it decides");
        let of_map = map.ask(now, operation, &batch).await.expect("it decides");
        let context = format!("step {step} of seed {seed} at {now}: {operation:?} {batch:?}");
        assert_eq!(answers, of_map, "{context}");
        let expected = models.decide(driver, now, operation, &batch, &answers);
        assert_eq!(answers, expected, "{context}");
        if operation == Operation::Spend || operation == Operation::Renew {
            let charged = batch
                .iter()
                .zip(&answers)
                .filter(|(_, answer)| answer.charge.units > 0);
            charges.extend(charged.map(|(question, answer)| (*question, answer.charge)));
        }
    }
}

pub async fn random_histories_of_each_algorithm_are_those_of_its_model(driver: Driver) {
    for limit in ALL {
        live_through(&driver, START, &[limit], 300, 7 + limit as u64).await;
    }
}

pub async fn random_batches_are_decided_as_by_the_models(driver: Driver) {
    live_through(&driver, START, &ALL, 1_000, 99).await;
}

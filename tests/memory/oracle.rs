//! Decisions of the whole engine on random histories, the same in each run, against the design's definitions in rationals:
//! by name and by handle, one by one and in batches, in every mode.

use std::collections::BTreeMap;

use tollgate::{
    Decision, Limit, Limiter, Limits, MemoryBackend, Transaction,
    clock::{ManualClock, Timestamp},
    gcra::Gcra,
    testing::cases::history::Random,
    transaction::{Algorithm, Mode},
};

use crate::support::scale::scaled;

const START: u64 = 1_767_225_600_000_000;
const NAMES: [&str; 4] = ["even", "thirds", "sevenths", "slow"];
const IDS: [&str; 3] = ["a", "b", "c"];

fn limit(name: &str) -> Limit {
    let micros = std::time::Duration::from_micros;
    let (burst, count, period) = match name {
        "even" => (20, 10, 1_000_000),
        "thirds" => (4, 3, 1_000_000),
        "sevenths" => (7, 7, 1_000_001),
        _ => (2, 1, 97_000_003),
    };
    Limit::new(burst, count, micros(period)).unwrap()
}

/// A bucket: its limit and its client.
type Key = (&'static str, &'static str);

/// One member of a batch.
#[derive(Clone, Copy, Debug)]
struct Asked {
    key: Key,
    cost: u32,
    mode: Mode,
}

/// What is expected of a decision.
#[derive(Debug, PartialEq)]
struct Figures {
    remaining: i128,
    reset_after: i128,
    next_after: i128,
}

/// Buckets by the definitions. Instants are in parts of a microsecond, as many as the limit's count.
#[derive(Default)]
struct Oracle {
    tats: BTreeMap<Key, i128>,
}

/// A limit, in numbers that do not overflow.
#[derive(Clone, Copy)]
struct Values {
    burst: i128,
    count: i128,
    period: i128,
}

impl Values {
    fn of(name: &str) -> Self {
        let limit = limit(name);
        let Some(Algorithm::Gcra(gcra)) = limit.algorithm() else {
            panic!("all of them are token buckets")
        };
        let gcra: &Gcra = gcra;
        Self {
            burst: gcra.burst().into(),
            count: gcra.count().into(),
            period: i128::try_from(gcra.period().as_micros()).unwrap(),
        }
    }
}

impl Oracle {
    fn tat(&self, key: Key, now: i128) -> i128 {
        self.tats.get(&key).copied().unwrap_or(now)
    }

    /// The TAT after a cost, and whether it fits.
    fn charged(&self, Asked { key, cost, .. }: Asked, now: u64) -> (i128, bool) {
        let Values {
            burst,
            count,
            period,
        } = Values::of(key.0);
        let now = i128::from(now) * count;
        let next = self.tat(key, now).max(now) + i128::from(cost) * period;
        (next, next <= now + burst * period)
    }

    /// What a bucket shows, as it is or with another TAT.
    fn figures(&self, Asked { key, cost, .. }: Asked, now: u64, tat: Option<i128>) -> Figures {
        let Values {
            burst,
            count,
            period,
        } = Values::of(key.0);
        let now = i128::from(now) * count;
        let tat = tat.unwrap_or_else(|| self.tat(key, now)).max(now);
        let ceil = |parts: i128| (parts.max(0) + count - 1) / count;
        Figures {
            remaining: (now + burst * period - tat).div_euclid(period).max(0),
            reset_after: ceil(tat - now),
            next_after: ceil(tat + i128::from(cost) * period - now - burst * period),
        }
    }

    /// Decides a batch: whether it passes, and what its members show.
    fn decide(&mut self, batch: &[Asked], now: u64, writes: bool) -> (bool, Vec<Figures>) {
        let votes = |asked: &Asked| matches!(asked.mode, Mode::CheckAndSpend | Mode::CheckOnly);
        let passes = |asked: Asked| asked.mode == Mode::Debit || self.charged(asked, now).1;
        let allowed = batch.iter().all(|asked| !votes(asked) || passes(*asked));
        let shown = batch.iter().map(|asked| {
            let tat = (allowed && passes(*asked)).then(|| self.charged(*asked, now).0);
            self.figures(*asked, now, tat)
        });
        let shown = shown.collect();
        if allowed && writes {
            let charged = batch.iter().filter(|asked| asked.mode != Mode::CheckOnly);
            let charged: Vec<_> = charged
                .filter(|asked| passes(**asked) && asked.cost > 0)
                .map(|asked| (asked.key, self.charged(*asked, now).0))
                .collect();
            self.tats.extend(charged);
        }
        (allowed, shown)
    }

    fn refund(&mut self, Asked { key, cost, .. }: Asked, now: u64) {
        let Values { count, period, .. } = Values::of(key.0);
        let now = i128::from(now) * count;
        let tat = self.tat(key, now);
        if tat > now {
            let left = tat - i128::from(cost) * period;
            self.tats.insert(key, left.max(now));
        }
    }
}

/// The engine and the oracle, side by side.
struct Run {
    limiter: Limiter,
    clock: ManualClock,
    oracle: Oracle,
    random: Random,
    now: u64,
    allowed: u32,
    denied: u32,
}

impl Run {
    fn new(seed: u64) -> Self {
        let limits = NAMES.iter().fold(Limits::builder(), |limits, name| {
            limits.limit(*name, limit(name))
        });
        let clock = ManualClock::new(Timestamp::from_micros(START));
        let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
        Self {
            limiter: limiter.with_clock(clock.clone()),
            clock,
            oracle: Oracle::default(),
            random: Random(seed),
            now: START,
            allowed: 0,
            denied: 0,
        }
    }

    fn pick<T: Copy, const N: usize>(&mut self, from: [T; N]) -> T {
        from[usize::try_from(self.random.below(N as u64)).unwrap()]
    }

    fn asked(&mut self, modes: bool) -> Asked {
        let key = (self.pick(NAMES), self.pick(IDS));
        let mode = match modes {
            true => self.pick([
                Mode::CheckAndSpend,
                Mode::CheckAndSpend,
                Mode::CheckOnly,
                Mode::SpendOnly,
                Mode::Debit,
            ]),
            false => Mode::CheckAndSpend,
        };
        let burst = u64::try_from(Values::of(key.0).burst).unwrap();
        let cost = self.random.cost(match mode {
            Mode::Debit => 2 * burst,
            _ => burst + 1,
        });
        Asked { key, cost, mode }
    }

    /// Time passes, or is set back a little.
    fn pass_time(&mut self) {
        let longest = self.pick([1, 100_000, 1_000_000, 40_000_000]);
        let step = self.random.below(longest);
        self.now = match self.random.below(20) {
            0 => self.now.saturating_sub(step / 2).max(START),
            _ => self.now + step,
        };
        self.clock.set(Timestamp::from_micros(self.now));
    }

    async fn step(&mut self) {
        self.pass_time();
        match self.random.below(10) {
            0..5 => self.single().await,
            5..8 => self.batch().await,
            8 => {
                let asked = self.asked(false);
                let refund = transaction(&asked);
                self.limiter.refund(&refund).await.unwrap();
                self.oracle.refund(asked, self.now);
            }
            _ => {
                let asked = self.asked(false);
                let reset = transaction(&asked);
                self.limiter.reset(&[reset]).await.unwrap();
                self.oracle.tats.remove(&asked.key);
            }
        }
    }

    async fn single(&mut self) {
        let asked = self.asked(false);
        let Asked {
            key: (name, id),
            cost,
            ..
        } = asked;
        let handle = self.limiter.limit(name).unwrap().cost(cost);
        let one = transaction(&asked);
        let (writes, decision) = match self.random.below(4) {
            0 => (true, self.limiter.spend(&one).await),
            1 => (false, self.limiter.check(&one).await),
            2 => (true, handle.spend(id).await),
            _ => (false, handle.check(id).await),
        };
        let decision = decision.unwrap();
        let (allowed, expected) = self.oracle.decide(&[asked], self.now, writes);
        assert_eq!(decision.allowed(), allowed, "{asked:?}");
        assert_eq!(figures(&decision), expected[0], "{asked:?}");
        let wait = if allowed { 0 } else { expected[0].next_after };
        assert_eq!(micros(decision.retry_after()), wait, "{asked:?}");
        self.count(allowed);
    }

    async fn batch(&mut self) {
        let mut batch: Vec<Asked> = Vec::new();
        for _ in 0..2 + self.random.below(3) {
            let asked = self.asked(true);
            // A bucket is in a batch once.
            if batch.iter().all(|other| other.key != asked.key) {
                batch.push(asked);
            }
        }
        let transactions: Vec<_> = batch.iter().map(transaction).collect();
        let writes = self.random.below(3) > 0;
        let decided = match writes {
            true => self.limiter.spend_batch(&transactions).await,
            false => self.limiter.check_batch(&transactions).await,
        };
        let decided = decided.unwrap();
        let (allowed, expected) = self.oracle.decide(&batch, self.now, writes);
        assert_eq!(decided.allowed(), allowed, "{batch:?}");
        let shown = decided.members().iter().map(figures);
        for (shown, expected) in shown.zip(&expected) {
            let [shown, expected] = [&shown, expected].map(|one| (one.remaining, one.reset_after));
            assert_eq!(shown, expected, "{batch:?}");
        }
        self.count(allowed);
    }

    fn count(&mut self, allowed: bool) {
        match allowed {
            true => self.allowed += 1,
            false => self.denied += 1,
        }
    }
}

fn transaction(asked: &Asked) -> Transaction<'static> {
    let (name, id) = asked.key;
    Transaction::new(name, id).cost(asked.cost).mode(asked.mode)
}

fn micros(duration: std::time::Duration) -> i128 {
    i128::try_from(duration.as_micros()).unwrap()
}

fn figures(decision: &Decision) -> Figures {
    Figures {
        remaining: decision.remaining().unwrap().into(),
        reset_after: micros(decision.reset_after()),
        next_after: micros(decision.next_after()),
    }
}

#[tokio::test]
async fn decisions_are_those_of_the_definitions() {
    for seed in 0..scaled(8_u64) {
        let mut run = Run::new(seed);
        for _ in 0..2_000 {
            run.step().await;
        }
        let (allowed, denied) = (run.allowed, run.denied);
        assert!(allowed > 300 && denied > 100, "{allowed} and {denied}");
    }
}

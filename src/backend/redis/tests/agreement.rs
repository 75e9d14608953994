//! The script decides random batches as the arithmetic of this crate does, to the microsecond. Batches of one call share keys.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
    time::Duration,
};

use super::{eventually::eventually_async, redis_support::Server, scale::scaled};
use crate::{
    algorithm::{Algorithm, Ask, Charge, State, Verb},
    algorithm::{block::Block, concurrency::Concurrency, gcra::Gcra, window::Window},
    backend::{
        BackendError,
        redis::{
            address,
            connection::{Connection, SCRIPT},
            error::Failure,
            keys::KeyForm,
            protocol::{self, Call},
            resp::RedisValue,
        },
    },
    batch::{Batch, Member},
    clock::Timestamp,
    decision::Answer,
    id::IdFormat,
    limit::{Limit, LimitName, Limits},
    quota::{Per, Quota, UtcOffset},
    testing::random::Random,
    tiers::{Tier, Tiers},
    transaction::{LimitKey, Mode, Operation},
};

/// The versions of each limit. Versions of one limit share their buckets.
fn limits() -> Vec<Vec<Limit>> {
    let lists = algorithms().into_iter();
    lists
        .map(|list| list.into_iter().map(Limit::of).collect())
        .collect()
}

fn algorithms() -> Vec<Vec<Algorithm>> {
    let secs = Duration::from_secs;
    let micros = Duration::from_micros;
    let gcra = |burst, count, period| Gcra::new(burst, count, period).unwrap();
    let quota = |quota, per| Algorithm::Quota(Quota::new(quota, per).unwrap());
    let window = |limit, window| Algorithm::Window(Window::new(limit, window).unwrap());
    let permits = |limit, hold| {
        let limit = Concurrency::new(limit).unwrap();
        Algorithm::Concurrency(limit.with_hold(secs(hold)).unwrap())
    };
    let offset = UtcOffset::minutes(-59);
    vec![
        vec![
            Algorithm::Gcra(gcra(20, 7, secs(1))),
            Algorithm::Gcra(gcra(5, 3, secs(1))),
            Algorithm::Gcra(gcra(10, 3, micros(1_000_001))),
        ],
        vec![
            Algorithm::Gcra(gcra(4, 7, secs(1)).with_max_wait(secs(1)).unwrap()),
            Algorithm::Gcra(gcra(6, 1_000_003, secs(86_400))),
            Algorithm::Gcra(gcra(3, 1, secs(50_000_000)).with_max_wait(secs(1)).unwrap()),
        ],
        vec![
            quota(9, Per::Hour),
            quota(20, Per::Day.at_offset(offset)),
            quota(30, Per::Week.at_offset(offset)),
            quota(15, Per::Month),
            quota(25, Per::first_use(secs(3600))),
        ],
        vec![
            quota(5, Per::first_use(micros(500_000))),
            quota(9, Per::first_use(secs(50_000))),
            quota(6, Per::Hour),
        ],
        vec![Algorithm::Block(Block)],
        vec![
            window(3, secs(1)),
            window(40, secs(1)),
            window(100, secs(40_000)),
        ],
        vec![window(300, secs(6)), window(200, micros(300_000))],
        vec![window(4096, secs(30)), window(100, secs(1000))],
        vec![permits(4, 1), permits(90, 1), permits(200, 60)],
        tiers(),
    ]
}

/// The versions of tiers.
fn tiers() -> Vec<Algorithm> {
    let secs = Duration::from_secs;
    let micros = Duration::from_micros;
    let tiers = |tiers: &[Tier]| Algorithm::Tiers(Tiers::new(tiers.iter().copied()).unwrap());
    vec![
        tiers(&[
            Tier::new(5, micros(300_000)),
            Tier::new(9, secs(2))
                .active(secs(1))
                .cooldown(secs(2))
                .skippable(),
            Tier::new(20, secs(3)).active(secs(8)).cooldown(secs(5)),
        ]),
        tiers(&[
            Tier::new(7, secs(2)).active(secs(1)).cooldown(secs(1)),
            Tier::new(3, secs(1)).active(secs(3)),
        ]),
        tiers(&[
            Tier::new(30, secs(1)).active(secs(4)),
            Tier::new(300, secs(1)).active(secs(2)),
        ]),
        tiers(&[
            Tier::new(2, secs(1))
                .active(micros(400_000))
                .cooldown(secs(3)),
            Tier::new(1, secs(1)),
        ]),
    ]
}

/// A batch whose members borrow from the limits.
struct RandomBatch<'a> {
    operation: Operation,
    members: Vec<(usize, &'static str, &'a Limit, Ask, Mode)>,
}

impl<'a> RandomBatch<'a> {
    fn members(&self) -> Vec<Member<'a>> {
        let members = self.members.iter().map(|(index, id, by, ask, mode)| {
            let limit = NAMED.iter().nth(*index).unwrap();
            Member {
                ask: *ask,
                ..Member::new(limit, id, ask.cost, *mode).by(by)
            }
        });
        members.collect()
    }
}

const IDS: [&str; 3] = ["a", "b", "c"];

/// A name for each list of limits, with its index as its number.
static NAMED: LazyLock<Limits> = LazyLock::new(|| {
    let mut builder = Limits::builder();
    for (number, limits) in (0..).zip(limits()) {
        let name = LimitName::new(&format!("n{number}"), number, IdFormat::Opaque);
        builder = builder.limit(name, limits[0].clone());
    }
    builder.build().unwrap()
});

#[expect(clippy::too_many_lines, reason = "one table of what can be asked")]
fn draw<'a>(
    random: &mut Random,
    limits: &'a [Vec<Limit>],
    charges: &'a [(usize, &'static str, Charge)],
) -> RandomBatch<'a> {
    let operation = match random.below(20) {
        0..11 => Operation::Spend,
        11 | 12 => Operation::Check,
        13..16 => Operation::Refund,
        16 | 17 => Operation::Renew,
        18 => Operation::Peek,
        _ if random.one_in(3) => Operation::Reset,
        _ => Operation::Peek,
    };
    let mut members: Vec<(usize, &'static str, &Limit, Ask, Mode)> = Vec::new();
    for _ in 0..=random.below(4) {
        let mut limit = usize::try_from(random.below(limits.len() as u64)).unwrap();
        let mut id = *random.pick(&IDS);
        let mut charge = None;
        // A spend of permits can be repeated, too.
        let repeats = match operation {
            Operation::Refund | Operation::Renew => !random.one_in(3),
            Operation::Spend => random.one_in(8),
            _ => false,
        };
        if repeats && !charges.is_empty() {
            let (of, to, charged) = random.pick(charges);
            limit = *of;
            id = *to;
            charge = Some(*charged);
        }
        let by = random.pick(&limits[limit]);
        let algorithm = by.algorithm().unwrap();
        let mode = match random.below(12) {
            0..6 => Mode::CheckAndSpend,
            6 => Mode::CheckOnly,
            7 | 8 => Mode::SpendOnly,
            9 => Mode::Observe,
            _ => Mode::Debit,
        };
        let verb = operation.verb(mode);
        let most = match algorithm {
            Algorithm::Window(window) if window.limit() == 4096 => 900,
            Algorithm::Window(window) if window.limit() > 40 => 60,
            Algorithm::Tiers(_) => 12,
            _ => 5,
        };
        let mut cost = u32::try_from(random.below(most)).unwrap();
        if verb == Verb::Debit && random.one_in(300) {
            cost = u32::MAX;
        }
        let mut ask = Ask::new(verb, cost).of(charge);
        if verb == Verb::Spend {
            let names = algorithm.new_permits(cost);
            ask.charge = names.map(|new| charge.unwrap_or(new));
        }
        ask.waits = mode == Mode::CheckAndSpend && !random.one_in(4);
        ask.saturates = random.one_in(2);
        if let (Algorithm::Tiers(_), Operation::Spend | Operation::Check | Operation::Peek) =
            (algorithm, operation)
        {
            ask.min_cost = 1 + random.units(0, cost.max(1) - 1);
        }
        let is_new = !members.iter().any(|(of, to, ..)| (*of, *to) == (limit, id));
        let asked = match operation {
            Operation::Reset => Ok(()),
            Operation::Peek => algorithm.accepts(&Ask {
                verb: Verb::Spend,
                ..ask
            }),
            _ => algorithm.accepts(&ask),
        };
        if (is_new || operation == Operation::Renew) && asked.is_ok() {
            members.push((limit, id, by, ask, mode));
        }
    }
    RandomBatch { operation, members }
}

/// A map of buckets, which the arithmetic of this crate decides.
#[derive(Default)]
struct Map(HashMap<(u32, String), State>);

impl Map {
    fn decide(&mut self, batch: &Batch<'_>, now: Timestamp) -> Result<Vec<Answer>, BackendError> {
        let key = |member: &Member<'_>| match member.key().limit {
            LimitKey::Number(number) => (number, member.key().id.to_owned()),
            LimitKey::Name(_) => unreachable!(),
        };
        let members = batch.members.iter();
        let states = members.map(|member| self.0.get(&key(member)).cloned());
        let (outcome, changes) = batch.decide(now, states);
        for change in changes {
            let key = key(&batch.members[change.index]);
            match change.state {
                Some(state) => self.0.insert(key, state),
                None => self.0.remove(&key),
            };
        }
        Ok(outcome?.answers.into_iter().collect())
    }
}

/// Connects to a server, as a link does.
/// Connects to a server. On a busy machine, an attempt can take longer than the client waits for it.
pub(super) async fn connect(server: &Server) -> Connection {
    let probe = Arc::new(Call::probe(&KeyForm::default()));
    let (target, _) = address::parse(&server.url(), probe).unwrap();
    let mut opened = None;
    eventually_async("the client connects", async || {
        opened = Connection::open(&target).await.ok();
        opened.is_some()
    })
    .await;
    let (connection, ending) = opened.unwrap();
    // Leaked, so that the connection stays open for the whole test.
    Box::leak(Box::new(ending));
    connection
}

pub(super) async fn call(connection: &Connection, calls: &[&Call]) -> RedisValue {
    let arguments = protocol::encode(SCRIPT, calls.iter().copied());
    connection
        .send("EVAL", &arguments, false, Duration::from_secs(60))
        .await
        .unwrap()
}

/// Runs random groups of batches, each in one call. Each answer must equal that of the map.
#[expect(clippy::too_many_lines, reason = "a comparison in one piece")]
async fn agree(seed: u64, groups: u64) {
    let server = Server::start();
    let connection = connect(&server).await;
    let limits = limits();
    let form = KeyForm::default();
    let mut random = Random(seed);
    let mut map = Map::default();
    let mut now = 1_767_225_600_000_000;
    let mut charges: Vec<(usize, &'static str, Charge)> = Vec::new();
    let mut passed = 0_u64;
    let mut denied = 0_u64;
    let mut taken = 0_u64;
    for group in 0..groups {
        now = match random.below(24) {
            0 => now - random.below(700_000),
            1 => now + random.below(40_000_000_000),
            2..6 => now + random.below(2_000_000),
            _ => now + random.below(20_000),
        };
        let known = std::mem::take(&mut charges);
        let drawn: Vec<_> = (0..=random.below(24))
            .map(|_| draw(&mut random, &limits, &known))
            .collect();
        let members: Vec<_> = drawn.iter().map(RandomBatch::members).collect();
        let time = Timestamp::from_micros(now);
        // Renewals are sent one by one, and an empty batch is not sent.
        let batches: Vec<_> = drawn
            .iter()
            .zip(&members)
            .flat_map(|(drawn, members)| {
                let size = match drawn.operation {
                    Operation::Renew => 1,
                    _ => members.len().max(1),
                };
                members
                    .chunks(size)
                    .map(|members| (drawn.operation, members))
            })
            .map(|(operation, members)| Batch::new(operation, members).at(Some(time)))
            .collect();
        let calls: Vec<_> = batches
            .iter()
            .map(|batch| Call::new(batch, &form, || now))
            .collect();
        let calls: Vec<_> = calls.iter().collect();
        let reply = call(&connection, &calls).await;
        let replies = protocol::decode(&reply, calls.len()).unwrap();
        for (batch, found) in batches.iter().zip(replies) {
            let found = found.and_then(|reply| reply.answers(batch));
            let expected = map.decide(batch, time);
            match (found, expected) {
                (Ok(found), Ok(expected)) => {
                    assert_eq!(found, expected, "seed {seed}, group {group}: {batch:?}");
                    for (member, answer) in batch.members.iter().zip(&expected) {
                        passed += u64::from(answer.passed);
                        denied += u64::from(!answer.passed);
                        let LimitKey::Number(number) = member.key().limit else {
                            unreachable!()
                        };
                        if answer.charge.units > 0
                            && matches!(batch.operation, Operation::Spend | Operation::Renew)
                        {
                            let id = *IDS.iter().find(|id| **id == member.key().id).unwrap();
                            charges.push((number as usize, id, answer.charge));
                        } else {
                            taken += u64::from(answer.charge.units > 0);
                        }
                    }
                }
                (Err(Failure::NoRoom(index)), Err(BackendError::NoRoom { member })) => {
                    assert_eq!(index, member);
                }
                (found, expected) => panic!(
                    "seed {seed}, group {group}: {found:?} for {expected:?} by {batch:?}: {reply:?}"
                ),
            }
        }
        charges.extend(known.into_iter().rev().take(40));
    }
    let all = [passed, denied, taken];
    assert!(all.iter().all(|count| *count > groups / 4), "{all:?}");
}

#[tokio::test]
async fn script_decides_as_the_arithmetic_of_memory() {
    for seed in 0..4 {
        agree(seed, scaled(600)).await;
    }
}

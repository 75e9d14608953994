//! What must hold, checked from outside.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    time::Duration,
};

use tokio::time::sleep;
use tollgate::{Transaction, decision::Source, transaction::Mode};

use crate::{
    caller::Caller,
    fleet::Fleet,
    plan::{Bucket, Setup},
    process::{HEARTBEAT, NAMES},
    record::{AskRecord, Record},
    terms::{Kind, Terms},
};

/// Checks a fleet after the last fault has ended.
pub(crate) async fn check(fleet: &mut Fleet) {
    for process in &mut fleet.processes {
        mem::take(&mut process.tasks).join_all().await;
    }
    if fleet.setup().calm {
        sleep(Duration::from_millis(500)).await;
        fleet.free_permits().await;
    }
    fleet.recovery().await;
    // Permits come back as soon as the store answers, unless nobody knows of them any more.
    if !fleet.network.plan.leaves_permits_behind() {
        fleet.free_permits().await;
    }
    fleet.logs();
    sleep(Duration::from_secs(21)).await;
    fleet.free_permits().await;
    fleet.close().await;
    let record = mem::take(&mut *fleet.network.record());
    let mut buckets = BTreeMap::<Bucket, Vec<&AskRecord>>::new();
    for asked in &record.asks {
        buckets.entry(asked.ask.bucket).or_default().push(asked);
    }
    let mut problems = Vec::new();
    for (bucket, asks) in buckets {
        let history = BucketHistory {
            fleet,
            record: &record,
            bucket,
            terms: fleet.setup().limits[bucket.0],
            asks,
        };
        problems.extend(history.excess(None));
        let processes = 0..fleet.processes.len();
        problems.extend(processes.filter_map(|process| history.excess(Some(process))));
        if fleet.setup().calm {
            problems.extend(history.wrong_denial());
            problems.extend(history.unreturned());
            problems.extend(history.charged_ahead().await);
        }
    }
    problems.extend(record.problems);
    fleet.network.record().problems.extend(problems);
}

impl Fleet {
    fn setup(&self) -> &Setup {
        &self.network.plan.setup
    }

    fn problem(&self, problem: String) {
        self.network.record().problems.push(problem);
    }

    /// The free units of a bucket, if the store says so.
    async fn free_units(&self, (limit, id): Bucket) -> Option<u32> {
        let bucket = Transaction::new(NAMES[limit], id);
        let seen = self.processes[0].caller.limiter.peek(&bucket).await;
        seen.ok()?.remaining()
    }

    /// Two seconds after the store has returned, it decides again, and everybody sees that.
    async fn recovery(&self) {
        for round in 0..25 {
            sleep(Duration::from_millis(200)).await;
            for process in &self.processes {
                let Caller {
                    process, limiter, ..
                } = &process.caller;
                let id = format!("{process}-{round}");
                let beat = limiter.spend(&Transaction::new(HEARTBEAT, &id)).await;
                let limited = beat.ok().filter(|decided| decided.limited());
                let by = limited.map(|decided| decided.source());
                let is_open = limiter.stats().is_open == Some(true);
                if round >= 10 && (by != Some(Source::Store) || is_open) {
                    self.problem(format!(
                        "{id} is decided by {by:?} at the end, open: {is_open}"
                    ));
                }
            }
        }
    }

    /// A process logs once that it begins to decide without the store, and once that it ends.
    fn logs(&self) {
        let begins = self.log.count("deciding without it");
        let ends = self.log.count("answers again");
        let restarts = self.network.record().restarts.len();
        // Killed processes could not log the end.
        if ends > begins || ends + restarts < begins {
            self.problem(format!("{begins} outages are logged, and {ends} ends"));
        }
    }

    /// All permits are free, once all work has ended and the hold is over.
    async fn free_permits(&self) {
        // A permit counts for longer if the clock has been set back.
        if self.network.clock.was_set(0, u64::MAX) {
            return;
        }
        for (limit, terms) in self.setup().limits.iter().enumerate() {
            for id in ["busy", "rare"] {
                if !terms.is_at_once() {
                    continue;
                }
                let left = self.free_units((limit, id)).await;
                if left != Some(terms.most) {
                    self.problem(format!(
                        "{left:?} permits of {limit}, {id} are free at the end"
                    ));
                }
            }
        }
    }

    async fn close(&self) {
        for process in &self.processes {
            if let Err(error) = process.caller.limiter.close().await {
                self.problem(format!("a process cannot be closed: {error:?}"));
            }
        }
    }
}

/// The questions to one bucket, and their answers.
struct BucketHistory<'a> {
    fleet: &'a Fleet,
    record: &'a Record,
    bucket: Bucket,
    terms: Terms,
    asks: Vec<&'a AskRecord>,
}

impl BucketHistory<'_> {
    /// In any interval, a bucket is granted at most its limit by the store, and at most its share of it by each process.
    /// Together, that is twice the limit, rounded up for each process.
    fn excess(&self, process: Option<usize>) -> Option<String> {
        let is_granted = |asked: &AskRecord| match (asked.granted_by, process) {
            (Some(Source::Local), Some(process)) => asked.process == process,
            (Some(source), None) => source != Source::Local,
            _ => false,
        };
        let given_back = self.asks.iter().filter_map(|asked| {
            let refunded = asked.refunded.filter(|_| is_granted(asked));
            let tried_until = asked.tried_until.filter(|_| process.is_none());
            Some((*asked, refunded.or(tried_until)?))
        });
        let given_back: Vec<_> = given_back.collect();
        let counts = |asked: &&&AskRecord| {
            is_granted(asked) && asked.refunded.is_none() && asked.ask.mode != Mode::Debit
        };
        let mut charges: Vec<_> = self.asks.iter().filter(counts).collect();
        charges.sort_by_key(|charge| charge.ended);
        let begins: BTreeSet<_> = charges.iter().map(|charge| charge.begun).collect();
        for from in begins {
            let back = self.came_back(&given_back, from);
            let mut sum = 0;
            for charge in charges.iter().filter(|charge| charge.begun >= from) {
                sum += u64::from(charge.ask.cost);
                let until = charge.ended;
                let most = back + self.granted_at_most(process, from, until);
                if sum > most {
                    let by =
                        process.map_or("the store".into(), |number| format!("process {number}"));
                    let bucket = self.bucket;
                    return Some(format!(
                        "{bucket:?} is granted {sum} by {by} from {from} to {until}, at most {most}"
                    ));
                }
            }
        }
        None
    }

    /// The most that the store grants, or a process without it. What makes a bucket empty adds the units granted before.
    fn granted_at_most(&self, process: Option<usize>, from: u64, until: u64) -> u64 {
        let Some(process) = process else {
            let time = self.fleet.network.clock.passed(from, until);
            return self.terms.within(time) + self.losses(from, until) * u64::from(self.terms.most);
        };
        let share = self.terms.share(self.fleet.setup().processes);
        let is_fresh = |(at, of): &&(u64, usize)| *of == process && (from..=until).contains(at);
        let fresh_starts = self.record.restarts.iter().filter(is_fresh).count() as u64;
        share.within(self.fleet.clock.passed(from, until)) + fresh_starts * u64::from(share.most)
    }

    /// How often the bucket of the store can have become empty between two times, because the store has lost it or it was reset.
    fn losses(&self, from: u64, until: u64) -> u64 {
        let faults = self.fleet.network.plan.faults();
        let losses = faults
            .filter(|(time, fault)| fault.loses_data() && (from..=until).contains(&time.start));
        let resets = self.record.resets.iter();
        let resets = resets.filter(|(bucket, (begun, ended))| {
            *bucket == self.bucket && *begun <= until && *ended >= from
        });
        (losses.count() + resets.count()) as u64
    }

    /// The units of earlier charges that came back after a time, by refunds or from denied batches over several slots. Others can
    /// pass with them if time has given the tokens of a rate back as well, or if the store has lost the charge in between, or if the
    /// bucket was reset.
    fn came_back(&self, given_back: &[(&AskRecord, u64)], from: u64) -> u64 {
        // The refund of a charge that the store has lost gives back units of another one. The refund of that gives back those of
        // a third.
        let is_lost = |asked: &AskRecord, at: u64| self.losses(asked.begun, at) > 0;
        let mut refunds = given_back
            .iter()
            .filter(|(asked, _)| asked.refunded.is_some());
        let refunds_others = refunds.any(|(asked, at)| is_lost(asked, *at));
        let came_back = given_back.iter().filter(|(asked, at)| {
            let was_before = self.terms.is_rate() && asked.begun < from;
            *at >= from && (was_before || refunds_others || is_lost(asked, *at))
        });
        came_back.map(|(asked, _)| u64::from(asked.ask.cost)).sum()
    }

    /// Finds a client that was denied although it had not used that much, while nothing failed.
    fn wrong_denial(&self) -> Option<String> {
        let mut denials = self.asks.iter().filter(|asked| asked.is_denied);
        let wrong = denials.find(|denial| self.is_wrong(denial))?;
        Some(format!("it is wrong: {wrong:?}"))
    }

    fn is_wrong(&self, denial: &AskRecord) -> bool {
        let charges = self.asks.iter().filter_map(|asked| {
            // The temporary charge of another batch counts until it is refunded.
            let is_tried = asked.call != denial.call && asked.tried_until >= Some(denial.begun);
            let ended = if is_tried { denial.ended } else { asked.ended };
            let units = u64::from(asked.ask.cost);
            (is_tried || asked.granted_by.is_some()).then_some((asked.begun, ended, units))
        });
        let charges: Vec<_> = charges.collect();
        // The most that can have been charged between a time and the denial.
        let since = |from: u64| {
            let charges = charges.iter();
            let charges =
                charges.filter(|(begun, ended, _)| *ended >= from && *begun <= denial.ended);
            charges.map(|(.., units)| units).sum::<u64>()
        };
        let cost = u64::from(denial.ask.cost);
        let most = u64::from(self.terms.most);
        match self.terms.kind {
            // A part of the burst is elsewhere.
            _ if self.terms.leased => false,
            Kind::Rate { count, period } => !charges.iter().any(|(begun, ended, _)| {
                let back = denial.begun.saturating_sub(*ended) * u64::from(count);
                most * period + back < (since(*begun) + cost) * period
            }),
            Kind::Window { span } | Kind::Quota { span } => {
                since(denial.begun.saturating_sub(span)) + cost <= most
            }
            Kind::AtOnce { .. } => false,
        }
    }

    /// The units that were granted and not refunded.
    fn granted(&self) -> u32 {
        let asks = self.asks.iter();
        let kept = asks.filter(|asked| asked.granted_by.is_some() && asked.refunded.is_none());
        kept.map(|asked| asked.ask.cost).sum()
    }

    /// While nothing fails, a bucket is charged what was granted, and batches that were denied have given everything back.
    fn unreturned(&self) -> Option<String> {
        let charged = self.fleet.network.charged(self.bucket);
        let granted = self.granted();
        if self.terms.leased || charged == i64::from(granted) {
            return None;
        }
        let bucket = self.bucket;
        Some(format!(
            "{bucket:?} is charged {charged} units, and {granted} were granted"
        ))
    }

    /// Processes give back the units that they have charged ahead when they close.
    async fn charged_ahead(&self) -> Option<String> {
        // The free units do not include the parts that processes may charge ahead.
        let processes = self.fleet.setup().processes;
        let burst = self.terms.most;
        let part = (burst / 5).min((burst - 1) / (2 * processes));
        let left = self.fleet.free_units(self.bucket).await.unwrap();
        let granted = self.granted();
        if !self.terms.leased || left + granted >= burst - part * processes {
            return None;
        }
        let bucket = self.bucket;
        Some(format!(
            "{bucket:?} has {left} left, and {granted} were granted"
        ))
    }
}

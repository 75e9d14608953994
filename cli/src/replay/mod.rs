//! `tollgate replay` shows what limits would have done to the traffic of a log. The crate's limiter decides each request as a
//! server would, with the log's times as the clock.

mod rules;

use std::{fmt::Write, path::PathBuf, time::Duration};

use anyhow::Result;
use clap::Args;
use serde_json::{Map, Value, json};
use tollgate::{Decision, Limit, Limits, MemoryBackend, Transaction};

use self::rules::{ReplayRule, ReplayRules};
use crate::{
    NOT_DONE,
    clients::{DeniedClients, Distinct, hash, kept},
    limits::{LimitFiles, LogLimiter},
    log::{Key, LogArgs, LogEnd, NeededParts, Record},
    output::{
        ReportArgs, grouped, instant, most_denied, print, print_json, say, span, table,
        with_percent,
    },
};

/// The most bytes of windows and tiers.
const HISTORY_BYTES: usize = 256 * 1024 * 1024;

/// The arguments of `replay`.
#[derive(Args, Debug)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    limits: LimitFiles,
    /// The file that says which requests meet which limit; without it, every request meets every limit
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// What identifies a client: ip (IPv6 by /64), /48, everyone, or the name of a field
    #[arg(long, default_value = "ip", value_name = "KEY")]
    key: Key,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    report: ReportArgs,
}

/// Runs the command.
pub(crate) fn run(args: &ReplayArgs) -> Result<u8> {
    let limits = args.limits.usable()?;
    let mut needed = NeededParts::default();
    let rules = match &args.rules {
        Some(path) => ReplayRules::read(path, &limits, &args.key, &mut needed)?,
        None => ReplayRules::for_all(&limits, &args.key, &mut needed),
    };
    let mut engine = Engine::new(&limits, rules);
    let mut log = args.log.open(needed)?;
    while let Some(record) = log.next_record()? {
        engine.meet(&record);
    }
    let end = log.end();
    engine.notes().iter().for_each(say);
    let problem = match engine.decided {
        0 => end.problem().or_else(|| Some(engine.remedy())),
        _ => None,
    };
    let top = args.report.top;
    if args.report.json {
        print_json(&as_json(&end, &engine.tallies, top))?;
    } else {
        print(&text(&end, &engine.tallies, top))?;
    }
    Ok(problem.map_or(0, |problem| {
        say(format_args!("tollgate: {problem}"));
        NOT_DONE
    }))
}

/// A limiter, and counts of its decisions.
struct Engine {
    rules: ReplayRules,
    limiter: LogLimiter,
    tallies: Vec<LimitTally>,
    /// Requests whose id is not in the format of a limit.
    misfits: u64,
    decided: u64,
    has_path: bool,
    has_method: bool,
}

/// The charge of one request to a client's bucket.
struct BucketCharge {
    limit: usize,
    id: String,
    cost: u32,
}

impl Engine {
    fn new(limits: &Limits, rules: ReplayRules) -> Self {
        let tally = |name: &String| {
            let limit = limits.get(name).and_then(|named| named.limit());
            LimitTally::new(name, limit)
        };
        let buckets = MemoryBackend::DEFAULT_MAX_BUCKETS * rules.limits.len().max(1);
        Self {
            tallies: rules.limits.iter().map(tally).collect(),
            limiter: LogLimiter::new(limits.clone(), buckets, HISTORY_BYTES),
            rules,
            misfits: 0,
            decided: 0,
            has_path: false,
            has_method: false,
        }
    }

    /// Decides one request. All of its limits are charged, or none.
    fn meet(&mut self, record: &Record) {
        self.has_path |= !record.path.is_empty();
        self.has_method |= !record.method.is_empty();
        let mut charges: Vec<BucketCharge> = Vec::with_capacity(self.rules.rules.len());
        for rule in &self.rules.rules {
            match rule.client_of(record).map(|id| rule.format.fold(id)) {
                None => {}
                Some(Ok(id)) => add(&mut charges, rule, id.to_string()),
                Some(Err(_)) => self.misfits += 1,
            }
        }
        if charges.is_empty() {
            return;
        }
        let names = &self.rules.limits;
        let batch = charges
            .iter()
            .map(|charge| Transaction::new(&names[charge.limit], &charge.id).cost(charge.cost));
        let batch: Vec<_> = batch.collect();
        let Some(Ok(decided)) = self.limiter.at(record.at).try_spend_batch(&batch) else {
            self.misfits += 1;
            return;
        };
        self.decided += 1;
        for (charge, decision) in charges.iter().zip(decided.members()) {
            self.tallies[charge.limit].count(record.at, &charge.id, decision);
        }
    }

    /// Returns notes on requests that were not counted as a user may expect.
    fn notes(&self) -> Vec<String> {
        let left_out = self.rules.left_out.iter().map(|limit| {
            format!("limit `{limit}` is left out: it counts what runs at once, which a log does not show")
        });
        let mut notes: Vec<_> = left_out.collect();
        if self.misfits > 0 {
            notes.push(format!(
                "requests that met a limit which does not admit their id or cost, and did not count there: {}",
                grouped(self.misfits)
            ));
        }
        let unknown = self.unknown_field().filter(|_| self.decided > 0);
        notes.extend(unknown.map(str::to_owned));
        let unmet = self
            .tallies
            .iter()
            .filter(|tally| tally.requests == 0 && self.decided > 0);
        notes.extend(unmet.map(|tally| {
            format!(
                "no request met limit `{}`: check the key, paths and methods of its rules (methods are in capitals), and the \
                 format of its ids",
                tally.name
            )
        }));
        let evictions = self.limiter.evictions();
        if evictions > 0 {
            notes.push(format!(
                "there were more buckets at a time than the memory holds, and {} of them were forgotten early",
                grouped(evictions)
            ));
        }
        if self.tallies.iter().any(|tally| !tally.clients.is_exact()) {
            notes.push("numbers of clients above a million are estimates (0.2 %)".to_owned());
        }
        notes
    }

    /// Returns what to do if no request has met a limit.
    fn remedy(&self) -> String {
        let check = if self.rules.rules.is_empty() {
            "use a limit of requests over time"
        } else {
            self.unknown_field().unwrap_or("check --key, and the keys, paths, methods and costs of the rules, and the formats of the limits' ids")
        };
        format!("no request met a limit: {check}")
    }

    /// Says which field the rules need and no line has.
    fn unknown_field(&self) -> Option<&'static str> {
        let mut rules = self.rules.rules.iter();
        if !self.has_path && rules.clone().any(|rule| rule.paths.is_some()) {
            Some("no line has a path: name its field with --path, or the group `path` in --pattern")
        } else if !self.has_method && rules.any(|rule| !rule.methods.is_empty()) {
            Some(
                "no line has a method: name its field with --method, or the group `method` in --pattern",
            )
        } else {
            None
        }
    }
}

/// Adds a charge. Rules that charge the same bucket charge it once, with the sum of their costs.
fn add(charges: &mut Vec<BucketCharge>, rule: &ReplayRule, id: String) {
    let mut others = charges.iter_mut();
    let limit = rule.limit;
    match others.find(|other| other.limit == limit && other.id == id) {
        Some(same) => same.cost = same.cost.saturating_add(rule.cost),
        None => charges.push(BucketCharge {
            limit,
            id,
            cost: rule.cost,
        }),
    }
}

fn text(end: &LogEnd, tallies: &[LimitTally], top: usize) -> String {
    let head = [
        "limit",
        "values",
        "requests",
        "denied",
        "clients",
        "ever denied",
        "longest wait",
    ];
    let rows = tallies.iter().map(|tally| {
        let clients = tally.clients.count();
        let denied = tally.clients_denied.count();
        vec![
            tally.name.clone(),
            tally.values.clone(),
            grouped(tally.requests),
            with_percent(tally.denied, tally.requests),
            grouped(clients),
            with_percent(denied, clients),
            span(tally.longest_wait),
        ]
    });
    let mut text = format!("{}\n\n{}\n", end.sentence(), table(&head, 2, rows));
    for tally in tallies {
        let name = &tally.name;
        if tally.delayed > 0 {
            let delayed = grouped(tally.delayed);
            let longest = span(tally.longest_delay);
            let _ = writeln!(
                text,
                "\n{name}: {delayed} waited in line, for at most {longest}"
            );
        }
        if tally.denied > 0 {
            let clients = tally.by_client.sorted();
            let _ = writeln!(text, "\n{name}\n{}", most_denied(&clients, top));
        }
    }
    text
}

/// Returns the output of `--json`, an interface that `docs/command.md` describes.
fn as_json(end: &LogEnd, tallies: &[LimitTally], top: usize) -> Value {
    let limits = tallies
        .iter()
        .map(|tally| (tally.name.clone(), tally.as_json(top)));
    let limits: Map<_, _> = limits.collect();
    json!({"lines": end.lines, "unreadable": end.unreadable.count, "limits": limits})
}

/// The counts of one limit. A limit in shadow mode counts as if it were in force.
#[derive(Debug, Default)]
struct LimitTally {
    name: String,
    /// The default in words.
    values: String,
    requests: u64,
    denied: u64,
    clients: Distinct,
    clients_denied: Distinct,
    /// The longest time until a denied request would have passed.
    longest_wait: Duration,
    /// Requests that waited in line, and the longest wait of one.
    delayed: u64,
    longest_delay: Duration,
    by_client: DeniedClients,
}

impl LimitTally {
    fn new(name: &str, limit: Option<&Limit>) -> Self {
        Self {
            name: name.to_owned(),
            values: limit.map_or_else(|| "no default".to_owned(), Limit::to_string),
            ..Self::default()
        }
    }

    /// Counts a decision. A limit in shadow mode counts as if it were in force.
    fn count(&mut self, at: u64, id: &str, decision: &Decision) {
        let client = hash(id);
        self.requests += 1;
        self.clients.add(client);
        self.delayed += u64::from(!decision.delay().is_zero());
        self.longest_delay = self.longest_delay.max(decision.delay());
        if !decision.allowed() || decision.would_be_denied() {
            self.denied += 1;
            self.clients_denied.add(client);
            self.by_client.add(client, at, || kept(id));
            self.longest_wait = self
                .longest_wait
                .max(decision.next_after().unwrap_or_default());
        }
    }

    fn as_json(&self, top: usize) -> Value {
        let most_denied = self.by_client.sorted().into_iter().take(top).map(|client| {
            json!({"id": client.id, "denied": client.denied, "first": instant(client.first)})
        });
        json!({
            "requests": self.requests,
            "clients": self.clients.count(),
            "denied": self.denied,
            "clients_denied": self.clients_denied.count(),
            "most_denied": most_denied.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_buckets_than_the_memory_holds_are_noted() {
        let limits = Limits::builder().defaults_text("limits.yml", "requests: 1/h\n");
        let limits = limits.build().expect("it is right");
        let rules = ReplayRules::for_all(&limits, &Key::Ip, &mut NeededParts::default());
        let mut engine = Engine::new(&limits, rules);
        engine.limiter = LogLimiter::new(limits, 7, HISTORY_BYTES);
        let forgotten = "more buckets at a time than the memory holds, and 1 of them";
        for client in 1..=8 {
            engine.meet(&Record {
                ids: vec![Some(client.to_string())],
                ..Record::default()
            });
            let notes = engine.notes().concat();
            assert_eq!(notes.contains(forgotten), client == 8, "{notes}");
        }
    }
}

//! `tollgate check` finds mistakes in files of limits before they are deployed, and shows which limit a client would get.
//!
//! Ids are read as from requests: for a limit on domains, `www.example.com` is `example.com`. An address is looked up as it is:
//! if a rule counts IPv6 clients by /64, use the first address of the range.

use std::{collections::BTreeMap, error::Error, fmt, net::Ipv6Addr};

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use tollgate::{
    Limit, Limits,
    id::IdFormat,
    limit::{LimitsError, NamedLimit},
};

use crate::{
    FAILED, NOT_DONE,
    limits::{LimitFiles, LimitedClient, UpperBound},
    output::{print, print_json, say, shown},
};

/// The most overrides that a warning names.
const NAMED: usize = 5;

/// The arguments of `check`.
#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    limits: LimitFiles,
    /// Prints the result as one line of JSON, for programs
    #[arg(long)]
    json: bool,
    /// Clients to show: the name of a limit and an id for each
    #[arg(value_name = "LIMIT ID")]
    clients: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: &CheckArgs) -> Result<u8> {
    let (pairs, rest) = args.clients.as_chunks::<2>();
    if let [limit] = rest {
        bail!(
            "`{}` has no id after it: write a limit, and then an id",
            shown(limit)
        );
    }
    let limits = match args.limits.read() {
        Ok(limits) => limits,
        Err(error) => {
            // A file could not be read at all.
            let code = if error.source().is_some() {
                FAILED
            } else {
                NOT_DONE
            };
            let mistakes: Vec<_> = error.mistakes().map(|mistake| located(&mistake)).collect();
            return refuse(&mistakes, args.json, code);
        }
    };
    limits.iter().for_each(warn_of_addresses);
    let mut clients = Vec::new();
    let mut mistakes = Vec::new();
    for [limit, id] in pairs {
        match LimitedClient::look_up(&limits, limit, id) {
            Ok(client) => clients.push(client),
            Err(error) => mistakes.push(json!({
                "message": error.to_string(), "file": null, "line": null, "limit": limit, "id": id,
            })),
        }
    }
    if !mistakes.is_empty() {
        return refuse(&mistakes, args.json, NOT_DONE);
    }
    if clients.is_empty() {
        let summary = Summary::of(&limits);
        if args.json {
            print_json(&summary)?;
        } else {
            print(&summary.to_string())?;
        }
    } else if args.json {
        print_json(&json!({"ok": true, "clients": clients}))?;
    } else {
        let texts = clients.iter().map(LimitedClient::to_string);
        print(&texts.collect::<String>())?;
    }
    Ok(0)
}

/// Returns a mistake and its location, as `--json` prints them.
fn located(mistake: &LimitsError) -> Value {
    json!({
        "message": mistake.to_string(),
        "file": mistake.path(),
        "line": mistake.line(),
        "limit": mistake.limit(),
        "id": mistake.id(),
    })
}

fn refuse(mistakes: &[Value], is_json: bool, code: u8) -> Result<u8> {
    if is_json {
        print_json(&json!({"ok": false, "errors": mistakes}))?;
        return Ok(code);
    }
    for message in mistakes
        .iter()
        .filter_map(|mistake| mistake["message"].as_str())
    {
        say(format_args!("tollgate: {message}"));
    }
    Ok(code)
}

/// Warns of overrides for single IPv6 addresses, because clients are counted by ranges.
fn warn_of_addresses(named: &NamedLimit) {
    if !matches!(named.format(), IdFormat::IpAddress | IdFormat::Opaque) {
        return;
    }
    let ranges = named.overrides().filter_map(|own| {
        let first = own.id().split('/').next()?;
        let id = IdFormat::IpAddress.fold(first).ok()?;
        let address: Ipv6Addr = id.as_str().parse().ok()?;
        let range = Ipv6Addr::from_bits(address.to_bits() >> 64 << 64);
        (address != range).then(|| (own.id(), range))
    });
    let ranges: Vec<_> = ranges.collect();
    let name = named.name();
    for (id, range) in ranges.iter().take(NAMED) {
        say(format_args!(
            "limit `{name}`: no rule that counts IPv6 addresses by /64 or /48 meets the override for `{id}`: write \
             `{range}`, or use `ClientIp::exact`"
        ));
    }
    if ranges.len() > NAMED {
        let more = ranges.len() - NAMED;
        say(format_args!(
            "limit `{name}`: and {more} more such overrides"
        ));
    }
}

/// The numbers of limits and overrides, and the unusual ones among them.
#[derive(Debug, Serialize)]
struct Summary<'a> {
    ok: bool,
    limits: Names<'a>,
    /// There can be a million overrides, so they are only counted.
    overrides: BTreeMap<&'static str, usize>,
}

#[derive(Debug, Serialize)]
struct Names<'a> {
    count: usize,
    shadow: Vec<&'a str>,
    blocked: Vec<&'a str>,
    unlimited: Vec<&'a str>,
    /// The limits without values. They only limit clients with an override.
    not_limited: Vec<&'a str>,
    /// The bound of each limit, except for limits that admit everything or nothing.
    bounds: BTreeMap<&'a str, UpperBound>,
}

impl<'a> Summary<'a> {
    fn of(limits: &'a Limits) -> Self {
        let names = |is: &dyn Fn(&NamedLimit) -> bool| {
            let those = limits.iter().filter(|named| is(named));
            those.map(NamedLimit::name).collect()
        };
        let bound = |named: &'a NamedLimit| Some((named.name(), UpperBound::of(named.limit()?)?));
        let own = || limits.iter().flat_map(NamedLimit::overrides);
        let count = |limit: &Limit| own().filter(|own| own.limit() == limit).count();
        Self {
            ok: true,
            limits: Names {
                count: limits.iter().count(),
                shadow: names(&NamedLimit::is_shadow),
                blocked: names(&|named| named.limit() == Some(&Limit::BLOCKED)),
                unlimited: names(&|named| named.limit() == Some(&Limit::UNLIMITED)),
                not_limited: names(&|named| named.limit().is_none()),
                bounds: limits.iter().filter_map(bound).collect(),
            },
            overrides: BTreeMap::from([
                ("count", own().count()),
                ("blocked", count(&Limit::BLOCKED)),
                ("unlimited", count(&Limit::UNLIMITED)),
            ]),
        }
    }
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = &self.limits;
        let overrides = &self.overrides;
        writeln!(f, "limits: {}", limits.count)?;
        for (what, names) in [
            ("in shadow mode", &limits.shadow),
            ("blocked", &limits.blocked),
            ("unlimited", &limits.unlimited),
            ("without values", &limits.not_limited),
        ] {
            if !names.is_empty() {
                writeln!(f, "  {what}: {}", names.join(", "))?;
            }
        }
        for (name, bound) in &limits.bounds {
            writeln!(f, "  {name}: at most {bound}")?;
        }
        writeln!(f, "overrides: {}", overrides["count"])?;
        for what in ["blocked", "unlimited"] {
            if overrides[what] > 0 {
                writeln!(f, "  {what}: {}", overrides[what])?;
            }
        }
        Ok(())
    }
}

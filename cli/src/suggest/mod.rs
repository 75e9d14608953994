//! `tollgate suggest` shows what clients need, and proposes limits that would have denied at most a share of them.
//!
//! The log is kept in memory. The need of a client is exact: it is the smallest limit that would never have denied it.

mod counter;
mod needs;
mod proposal;
mod share;
mod traffic;

use std::{fmt::Write, time::Duration};

use anyhow::Result;
use clap::Args;
use serde_json::json;
use tollgate::limit::format_duration;

use self::{
    counter::PERIODS,
    needs::Needs,
    proposal::{Proposal, is_covered, propose},
    share::ClientShare,
    traffic::Traffic,
};
use crate::{
    NOT_DONE,
    limits::UpperBound,
    log::{Key, LogArgs, NeededParts},
    output::{
        ReportArgs, counted, grouped, instant, print, print_json, say, shown, table, with_percent,
    },
};

/// The arguments of `suggest`.
#[derive(Args, Debug)]
pub(crate) struct SuggestArgs {
    /// What identifies a client: ip (IPv6 by /64), /48, everyone, or the name of a field
    #[arg(long, default_value = "ip", value_name = "KEY")]
    key: Key,
    /// The largest share of clients that may be denied, such as 0.1% or 0.001
    #[arg(long, default_value = "1%", value_name = "SHARE")]
    deny_at_most: ClientShare,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    report: ReportArgs,
}

/// Runs the command.
pub(crate) fn run(args: &SuggestArgs) -> Result<u8> {
    let mut needed = NeededParts::default();
    let key = needed.key(args.key.clone());
    let mut traffic = Traffic::default();
    let mut log = args.log.open(needed)?;
    while let Some(record) = log.next_record()? {
        if let Some(id) = &record.ids[key] {
            traffic.add(id, record.at)?;
        }
    }
    let end = log.end();
    if traffic.requests == 0 {
        if args.report.json {
            print_json(&json!({"clients": 0, "requests": 0, "recommendations": []}))?;
        } else {
            print(&format!("{}\n", end.sentence()))?;
        }
        let problem = end.problem().unwrap_or_else(|| {
            let key = shown(&args.key.to_string());
            format!("no line has a client by the key `{key}`: name a field of the lines with --key")
        });
        say(format_args!("tollgate: {problem}"));
        return Ok(NOT_DONE);
    }
    let at_most = args.deny_at_most.of(traffic.clients.len());
    let needs = Needs::of(&traffic, args.report.top);
    let proposals = propose(&traffic, at_most);
    if args.report.json {
        print_json(&as_json(&traffic, &needs, &proposals, args.report.top))?;
    } else {
        let mut text = format!(
            "{}\n{} by {} from {} to {}\n\n{}\n",
            end.sentence(),
            counted(traffic.requests, "request"),
            counted(traffic.clients.len() as u64, "client"),
            instant(traffic.first),
            instant(traffic.last),
            needs.table()
        );
        for proposal in &proposals {
            let _ = writeln!(text, "\n{}", paragraph(proposal, &traffic, args));
        }
        print(&text)?;
    }
    notes(&traffic, args.deny_at_most).iter().for_each(say);
    Ok(0)
}

/// Returns the text of a proposal: the denied requests, and their share of each client's requests.
fn paragraph(proposal: &Proposal, traffic: &Traffic, args: &SuggestArgs) -> String {
    let limit = &proposal.limit;
    let stopped = proposal.clients.len() as u64;
    let clients = traffic.clients.len() as u64;
    let mut text = format!(
        "{limit}\n  {}\n  denies {} of {} and {} of {}",
        proposal.file_line(&args.key),
        with_percent(stopped, clients),
        counted(clients, "client"),
        with_percent(proposal.denied, traffic.requests),
        counted(traffic.requests, "request"),
    );
    if let Some(bound) = UpperBound::of(limit) {
        let _ = write!(text, "\n  admits at most {bound}");
    }
    if stopped > 0 {
        let rows = proposal.clients.iter().take(args.report.top).map(|client| {
            let denied = with_percent(client.denied, client.requests);
            let requests = grouped(client.requests);
            vec![shown(&client.id), requests, denied, grouped(client.needs)]
        });
        let head = ["most denied clients", "requests", "denied", "would need"];
        let _ = write!(text, "\n{}", table(&head, 1, rows));
    }
    text
}

/// Returns the output of `--json`, an interface that `docs/command.md` describes.
fn as_json(
    traffic: &Traffic,
    needs: &Needs,
    proposals: &[Proposal],
    top: usize,
) -> serde_json::Value {
    let recommendations = proposals.iter().map(|proposal| {
        json!({
            "limit": proposal.limit.to_string(),
            "clients_denied": proposal.clients.len(),
            "denied": proposal.denied,
            "most_denied": proposal.clients.iter().take(top).collect::<Vec<_>>(),
        })
    });
    json!({
        "clients": traffic.clients.len(),
        "requests": traffic.requests,
        "needs": needs,
        "recommendations": recommendations.collect::<Vec<_>>(),
    })
}

/// Returns notes on what the result cannot say.
fn notes(traffic: &Traffic, share: ClientShare) -> Vec<String> {
    let mut notes = Vec::new();
    let missing = PERIODS.iter().filter(|(_, us)| !is_covered(traffic, *us));
    let missing: Vec<_> = missing.map(|(name, _)| *name).collect();
    if !missing.is_empty() {
        let length = format_duration(Duration::from_micros(traffic.last - traffic.first));
        notes.push(format!(
            "the log covers {length}, which is too short to propose limits for what clients need in {}: pass a longer one",
            missing.join(" or ")
        ));
    }
    let clients = traffic.clients.len();
    if share.of(clients) == 0 && !share.is_zero() {
        let percent = 100_usize.div_ceil(clients);
        let clients = counted(clients as u64, "client");
        notes.push(format!(
            "--deny-at-most is less than one of {clients}, so the limits must not deny anybody: to let them deny one, use \
             --deny-at-most {percent}%"
        ));
    }
    notes
}

//! `tollgate suggest`: limits that would have denied at most a share of the clients.
//!
//! Reading the log writes 16 bytes for each request to a temporary file: the instant, and a hash of the client. Passes over that
//! file then find out what each client needs: at each rate the smallest burst, in each window and period the smallest limit
//! with which it would never have been denied. A pass looks at a part of the clients only, so memory is bounded whatever
//! their number, and nothing is estimated.

mod candidates;
mod choice;
mod gap;
mod measure;
mod share;
mod spool;
mod verify;

use std::fmt::Write;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use self::{
    candidates::Kind, measure::Measured, share::Share, spool::Spool, verify::Recommendation,
};
use crate::{
    NOT_DONE,
    clients::{Distinct, Names, hash},
    limits::Bound,
    log::{Key, LogArgs, LogEnd, Wanted},
    output::{
        ReportArgs, counted, grouped, instant, most_denied, print, print_json, say, shown, table,
        with_percent,
    },
};

/// The most clients that are named if the share rounds down to nobody.
const NAMED: u64 = 5;

/// What `suggest` is asked.
#[derive(Args, Debug)]
pub(crate) struct SuggestArgs {
    /// What identifies a client: ip (IPv6 by /64), /48, everyone, or the name of a field
    #[arg(long, default_value = "ip", value_name = "KEY")]
    key: Key,
    /// The largest share of clients that may be denied, such as 0.1% or 0.001
    #[arg(long, default_value = "1%", value_name = "SHARE")]
    deny_at_most: Share,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    report: ReportArgs,
}

/// Runs the command.
pub(crate) fn run(args: &SuggestArgs) -> Result<u8> {
    let (mut spool, end, names, clients) = read(args)?;
    let (about, share) = (clients.count(), args.deny_at_most);
    let kept = share.of(about + about / 50).max(NAMED) + 2;
    let measured = measure::measure(&mut spool, about, kept)?;
    let by_share = share.of(measured.clients);
    let at_most = by_share.min(measured.most_denied());
    if at_most < by_share {
        say(format_args!(
            "--deny-at-most would be {}, and at most {} are remembered: the share is cut to these",
            counted(by_share, "client"),
            grouped(at_most)
        ));
    }
    let at_most = usize::try_from(at_most)?;
    let choices = match measured.clients {
        0 => Vec::new(),
        _ => choice::choose(&measured, at_most),
    };
    let recommendations = verify::verify(&mut spool, &measured, choices, &names)?;
    let suggestion = Suggestion {
        args,
        end,
        at_most,
        measured,
        recommendations,
        names,
    };
    match args.report.json {
        true => print_json(&suggestion.as_json())?,
        false => print(&suggestion.text())?,
    }
    Ok(suggestion.problem().map_or(0, |problem| {
        say(format_args!("tollgate: {problem}"));
        NOT_DONE
    }))
}

/// Reads the log into a spool.
fn read(args: &SuggestArgs) -> Result<(Spool, LogEnd, Names, Distinct)> {
    let mut wanted = Wanted::default();
    let key = wanted.key(args.key.clone());
    let mut spool = Spool::create()?;
    let (mut names, mut clients) = (Names::default(), Distinct::default());
    let mut log = args.log.open(wanted)?;
    while let Some(record) = log.next_record()? {
        let Some(id) = &record.ids[key] else { continue };
        let client = hash(id);
        clients.add(client);
        names.add(client, id);
        spool.push(record.at, client)?;
    }
    Ok((spool, log.end(), names, clients))
}

/// The result.
struct Suggestion<'a> {
    args: &'a SuggestArgs,
    end: LogEnd,
    /// The clients that may be denied at most.
    at_most: usize,
    measured: Measured,
    recommendations: Vec<Recommendation>,
    names: Names,
}

impl Suggestion<'_> {
    fn problem(&self) -> Option<String> {
        let without_clients = || {
            let key = shown(&self.args.key.to_string());
            format!("no line has a client by the key `{key}`: name a field of the lines with --key")
        };
        match self.measured.clients {
            0 => self.end.problem().or_else(|| Some(without_clients())),
            _ => None,
        }
    }

    fn text(&self) -> String {
        let (measured, at_most) = (&self.measured, self.at_most);
        let mut text = self.end.sentence() + "\n";
        if measured.clients == 0 {
            return text;
        }
        for line in [self.traffic(), self.allowance()]
            .into_iter()
            .chain(self.advice())
        {
            let _ = writeln!(text, "{line}");
        }
        let rows = Kind::Gcra.candidates().map(|(place, candidate)| {
            let bursts = [at_most, 0].map(|order| grouped(measured.need(place, order).max(1)));
            [vec![candidate.words()], bursts.into()].concat()
        });
        let head = [
            "rate",
            "burst that denies at most the share",
            "that denies nobody",
        ];
        let _ = writeln!(text, "\n{}", table(&head, 1, rows));
        for recommendation in &self.recommendations {
            self.add(&mut text, recommendation);
        }
        text
    }

    /// The measurement, in words.
    fn traffic(&self) -> String {
        let (first, last) = self.measured.span;
        format!(
            "{} by {} from {} to {}",
            counted(self.measured.requests, "request"),
            counted(self.measured.clients, "client"),
            instant(first),
            instant(last)
        )
    }

    /// How many clients may be denied, in words.
    fn allowance(&self) -> String {
        let (share, at_most) = (self.args.deny_at_most, grouped(self.at_most as u64));
        format!("at most {share} of the clients may be denied: {at_most}")
    }

    /// Names who stands out, if the share rounds down to nobody.
    fn advice(&self) -> Option<String> {
        let (share, clients) = (self.args.deny_at_most, self.measured.clients);
        if self.at_most > 0 || share.is_zero() || clients == 0 {
            return None;
        }
        let most = usize::try_from(NAMED.min(clients / 2)).ok()?;
        let outstanding = choice::outstanding(&self.measured, most);
        let needed = Share::reaching(outstanding.len() as u64, clients);
        let names = outstanding
            .iter()
            .map(|client| shown(&self.names.of(*client)));
        let names: Vec<_> = names.collect();
        (!names.is_empty()).then(|| {
            let argument = needed.to_string().replace(' ', "");
            format!(
                "{share} is nobody, but these stand out: {}. Use --deny-at-most {argument}",
                names.join(", ")
            )
        })
    }

    fn add(&self, text: &mut String, recommendation: &Recommendation) {
        let Recommendation {
            choice,
            limit,
            denied,
            clients,
        } = recommendation;
        let (requests, stopped) = (self.measured.requests, clients.len() as u64);
        let _ = writeln!(
            text,
            "\n{limit}\n  {}\n  denies {} of {} and {} of {}\n  reason: {}",
            recommendation.file_line(&self.args.key),
            with_percent(*denied, requests),
            counted(requests, "request"),
            with_percent(stopped, self.measured.clients),
            counted(self.measured.clients, "client"),
            choice.reason,
        );
        if let Some(bound) = Bound::of(limit) {
            let _ = writeln!(text, "  admits at most {bound}");
        }
        if stopped > 0 {
            let _ = writeln!(text, "{}", most_denied(clients, self.args.report.top));
        }
    }

    /// What `--json` prints. It is an interface: `docs/command.md` describes it.
    fn as_json(&self) -> Value {
        let recommendations = self.recommendations.iter().map(|recommendation| {
            let choice = &recommendation.choice;
            let mut json = choice.candidate.as_json(choice.size);
            json["limit"] = recommendation.limit.to_string().into();
            json["clients_denied"] = recommendation.clients.len().into();
            json["denied"] = recommendation.denied.into();
            json
        });
        let recommendations: Vec<_> = recommendations.collect();
        json!({"clients": self.measured.clients, "recommendations": recommendations})
    }
}

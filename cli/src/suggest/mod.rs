//! `tollgate suggest`: limits that would have denied at most a share of the clients.
//!
//! The log is kept in memory, 16 bytes for each request, and sorted by client. What each client needs is then found out: at each
//! rate the smallest burst, in each window and period the smallest limit with which it would never have been denied. Nothing is
//! estimated.

mod candidates;
mod choice;
mod measure;
mod verify;

use std::{
    fmt::{self, Write},
    str::FromStr,
};

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use self::{
    candidates::Kind,
    measure::{Measured, Traffic},
    verify::Recommendation,
};
use crate::{
    NOT_DONE,
    limits::Bound,
    log::{Key, LogArgs, LogEnd, Wanted},
    output::{
        ReportArgs, counted, grouped, instant, most_denied, print, print_json, say, shown, table,
        with_percent,
    },
};

/// The most clients that are named if the share rounds down to nobody.
const NAMED: usize = 5;

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
    let (traffic, end) = read(args)?;
    let at_most = usize::try_from(args.deny_at_most.of(traffic.clients()))?;
    let measured = measure::measure(&traffic, at_most.max(NAMED) + 2);
    let tried = choice::choose(&measured, at_most).into_iter();
    let tried = tried.filter_map(|choice| verify::verify(&traffic, &measured, choice));
    let recommendations = tried.collect();
    let suggestion = Suggestion {
        args,
        end,
        at_most,
        measured,
        recommendations,
        traffic,
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

fn read(args: &SuggestArgs) -> Result<(Traffic, LogEnd)> {
    let mut wanted = Wanted::default();
    let key = wanted.key(args.key.clone());
    let mut traffic = Traffic::default();
    let mut log = args.log.open(wanted)?;
    while let Some(record) = log.next_record()? {
        if let Some(id) = &record.ids[key] {
            traffic.add(id, record.at)?;
        }
    }
    traffic.sort();
    Ok((traffic, log.end()))
}

/// The result.
struct Suggestion<'a> {
    args: &'a SuggestArgs,
    end: LogEnd,
    /// The clients that may be denied at most.
    at_most: usize,
    measured: Measured,
    recommendations: Vec<Recommendation>,
    traffic: Traffic,
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
        let most = NAMED.min(usize::try_from(clients / 2).ok()?);
        let outstanding = choice::outstanding(&self.measured, most);
        let needed = Share::reaching(outstanding.len() as u64, clients);
        let names = outstanding
            .iter()
            .map(|client| shown(self.traffic.id(*client)));
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

/// A share in billionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share(u64);

/// The whole, in billionths.
const WHOLE: u64 = 1_000_000_000;

impl Share {
    /// This share of a number, rounded down.
    fn of(self, number: u64) -> u64 {
        let part = u128::from(number) * u128::from(self.0) / u128::from(WHOLE);
        u64::try_from(part).unwrap_or(number)
    }

    fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The least share that is this part of a number of clients, in hundredths of a per cent.
    fn reaching(part: u64, number: u64) -> Self {
        const STEP: u64 = WHOLE / 10_000;
        let share = u128::from(part) * u128::from(WHOLE);
        let share = share.div_ceil(u128::from(number.max(1)) * u128::from(STEP));
        Self(u64::try_from(share).unwrap_or(STEP) * STEP)
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let error = || {
            format!(
                "`{text}` is no share of clients: use a percentage such as 0.1%, or a fraction such as 0.001"
            )
        };
        let trimmed = text.trim();
        let (number, part) = match trimmed.strip_suffix('%') {
            Some(number) => (number.trim_end(), 100),
            None => (trimmed, 1),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_empty = whole.is_empty() && fraction.is_empty();
        if is_empty || !is_digits(whole) || !is_digits(fraction) || whole.len() > 3 {
            return Err(error());
        }
        // Nine digits after the point make it a number of billionths.
        let billionths = format!("{whole}{fraction:0<9.9}").parse::<u64>();
        match billionths.map_err(|_| error())? / part {
            share @ 0..=WHOLE => Ok(Self(share)),
            _ => Err(error()),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = WHOLE / 100;
        let fraction = format!("{:07}", self.0 % percent);
        let fraction = fraction.trim_end_matches('0');
        match fraction.is_empty() {
            true => write!(f, "{} %", self.0 / percent),
            false => write!(f, "{}.{fraction} %", self.0 / percent),
        }
    }
}

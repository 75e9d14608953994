//! `tollgate suggest`: limits that would have denied at most a share of the clients.
//!
//! Reading the log writes 16 bytes for each request to a temporary file: the instant, and a hash of the client. Passes over that
//! file then find out what each client needs: at each rate the smallest burst, in each window and period the smallest limit
//! with which it would never have been denied. A pass looks at a part of the clients only, so memory is bounded whatever
//! their number, and nothing is estimated.

mod candidates;
mod choice;
mod demand;
mod gap;
mod measure;
mod names;
mod share;
mod spool;
mod verify;

use clap::Args;

pub(crate) use self::{
    candidates::{Candidate, Kind},
    verify::Recommendation,
};
use self::{measure::Measured, names::Names, share::Share, spool::Spool};
use crate::{
    args::{LogArgs, ReportArgs},
    distinct::{Distinct, hash},
    failure::Failure,
    key::Key,
    log::{Log, LogEnd},
    output::{grouped, instant},
};

/// What `suggest` is asked.
#[derive(Args, Debug)]
pub(crate) struct SuggestArgs {
    /// What identifies a client: ip (IPv6 by /64), /48, everyone, or the name of a field
    #[arg(long, default_value = "ip", value_name = "KEY")]
    pub(crate) key: Key,
    /// The largest share of clients that may be denied, such as 0.1% or 0.001
    #[arg(long, default_value = "1%", value_name = "SHARE")]
    pub(crate) deny_at_most: Share,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// The result.
pub(crate) struct Suggestion {
    pub(crate) end: LogEnd,
    pub(crate) key: Key,
    share: Share,
    /// The clients that may be denied at most.
    pub(crate) at_most: u64,
    pub(crate) measured: Measured,
    pub(crate) recommendations: Vec<Recommendation>,
    pub(crate) names: Names,
    pub(crate) notes: Vec<String>,
}

impl Suggestion {
    /// The measurement, in words.
    pub(crate) fn traffic(&self) -> String {
        let Measured {
            requests,
            clients,
            span: (first, last),
            ..
        } = &self.measured;
        format!(
            "{} requests by {} clients from {} to {}",
            grouped(*requests),
            grouped(*clients),
            instant(*first),
            instant(*last)
        )
    }

    /// How many clients may be denied, in words.
    pub(crate) fn allowance(&self) -> String {
        let (share, at_most) = (self.share, grouped(self.at_most));
        format!("at most {share} of the clients may be denied: {at_most}")
    }
}

/// Runs the command.
pub(crate) fn suggest(args: &SuggestArgs) -> Result<Suggestion, Failure> {
    let (mut spool, end, names, clients) = read(args)?;
    let about = clients.count();
    let kept = args.deny_at_most.of(about + about / 50) + 2;
    let measured = measure::measure(&mut spool, about, kept)?;
    let by_share = args.deny_at_most.of(measured.clients);
    let at_most = by_share.min(measured.most_denied());
    let chosen = choice::choose(&measured, at_most);
    let recommendations = verify::verify(&mut spool, &measured, chosen)?;
    let mut notes = Vec::new();
    if measured.clients == 0 {
        notes.push(format!(
            "no line has a client by the key `{}`: nothing can be suggested",
            args.key
        ));
    }
    if at_most < by_share {
        notes.push(format!(
            "--deny-at-most would be {} clients, and at most {} are remembered: the share is cut to these",
            grouped(by_share),
            grouped(at_most)
        ));
    }
    Ok(Suggestion {
        end,
        key: args.key.clone(),
        share: args.deny_at_most,
        at_most,
        measured,
        recommendations,
        names,
        notes,
    })
}

/// Reads the log into a spool.
fn read(args: &SuggestArgs) -> Result<(Spool, LogEnd, Names, Distinct), Failure> {
    let mut wanted = args.log.wanted();
    let key = args.key.plan(&mut wanted);
    let mut spool = Spool::create()?;
    let (mut names, mut clients) = (Names::default(), Distinct::default());
    let mut log = Log::open(&args.log.files(), wanted)?;
    while let Some(record) = log.next_record()? {
        let Some(id) = key.id(&record) else { continue };
        let client = hash(&id);
        clients.add(client);
        names.add(client, &id);
        spool.push(record.at, client)?;
    }
    Ok((spool, log.end(), names, clients))
}

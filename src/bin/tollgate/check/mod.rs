//! `tollgate check`: mistakes in files of limits, before they are deployed, and what a client would get.
//!
//! The exit code is 0 if the files are valid, 1 if they contain a mistake or if the limit or id on the command line does not
//! exist, and 2 if a file cannot be read. Warnings go to standard error.
//!
//! Ids are read as from requests: for a limit on domains, `www.example.com` is `example.com`. An address is looked up as it is:
//! if a rule counts IPv6 clients by /64, use the first address of the range.

mod outcome;
mod summary;

use std::{
    error::Error,
    io::{self, Write},
};

use clap::Args;
use tollgate::limit::LimitsError;

use self::outcome::{Mistake, outcome};
use crate::{
    failure::{FAILED, Failure, NOT_DONE},
    limit_files::LimitFiles,
    output::print,
};

/// What `check` is asked.
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
pub(crate) fn run(args: &CheckArgs) -> Result<(), Failure> {
    let (pairs, rest) = args.clients.as_chunks::<2>();
    if let [limit] = rest {
        let message = format!("`{limit}` has no id after it: write a limit, and then an id");
        return Err(Failure::Usage(message));
    }
    let (mistake, code) = match args.limits.read() {
        Ok(limits) => match outcome(&limits, pairs, args.json) {
            Ok(outcome) => return print(&format!("{outcome}\n")),
            Err(mistake) => (mistake, NOT_DONE),
        },
        Err(error) if is_of_file(&error) => (Mistake::from(error), FAILED),
        Err(error) => (Mistake::from(error), NOT_DONE),
    };
    let text = mistake.write(args.json);
    match args.json {
        true => print(&format!("{text}\n"))?,
        false => {
            let _ = writeln!(io::stderr(), "{text}");
        }
    }
    Err(Failure::Said(code))
}

/// Whether a file could not be read at all.
fn is_of_file(error: &LimitsError) -> bool {
    let mut source = error.source();
    while let Some(error) = source {
        if error.is::<io::Error>() {
            return true;
        }
        source = error.source();
    }
    false
}

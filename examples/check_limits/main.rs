//! Checks limit files before they are deployed, for example in CI, and shows what a client would get.
//!
//! ```text
//! cargo run --example check_limits -- --defaults defaults.yml --overrides overrides.yml
//! cargo run --example check_limits -- --defaults defaults.yml --overrides overrides.yml \
//!     NewOrdersPerAccount 12345678
//! ```
//!
//! The exit code is 0 if the files are valid; 1 if they contain a mistake, or if the limit or id on the command line
//! does not exist; and 2 for a usage error. With `--format json`, the result is one line of JSON on standard output
//! in each case. In text, mistakes go to standard error. Warnings always do.
//!
//! Ids are read as from requests: for a limit on domains, `www.example.com` is `example.com`. An address is looked up
//! as it is: if a rule counts IPv6 clients by /64, use the first address of the range.

mod args;
#[path = "../shared/bound.rs"]
mod bound;
#[path = "../shared/client.rs"]
mod client;
mod report;
mod summary;

use std::{
    env,
    io::{self, Write},
    process::ExitCode,
};

use tollgate::Limits;

use self::{
    args::{Args, Format},
    report::{Mistake, Report},
};

/// The exit code if a mistake was found.
const BAD: u8 = 1;

/// The exit code if nothing could be checked or reported.
const FAILED: u8 = 2;

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(io::stderr).init();
    let args = match Args::parse(env::args_os().skip(1)) {
        Ok(args) => args,
        Err(error) => {
            // Standard output may be closed, but the exit code still counts.
            let _ = writeln!(io::stderr(), "check_limits: {error}");
            return ExitCode::from(FAILED);
        }
    };
    let told = match check(&args) {
        Ok(report) => say(&report.write(args.format)).map(|()| ExitCode::SUCCESS),
        Err(mistake) => {
            let text = mistake.write(args.format);
            let told = match args.format {
                Format::Text => writeln!(io::stderr(), "{text}"),
                Format::Json => say(&text),
            };
            told.map(|()| ExitCode::from(BAD))
        }
    };
    told.unwrap_or(ExitCode::from(FAILED))
}

fn check(args: &Args) -> Result<Report, Mistake> {
    let mut recipe = Limits::builder().defaults_file(&args.defaults);
    if let Some(overrides) = &args.overrides {
        recipe = recipe.overrides_file(overrides);
    }
    Report::new(&recipe.build()?, &args.clients)
}

fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

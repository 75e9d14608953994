//! Checks files of limits before they are put in force, as in CI, and says what a client would get.
//!
//! ```text
//! cargo run --example check_limits -- --defaults defaults.yml --overrides overrides.yml
//! cargo run --example check_limits -- --defaults defaults.yml --overrides overrides.yml \
//!     NewOrdersPerAccount 12345678
//! ```
//!
//! The exit code is 0 if the files are good, 1 if there is a mistake in them, or a limit or an id that is asked
//! for is not one, and 2 if the program is called wrongly. With `--format json`, what is found is one line of
//! JSON on standard output, be it good or not; in text, a mistake is on standard error. Warnings are always there.
//!
//! An id is taken as a request brings it: `www.example.com` is `example.com` to a limit on domains. An address is
//! looked up as it stands: where a rule counts IPv6 clients by their /64, ask for its first address.

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

/// The exit code for what is checked and not good.
const BAD: u8 = 1;

/// The exit code if nothing could be checked, or told.
const FAILED: u8 = 2;

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(io::stderr).init();
    let args = match Args::parse(env::args_os().skip(1)) {
        Ok(args) => args,
        Err(error) => {
            // Nobody may be left to read it, and the exit code still counts.
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

//! The arguments that `replay` and `suggest` share.

use std::path::PathBuf;

use clap::Args;

use crate::log::Wanted;

/// The logs to read.
#[derive(Args, Clone, Debug)]
pub(crate) struct LogArgs {
    /// Access logs in Common or Combined Log Format or JSON lines, plain or gzip; standard input without any, or for -
    #[arg(value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// The field of JSON lines with the time, if it is not a usual one
    #[arg(long, value_name = "FIELD")]
    time: Option<String>,
    /// The field of JSON lines with the client's address, if it is not a usual one
    #[arg(long, value_name = "FIELD")]
    address: Option<String>,
}

impl LogArgs {
    /// The files to read, with `-` for standard input.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        match self.logs.is_empty() {
            true => vec!["-".into()],
            false => self.logs.clone(),
        }
    }

    /// Starts with the time, which every line needs. Keys and rules add what they need.
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted {
            time: self.time.clone(),
            address_field: self.address.clone(),
            ..Wanted::default()
        }
    }
}

/// The forms of the result.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReportArgs {
    /// Prints the result as JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,
    /// Also writes the result as a page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// The number of denied clients to list
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) top: usize,
}

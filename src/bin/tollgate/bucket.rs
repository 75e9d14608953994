//! `tollgate show` and `tollgate reset`: one bucket on Redis.

use std::{
    io::{self, BufRead, Write, stderr, stdin},
    time::Duration,
};

use clap::Args;
use serde_json::{Value, json};
use tokio::runtime;
use tollgate::{
    Decision, Limiter, Limits, RedisBackend, Transaction, backend::redis::KeyForm,
    limit::format_duration,
};

use crate::{
    client::Client,
    failure::{Failure, NOT_DONE},
    limit_files::{LimitFiles, named},
    output::{print, print_json},
};

/// A bucket on Redis.
#[derive(Args, Debug)]
pub(crate) struct BucketArgs {
    /// The server, as for `RedisBackend::new`
    #[arg(long, value_name = "URL", default_value = "redis://127.0.0.1:6379")]
    redis: String,
    /// The prefix of keys on the server, if it is not the usual one
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
    #[command(flatten)]
    limits: LimitFiles,
    /// Prints the result as one line of JSON, for programs
    #[arg(long)]
    json: bool,
    /// The name of the limit
    limit: String,
    /// The id of the client
    id: String,
}

/// What `reset` is asked.
#[derive(Args, Debug)]
pub(crate) struct ResetArgs {
    #[command(flatten)]
    bucket: BucketArgs,
    /// Does not ask
    #[arg(long)]
    yes: bool,
}

/// Shows a bucket.
pub(crate) fn show(args: &BucketArgs) -> Result<(), Failure> {
    let (limits, client) = args.look_up()?;
    let decision = on_runtime(async {
        let limiter = args.limiter(limits)?;
        let transaction = Transaction::new(args.limit.as_str(), &args.id);
        limiter.peek(&transaction).await.map_err(Failure::store)
    })?;
    match args.json {
        true => print_json(&as_json(&client, &decision)),
        false => print(&as_text(&client, &decision)),
    }
}

/// Resets a bucket, after asking.
pub(crate) fn reset(args: &ResetArgs) -> Result<(), Failure> {
    let (limits, client) = args.bucket.look_up()?;
    if !args.yes && !confirmed(&client) {
        let _ = writeln!(stderr(), "nothing was reset");
        return Err(Failure::Said(NOT_DONE));
    }
    let args = &args.bucket;
    on_runtime(async {
        let limiter = args.limiter(limits)?;
        let transaction = Transaction::new(args.limit.as_str(), &args.id);
        let reset = limiter.reset(std::slice::from_ref(&transaction)).await;
        reset.map_err(Failure::store)
    })?;
    match args.json {
        true => print_json(&json!({"key": client.key, "reset": true})),
        false => print(&format!("{} is full again\n", client.key)),
    }
}

impl BucketArgs {
    fn look_up(&self) -> Result<(Limits, Client), Failure> {
        let limits = self.limits.read()?;
        let named = named(&limits, &self.limit)?;
        let client = Client::look_up(&limits, named, &self.id)
            .map_err(|error| Failure::Usage(format!("limit `{}`: {error}", self.limit)))?;
        Ok((limits, client))
    }

    fn limiter(&self, limits: Limits) -> Result<Limiter, Failure> {
        let mut builder = RedisBackend::builder(&self.redis);
        if let Some(prefix) = &self.prefix {
            let keys = KeyForm::with_prefix(prefix);
            builder = builder.keys(keys.map_err(|error| Failure::Usage(error.to_string()))?);
        }
        let backend = builder.build();
        let backend = backend.map_err(|error| Failure::Usage(error.to_string()))?;
        Limiter::try_new(limits, backend).map_err(Failure::store)
    }
}

fn on_runtime<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(Failure::Output)?.block_on(work)
}

/// Asks on standard error, and reads a line of standard input.
fn confirmed(client: &Client) -> bool {
    let question = format!(
        "reset {}, so that `{}` has its whole limit again ({})? [y/N] ",
        client.key, client.id, client.summary
    );
    let mut out = stderr().lock();
    let _ = write!(out, "{question}").and_then(|()| out.flush());
    let mut answer = String::new();
    let read: io::Result<_> = stdin().lock().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}

fn as_json(client: &Client, decision: &Decision) -> Value {
    let us = |wait: Duration| (wait != Decision::NEVER).then_some(wait.as_micros());
    json!({
        "client": client,
        "limited": decision.limited(),
        "allowed": decision.allowed() && !decision.would_be_denied(),
        "remaining": decision.remaining(),
        "next_after_us": us(decision.next_after()),
        "reset_after_us": us(decision.reset_after()),
    })
}

fn as_text(client: &Client, decision: &Decision) -> String {
    let wait = |wait: Duration| match wait {
        Decision::NEVER => "not known".to_owned(),
        Duration::ZERO => "now".to_owned(),
        wait => format!("in {}", format_duration(wait)),
    };
    let remaining = decision.remaining();
    let remaining = remaining.map_or_else(|| "not limited".to_owned(), |left| left.to_string());
    let bound = client.bound.as_ref();
    let bound = bound.map_or_else(String::new, |bound| format!("\n  at most: {bound}"));
    format!(
        "{} {}\n  limit: {}{bound}\n  bucket: {}\n  remaining: {remaining}\n  next request: {}\n  full again: {}\n",
        client.limit,
        client.id,
        client.summary,
        client.key,
        wait(decision.next_after()),
        wait(decision.reset_after()),
    )
}

//! `tollgate show` and `tollgate reset`, for one bucket on Redis or in PostgreSQL.

use std::{
    io::{BufRead, Write, stderr, stdin},
    slice,
    time::Duration,
};

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;
use tokio::runtime;
use tollgate::{
    Limit, Limiter, Limits, RedisBackend, Transaction, backend::redis::KeyForm,
    limit::format_duration, limiter::LimiterError,
};
use tollgate_postgres::PostgresBackend;

use crate::{
    NOT_DONE,
    limits::{LimitFiles, LimitedClient},
    output::{print, print_json, say, shown},
};

/// The time for connecting to the store and for its answer. It is longer than for a request, because a person waits.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A bucket in a store.
#[derive(Args, Debug)]
pub(crate) struct BucketArgs {
    /// The server, as for `RedisBackend::new` or `PostgresBackend::connect`
    #[arg(
        long,
        visible_alias = "redis",
        value_name = "URL",
        default_value = "redis://127.0.0.1:6379"
    )]
    store: String,
    /// The prefix of keys on the server, if it is not the usual one
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
    /// The number of hash tags of keys on the server, if it is not the usual one
    #[arg(long, value_name = "N")]
    tags: Option<u16>,
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

/// The arguments of `reset`.
#[derive(Args, Debug)]
pub(crate) struct ResetArgs {
    #[command(flatten)]
    bucket: BucketArgs,
    /// Does not ask
    #[arg(long)]
    yes: bool,
}

/// Shows a bucket.
pub(crate) fn show(args: &BucketArgs) -> Result<u8> {
    let limits = args.limits.usable()?;
    let client = LimitedClient::look_up(&limits, &args.limit, &args.id)?;
    let decision = args.ask(limits.clone(), async |limiter, bucket| {
        limiter.peek(bucket).await
    })?;
    let us = |wait: Option<Duration>| wait.map(|wait| wait.as_micros());
    let wait = |wait: Option<Duration>| match wait {
        None => "not known".to_owned(),
        Some(Duration::ZERO) => "now".to_owned(),
        Some(wait) => format!("in {}", format_duration(wait)),
    };
    let next = decision.next_after();
    let reset = decision.reset_after();
    let remaining = decision.remaining();
    if args.json {
        print_json(&json!({
            "client": client,
            "limited": decision.limited(),
            "allowed": decision.allowed() && !decision.would_be_denied(),
            "remaining": remaining,
            "next_after_us": us(next),
            "reset_after_us": us(reset),
        }))?;
    } else {
        print(&format!(
            "{client}  remaining: {}\n  next request: {}\n  full again: {}\n",
            remaining.map_or_else(|| "not limited".to_owned(), |left| left.to_string()),
            wait(next),
            wait(reset),
        ))?;
    }
    Ok(0)
}

/// Resets a bucket, after asking.
pub(crate) fn reset(args: &ResetArgs) -> Result<u8> {
    let limits = args.bucket.limits.usable()?;
    let limit = &args.bucket.limit;
    let id = &args.bucket.id;
    let client = LimitedClient::look_up(&limits, limit, id)?;
    if client.values.and_then(Limit::algorithm_key).is_none() {
        let id = shown(id);
        let summary = &client.summary;
        say(format_args!(
            "`{id}` is {summary} by `{limit}`, which has no bucket for it: nothing was reset"
        ));
        return Ok(NOT_DONE);
    }
    if !args.yes && !is_confirmed(&client, id) {
        say("nothing was reset");
        return Ok(NOT_DONE);
    }
    args.bucket.ask(limits.clone(), async |limiter, bucket| {
        limiter.reset(slice::from_ref(bucket)).await
    })?;
    if args.bucket.json {
        print_json(&json!({"key": client.key, "reset": true}))?;
    } else {
        print(&format!("{} is full again\n", shown(&client.key)))?;
    }
    Ok(0)
}

impl BucketArgs {
    fn limiter(&self, limits: Limits) -> Result<Limiter> {
        if self.is_postgres() {
            let postgres = PostgresBackend::connect(&self.store)?.deadline(TIMEOUT);
            return Ok(Limiter::try_new(limits, postgres)?);
        }
        let mut keys = KeyForm::default();
        if let Some(prefix) = &self.prefix {
            keys = KeyForm::with_prefix(prefix)?;
        }
        if let Some(tags) = self.tags {
            keys = keys.tags(tags)?;
        }
        let redis = RedisBackend::builder(&self.store).keys(keys);
        Ok(Limiter::try_new(limits, redis.timeout(TIMEOUT).build()?)?)
    }

    fn is_postgres(&self) -> bool {
        self.store.starts_with("postgres")
    }

    /// Asks the store about the bucket. An error names the server, without a user, a password and parameters.
    fn ask<T>(
        &self,
        limits: Limits,
        question: impl AsyncFnOnce(&Limiter, &Transaction<'_>) -> Result<T, LimiterError>,
    ) -> Result<T> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        runtime?.block_on(async {
            let limiter = self.limiter(limits)?;
            let bucket = Transaction::new(self.limit.as_str(), &self.id);
            let server = self.store.split('?').next().unwrap_or_default();
            let server = server.split('@').next_back().unwrap_or_default();
            let answer = question(&limiter, &bucket).await;
            let name = if self.is_postgres() {
                "PostgreSQL"
            } else {
                "Redis"
            };
            answer.with_context(|| format!("{name} at {server}"))
        })
    }
}

/// Asks on standard error, and reads a line of standard input.
fn is_confirmed(client: &LimitedClient<'_>, id: &str) -> bool {
    let key = shown(&client.key);
    let id = shown(id);
    let summary = &client.summary;
    let mut out = stderr().lock();
    let _ = write!(
        out,
        "reset {key}, so that `{id}` has its whole limit again ({summary})? [y/N] "
    );
    let _ = out.flush();
    let mut answer = String::new();
    let read = stdin().lock().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}

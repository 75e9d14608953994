//! Limits that survive a restart, without a server: buckets in a file, in the embedded database `redb`.
//!
//! It reads a client's id from each line, and spends from the client's budget and from one that all clients share:
//!
//! ```sh
//! for i in 1 2 3 4; do echo alice; done | cargo run --example embedded_store -- /tmp/buckets.redb 3 24
//! ```
//!
//! Three pass, and one is denied. Run it again, and all are denied, because the file keeps the buckets for 24 hours. You can kill
//! it at any time: every decision that was printed is in the file.

mod store;
mod table;

use std::{
    env,
    error::Error,
    io::{self, BufRead},
    sync::Arc,
    time::Duration,
};

use tokio::sync::Semaphore;
use tollgate::{Limit, Limiter, Limits, Transaction};

use self::store::EmbeddedStore;

/// The number of simultaneous decisions.
const SIMULTANEOUS: u32 = 64;

const USAGE: &str = "usage: embedded_store FILE [REQUESTS HOURS]";

#[tokio::main]
async fn main() {
    if let Err(error) = run().await {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let args: Vec<_> = env::args().skip(1).collect();
    let (path, requests, hours) = match &*args {
        [path] => (path, 3, 24),
        [path, requests, hours] => (path, requests.parse()?, hours.parse::<u32>()?),
        _ => return Err(USAGE.into()),
    };
    let period = Duration::from_secs(3600) * hours;
    let limits = Limits::builder()
        .limit("client", Limit::new(requests, requests, period)?)
        .limit("all", Limit::new(10 * requests, 10 * requests, period)?)
        .build()?;
    let limiter = Limiter::new(limits, EmbeddedStore::open(path)?);
    let places = Arc::new(Semaphore::new(SIMULTANEOUS as usize));
    let mut lines = lines();
    while let Some(id) = lines.recv().await {
        let place = Arc::clone(&places).acquire_owned().await?;
        let limiter = limiter.clone();
        tokio::spawn(async move {
            match spend(&limiter, &id).await {
                Ok(answer) => println!("{id}: {answer}"),
                Err(error) => eprintln!("{id}: {error}"),
            }
            drop(place);
        });
    }
    let _all = places.acquire_many(SIMULTANEOUS).await?;
    Ok(())
}

/// Charges both buckets, or none.
async fn spend(limiter: &Limiter, id: &str) -> Result<String, Box<dyn Error + Send + Sync>> {
    let batch = [
        Transaction::new("client", id),
        Transaction::new("all", "all"),
    ];
    let decided = limiter.spend_batch(&batch).await?;
    Ok(if decided.allowed() {
        "allowed".into()
    } else {
        format!("denied for {:?}", decided.decision().retry_after())
    })
}

/// Reads lines on a thread of its own, because reading blocks.
fn lines() -> tokio::sync::mpsc::Receiver<String> {
    let (sender, lines) = tokio::sync::mpsc::channel(1);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    lines
}

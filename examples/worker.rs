//! A worker without HTTP: it works on two jobs of each customer at a time, and sends five mails per second.
//!
//! ```sh
//! cargo run --example worker
//! ```

#[path = "shared/failure.rs"]
mod failure;

use std::{collections::VecDeque, time::Duration};

use tokio::task::{JoinError, JoinSet};
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend,
    limiter::{LimitHandle, LimiterError, Permit},
};

use self::failure::Failure;

/// A job of a customer.
#[derive(Clone, Copy, Debug)]
struct Job {
    customer: &'static str,
    number: u32,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let wait = Duration::from_secs(60);
    let limits = Limits::builder()
        .limit("jobs", Limit::concurrent(2))
        .limit("mails", Limit::per_second(5).burst(1).max_wait(wait))
        .build()?;
    let limiter = Limiter::new(limits, MemoryBackend::new());
    let jobs = limiter.limit("jobs")?;
    let mails = limiter.limit("mails")?;

    let job = |number| ["alice", "bob"].map(|customer| Job { customer, number });
    let mut queue: VecDeque<Job> = (1..=4).flat_map(job).collect();
    let mut running = JoinSet::new();
    while let Some(job) = queue.pop_front() {
        match jobs.enter(job.customer).await? {
            Ok(permit) => {
                running.spawn(work(job, permit, mails.clone()));
            }
            Err(_) => {
                // The customer has two jobs under way. Tries again when any job has ended.
                queue.push_back(job);
                report(running.join_next().await)?;
            }
        }
    }
    while !running.is_empty() {
        report(running.join_next().await)?;
    }
    limiter.close().await?;
    Ok(())
}

/// Sends the mail of a job when it is its turn. The permit comes back when this ends, however it ends.
async fn work(job: Job, _permit: Permit, mails: LimitHandle) -> Result<Job, LimiterError> {
    // A line of eight mails is far below the minute that a mail may wait.
    mails.acquire("smtp.example.com").await?;
    Ok(job)
}

fn report(ended: Option<Result<Result<Job, LimiterError>, JoinError>>) -> Result<(), Failure> {
    if let Some(done) = ended {
        let Job { customer, number } = done??;
        println!("mail {number} of {customer} is sent");
    }
    Ok(())
}

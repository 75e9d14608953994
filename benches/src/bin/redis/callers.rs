//! Callers that call at the same time.

use std::time::Instant;

pub(crate) const CALLERS: u32 = 256;

/// Runs all callers at once, each with a number of its own, and returns their results.
pub(crate) async fn all<F>(caller: impl Fn(u32) -> F) -> Vec<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    all_of(CALLERS, caller).await
}

/// Runs `count` callers at once, each with its own number, and returns their results.
async fn all_of<F>(count: u32, caller: impl Fn(u32) -> F) -> Vec<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let callers: Vec<_> = (0..count)
        .map(|number| tokio::spawn(caller(number)))
        .collect();
    let mut results = Vec::with_capacity(callers.len());
    for caller in callers {
        results.push(caller.await.expect("no call fails"));
    }
    results
}

/// Runs all callers at once, each with a number of its own, and returns the calls per second that they make together. Each
/// makes [`each`] of them.
pub(crate) async fn rate<F>(calls: u32, caller: impl Fn(u32) -> F) -> f64
where
    F: Future<Output = ()> + Send + 'static,
{
    rate_of(CALLERS, calls, caller).await
}

/// Does the same with `count` callers.
pub(crate) async fn rate_of<F>(count: u32, calls: u32, caller: impl Fn(u32) -> F) -> f64
where
    F: Future<Output = ()> + Send + 'static,
{
    let begun = Instant::now();
    all_of(count, caller).await;
    f64::from(calls / count * count) / begun.elapsed().as_secs_f64()
}

/// Returns the calls of each caller.
pub(crate) const fn each(calls: u32) -> u32 {
    calls / CALLERS
}

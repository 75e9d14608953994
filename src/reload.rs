//! Limits that are read again when their files change.
//!
//! ```no_run
//! use std::time::Duration;
//! use tollgate::{Limiter, Limits, MemoryBackend, reload::Reloader};
//!
//! # #[cfg(unix)]
//! # async fn start() -> Result<(), tollgate::limit::LimitsError> {
//! let recipe = Limits::builder().defaults_file("defaults.yml").overrides_file("overrides.yml");
//! let limiter = Limiter::new(recipe.build()?, MemoryBackend::new());
//! // Every ten seconds, and on SIGHUP.
//! let reloader = Reloader::new(limiter.clone(), recipe).every(Duration::from_secs(10)).on_hangup();
//! tokio::spawn(reloader.run());
//! # Ok(()) }
//! ```
//!
//! A set of files is put in force whole or not at all. When one has a mistake, or a rule does not fit
//! what it says ([`Limiter::reload`]), the limits that were in force stay, and the error is logged
//! once. An overrides file that is empty has no overrides; one that is missing is a mistake. Write a
//! file under another name and rename it, so that no half of one is ever read.

use std::{
    convert::Infallible,
    future::{self, Future},
    sync::Arc,
    time::Duration,
};

use thiserror::Error;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::{
    task,
    time::{self, MissedTickBehavior},
};

use crate::{
    limit::{LimitsBuilder, LimitsError},
    limiter::{self, Limiter},
};

/// Puts limits in force when the files that they are made of have changed.
#[derive(Clone, Debug)]
#[must_use = "nothing is read again until it runs"]
pub struct Reloader {
    limiter: Limiter,
    recipe: Arc<LimitsBuilder>,
    interval: Duration,
    on_hangup: bool,
}

impl Reloader {
    /// A reloader of a limiter's limits, by the recipe that they were built by. It looks at the files
    /// every 30 seconds.
    pub fn new(limiter: Limiter, recipe: LimitsBuilder) -> Self {
        Self {
            limiter,
            recipe: Arc::new(recipe),
            interval: Duration::from_secs(30),
            on_hangup: false,
        }
    }

    /// Sets how often it looks at the files.
    ///
    /// # Panics
    ///
    /// If the interval is zero.
    #[track_caller]
    pub fn every(mut self, interval: Duration) -> Self {
        assert!(
            !interval.is_zero(),
            "an interval of 0: use at least a millisecond"
        );
        self.interval = interval;
        self
    }

    /// Looks at the files on SIGHUP as well, which then no more ends the process.
    #[cfg(unix)]
    pub fn on_hangup(mut self) -> Self {
        self.on_hangup = true;
        self
    }

    /// Looks at the files again and again, and logs what has changed. It never ends.
    ///
    /// SIGHUP is heard from the call on, not from the first poll. Files are read on a thread for
    /// blocking work.
    ///
    /// # Panics
    ///
    /// If it is not called within a tokio runtime with time enabled, and I/O for SIGHUP.
    pub fn run(self) -> impl Future<Output = Infallible> + Send {
        let mut interval = time::interval(self.interval);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut hangups = Hangups::listen(self.on_hangup);
        async move {
            let mut last_error = None;
            loop {
                tokio::select! {
                    _ = interval.tick() => {}
                    // Whoever asks is answered, also if it is the same as before.
                    () = hangups.recv() => last_error = None,
                }
                let error = self.reload_elsewhere().await;
                if let Some(error) = &error
                    && last_error.as_ref() != Some(error)
                {
                    tracing::error!(error, "limits are not reloaded: those in force stay");
                }
                last_error = error;
            }
        }
    }

    /// Looks at the files once: reads them and, if they have changed, puts in force what they say.
    /// Answers whether they have.
    ///
    /// It blocks for as long as it reads. A million overrides take seconds.
    ///
    /// # Errors
    ///
    /// If the files have a mistake, or do not fit what is running. Then the old limits stay.
    pub fn reload(&self) -> Result<bool, ReloadError> {
        let documents = self.recipe.read()?;
        if *self.limiter.limits().digest() == documents.digest() {
            return Ok(false);
        }
        self.limiter.reload(self.recipe.assemble(&documents)?)?;
        Ok(true)
    }

    /// Reloads on a thread for blocking work, and returns what went wrong.
    async fn reload_elsewhere(&self) -> Option<String> {
        let reloader = self.clone();
        match task::spawn_blocking(move || reloader.reload()).await {
            Ok(Ok(false)) => None,
            Ok(Ok(true)) => {
                let limits = self.limiter.limits();
                let overrides: usize = limits.iter().map(|named| named.overrides().len()).sum();
                tracing::info!(
                    limits = limits.iter().count(),
                    overrides,
                    "limits are reloaded"
                );
                None
            }
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }
}

/// Why the limits that were in force stay.
#[derive(Debug, Error)]
#[error(transparent)]
#[non_exhaustive]
pub enum ReloadError {
    /// The files have a mistake.
    Limits(#[from] LimitsError),
    /// They do not fit what is running.
    Limiter(#[from] limiter::ReloadError),
}

/// SIGHUPs, if they are listened to.
#[cfg(unix)]
struct Hangups(Option<Signal>);

#[cfg(unix)]
impl Hangups {
    fn listen(on_hangup: bool) -> Self {
        let listened = on_hangup.then(|| signal(SignalKind::hangup())).transpose();
        Self(listened.unwrap_or_else(|error| {
            tracing::error!(%error, "limits are not reloaded on SIGHUP: it cannot be listened to");
            None
        }))
    }

    async fn recv(&mut self) {
        let received = match &mut self.0 {
            Some(signal) => signal.recv().await,
            None => None,
        };
        if received.is_none() {
            future::pending::<()>().await;
        }
    }
}

/// There are none.
#[cfg(not(unix))]
struct Hangups;

#[cfg(not(unix))]
impl Hangups {
    fn listen(_: bool) -> Self {
        Self
    }

    async fn recv(&mut self) {
        future::pending().await
    }
}

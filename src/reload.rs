//! Reloads limits when their files change.
//!
//! ```no_run
//! use std::time::Duration;
//! use tollgate::{Limiter, Limits, MemoryBackend, reload::Reloader};
//!
//! # async fn start() -> Result<(), tollgate::limit::LimitsError> {
//! let recipe = Limits::builder().defaults_file("defaults.yml").overrides_file("overrides.yml");
//! let limiter = Limiter::new(recipe.build()?, MemoryBackend::new());
//! // Every ten seconds, and on SIGHUP.
//! let reloader = Reloader::new(limiter.clone(), recipe).every(Duration::from_secs(10)).on_hangup();
//! tokio::spawn(reloader.run());
//! # Ok(()) }
//! ```
//!
//! All files take effect together or not at all. If one has a mistake, or a rule does not fit the new limits ([`Limiter::reload`]),
//! the current limits stay in force, and the error is logged once. The end of the problem is logged, too. A missing or empty file
//! is a mistake. To replace a file, write the new one under another name and rename it, so that no reload reads half a file. [Lists
//! of addresses](IpList) can be reloaded with the limits.

use std::{
    convert::Infallible,
    error::Error,
    future::{self, Future},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::{
    task,
    time::{self, MissedTickBehavior},
};

use crate::{
    key::IpList,
    limit::{Document, LimitsBuilder, LimitsError, NamedLimit},
    limiter::Limiter,
    metrics,
};

/// Reloads the limits of a limiter when their files change. The [module docs](self) have an example.
#[derive(Clone, Debug)]
#[must_use = "nothing is read again until it runs"]
pub struct Reloader {
    limiter: Limiter,
    recipe: Arc<LimitsBuilder>,
    interval: Duration,
    on_hangup: bool,
    lists: Vec<IpList>,
    /// The hash of the files that were refused last, and the reason. The lock is held from reading the files until the limits are
    /// in force.
    refused: Arc<Mutex<Option<(u64, LimitsError)>>>,
}

impl Reloader {
    /// Creates a reloader for a limiter, with the builder of its limits. By default, it checks the files every 30
    /// seconds.
    pub fn new(limiter: Limiter, recipe: LimitsBuilder) -> Self {
        Self {
            limiter,
            recipe: Arc::new(recipe),
            interval: Duration::from_secs(30),
            on_hangup: false,
            lists: Vec::new(),
            refused: Arc::default(),
        }
    }

    /// Sets how often it checks the files.
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

    /// Also checks the files on SIGHUP, which then no longer ends the process. On systems without this signal, it has
    /// no effect.
    pub fn on_hangup(mut self) -> Self {
        self.on_hangup = true;
        self
    }

    /// Also reads a list of addresses again whenever it looks at the files. Each list takes effect by itself: a mistake in
    /// one affects neither the other lists nor the limits.
    ///
    /// ```no_run
    /// use tollgate::{ClientIp, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, key::IpList, reload::Reloader};
    ///
    /// # async fn start() -> Result<(), Box<dyn std::error::Error>> {
    /// let recipe = Limits::builder().defaults_file("defaults.yml");
    /// let limiter = Limiter::new(recipe.build()?, MemoryBackend::new());
    /// let partners = IpList::from_file("partners.txt")?;
    /// let rule = Rule::new("requests", ClientIp::peer()).skip_if(ClientIp::peer().listed_in(&partners));
    /// let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    /// tokio::spawn(Reloader::new(limiter, recipe).list(&partners).run());
    /// # let _ = layer;
    /// # Ok(()) }
    /// ```
    pub fn list(mut self, list: &IpList) -> Self {
        self.lists.push(list.clone());
        self
    }

    /// Checks the files again and again, and logs changes. It never returns.
    ///
    /// SIGHUP is handled from this call on, even before the future is polled. Files are read on a thread for blocking work.
    ///
    /// # Panics
    ///
    /// If it is not called within a tokio runtime with time enabled, and I/O for SIGHUP.
    pub fn run(self) -> impl Future<Output = Infallible> + Send {
        let mut interval = time::interval(self.interval);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut hangups = Hangups::listen(self.on_hangup);
        async move {
            // Kept until the files equal the limits in force again.
            let mut last_error = None;
            loop {
                let asked = tokio::select! {
                    _ = interval.tick() => false,
                    () = hangups.recv() => true,
                };
                match self.look_elsewhere(asked).await {
                    Ok(is_new) => {
                        if last_error.take().is_some() && !is_new {
                            tracing::info!("the files match the limits in force again");
                        }
                    }
                    Err(error) => {
                        if asked || last_error.as_ref() != Some(&error) {
                            tracing::error!(
                                error,
                                "limits were not reloaded: the current ones stay in force"
                            );
                        }
                        last_error = Some(error);
                    }
                }
            }
        }
    }

    /// Reads the files once and, if they have changed, puts the new limits in force. Returns whether the limits have
    /// changed.
    ///
    /// It blocks while it reads. A million overrides take seconds.
    ///
    /// # Errors
    ///
    /// If the files have a mistake, or the rules do not fit the new limits. The old limits then stay in force.
    pub fn reload(&self) -> Result<bool, LimitsError> {
        let (_, lists) = self.look_at_lists();
        let is_new = self.look(true)?;
        lists.map(|()| is_new)
    }

    /// Reads all lists again. Returns the lists that have changed, and the first error in any other list.
    fn look_at_lists(&self) -> (Vec<IpList>, Result<(), LimitsError>) {
        let mut new = Vec::new();
        let mut looked = Ok(());
        for list in &self.lists {
            match list.reload() {
                Ok(false) => {}
                Ok(true) => {
                    metrics::reloaded("applied");
                    new.push(list.clone());
                }
                Err(error) => {
                    let is_read = error.source().is_none();
                    metrics::reloaded(if is_read { "refused" } else { "unreadable" });
                    looked = looked.and(Err(error));
                }
            }
        }
        (new, looked)
    }

    /// Reads the files, and returns whether they are new. Refused files are tried again only on request.
    fn look(&self, asked: bool) -> Result<bool, LimitsError> {
        let mut refused = self.refused.lock();
        let read = self.read();
        let (documents, digest) = read.inspect_err(|_| metrics::reloaded("unreadable"))?;
        if digest == self.limiter.limits().digest {
            *refused = None;
            return Ok(false);
        }
        if let Some((known, error)) = &*refused
            && *known == digest
            && !asked
        {
            return Err(error.clone());
        }
        let limits = self.recipe.assemble(&documents);
        let limits = limits.inspect_err(|_| metrics::reloaded("refused"));
        let reloaded = limits.and_then(|limits| self.limiter.reload(limits));
        *refused = reloaded.as_ref().err().map(|error| (digest, error.clone()));
        reloaded.map(|()| true)
    }

    /// Reads the files until two reads are identical, so that old and new files are never combined.
    fn read(&self) -> Result<(Vec<Document>, u64), LimitsError> {
        const TRIES: usize = 10;
        let mut before = self.limiter.limits().digest;
        let mut tries = 0;
        loop {
            let documents = self.recipe.read()?;
            let digest = self.recipe.digest(&documents);
            tries += 1;
            if digest == before || tries == TRIES {
                return Ok((documents, digest));
            }
            before = digest;
        }
    }

    /// Reads the files on a thread for blocking work, and logs the changes.
    async fn look_elsewhere(&self, asked: bool) -> Result<bool, String> {
        let reloader = self.clone();
        let look = move || (reloader.look_at_lists(), reloader.look(asked));
        let looked = task::spawn_blocking(look).await;
        let ((new, lists), limits) = looked.map_err(|error| error.to_string())?;
        for list in new {
            tracing::info!(path = %list.path().display(), "a list of addresses is reloaded");
        }
        let text = |error: LimitsError| error.in_events(self.recipe.redacts_ids);
        let is_new = limits.map_err(text)?;
        if is_new {
            let limits = self.limiter.limits();
            let overrides: usize = limits.iter().map(NamedLimit::override_count).sum();
            tracing::info!(
                limits = limits.iter().count(),
                overrides,
                "limits were reloaded"
            );
        }
        lists.map(|()| is_new).map_err(text)
    }
}

/// The stream of SIGHUPs, if the reloader listens to them.
struct Hangups {
    #[cfg(unix)]
    signal: Option<Signal>,
}

impl Hangups {
    #[cfg_attr(not(unix), expect(unused_variables))]
    fn listen(on_hangup: bool) -> Self {
        #[cfg(unix)]
        let listened = on_hangup.then(|| signal(SignalKind::hangup())).transpose();
        Self {
            #[cfg(unix)]
            signal: listened.unwrap_or_else(|error| {
                tracing::error!(%error, "cannot listen for SIGHUP, so it does not reload limits");
                None
            }),
        }
    }

    async fn recv(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal
            && signal.recv().await.is_some()
        {
            return;
        }
        future::pending::<()>().await;
    }
}

//! Captures the log.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{
    fmt, io,
    sync::{Arc, Mutex, Once},
};

use serde_json::Value;
use tracing::{Level, subscriber::DefaultGuard};
use tracing_subscriber::fmt::format::FmtSpan;

/// The captured log.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Captures what this thread logs, as long as the guard exists.
    pub(crate) fn capture() -> (Self, DefaultGuard) {
        Self::capture_at(Level::INFO)
    }

    /// Captures what this thread logs at a level and above. The time is left out, because its digits can be those of an id.
    pub(crate) fn capture_at(level: Level) -> (Self, DefaultGuard) {
        listen();
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_ansi(false)
            .without_time()
            .with_writer(move || writer.clone());
        (log, tracing::subscriber::set_default(subscriber.finish()))
    }

    /// Captures what this thread logs at all levels as JSON, with a line for each span that ends.
    pub(crate) fn capture_json() -> (Self, DefaultGuard) {
        listen();
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .with_max_level(Level::TRACE)
            .with_span_events(FmtSpan::CLOSE)
            .with_writer(move || writer.clone());
        (log, tracing::subscriber::set_default(subscriber.finish()))
    }

    /// Returns the lines of a log in JSON.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let log = self.0.lock().unwrap();
        let lines = serde_json::Deserializer::from_slice(&log).into_iter();
        lines.map(Result::unwrap).collect()
    }

    pub(crate) fn count(&self, text: &str) -> usize {
        let log = self.0.lock().unwrap();
        str::from_utf8(&log).unwrap().matches(text).count()
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(str::from_utf8(&self.0.lock().unwrap()).unwrap())
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps a subscriber installed at all times. Otherwise, tracing's cache of the interest of other tests' subscribers can hide
/// events.
pub(crate) fn listen() {
    static LISTENER: Once = Once::new();
    LISTENER.call_once(|| {
        tracing::subscriber::set_global_default(tracing_subscriber::registry()).unwrap();
    });
}

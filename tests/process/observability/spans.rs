//! A subscriber that keeps all events, and the fields recorded on spans.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::DefaultGuard,
};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt},
};

use crate::support::listen;

/// The fields of an event or a span.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Fields(BTreeMap<String, String>);

impl Fields {
    /// A field's value, if it was ever recorded.
    pub(crate) fn of(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn message(&self) -> &str {
        self.of("message").unwrap_or("")
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().into(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().into(), value.into());
    }
}

#[derive(Debug, Default)]
struct Seen {
    events: Vec<(Level, Fields)>,
    spans: Vec<(Id, Fields)>,
}

/// The events and spans of this thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace(Arc<Mutex<Seen>>);

impl Trace {
    /// Keeps all, for as long as the guard is there.
    pub(crate) fn capture() -> (Self, DefaultGuard) {
        listen();
        let trace = Self::default();
        let subscriber = tracing_subscriber::registry().with(trace.clone());
        (trace, tracing::subscriber::set_default(subscriber))
    }

    /// The library's events, oldest first.
    pub(crate) fn events(&self) -> Vec<(Level, Fields)> {
        self.0.lock().unwrap().events.clone()
    }

    /// Returns the events about decisions.
    pub(crate) fn decisions(&self) -> Vec<(Level, Fields)> {
        let mut events = self.events();
        events.retain(|(_, fields)| fields.of("result").is_some());
        events
    }

    /// The messages from a level on.
    pub(crate) fn messages(&self, level: Level) -> Vec<String> {
        let events = self.events().into_iter();
        let events = events.filter(|(of, _)| *of <= level);
        events
            .map(|(_, fields)| fields.message().to_owned())
            .collect()
    }

    /// Returns the fields recorded on the spans, the oldest span first.
    pub(crate) fn spans(&self) -> Vec<Fields> {
        let seen = self.0.lock().unwrap();
        seen.spans
            .iter()
            .map(|(_, fields)| fields.clone())
            .collect()
    }
}

impl<S: Subscriber> Layer<S> for Trace {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        self.0.lock().unwrap().spans.push((id.clone(), fields));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut seen = self.0.lock().unwrap();
        // An id may have been another span's before.
        let span = seen.spans.iter_mut().rev().find(|(span, _)| span == id);
        values.record(&mut span.unwrap().1);
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        if metadata.target().starts_with("tollgate") {
            let mut fields = Fields::default();
            event.record(&mut fields);
            let events = &mut self.0.lock().unwrap().events;
            events.push((*metadata.level(), fields));
        }
    }
}

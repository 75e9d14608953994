//! Limits from files: what they say, whoever wrote them in whatever form, and what is wrong with
//! bad ones.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod defaults;
mod forms;
mod hostile;
mod ids;
mod mistaken_defaults;
mod mistaken_ids;
mod mistaken_overrides;
mod paths;
mod reloader;
mod round_trip;
#[cfg(all(feature = "domains", feature = "yaml"))]
mod seeds;
#[path = "../support/mod.rs"]
mod support;
mod syntax;
mod tiers;
mod waiting;
mod windows;

use std::{fmt::Debug, time::Duration};

use tollgate::{
    Limit, Limits,
    id::IdFormat,
    limit::{Language, LimitName, LimitsBuilder, LimitsError, Override},
};

/// A text in a language, and what is said of it: all of it in one row, and only its beginning in others.
pub(crate) type Refusal = (Language, &'static str, &'static str);

/// Whether this build reads a language.
pub(crate) fn reads(language: Language) -> bool {
    let is_off = (language == Language::Yaml && !cfg!(feature = "yaml"))
        || (language == Language::Toml && !cfg!(feature = "toml"));
    !is_off
}

/// Whether this build has the id format of one of the names below.
pub(crate) fn has_format_of(name: &str) -> bool {
    cfg!(feature = "domains") || !name.contains("domain")
}

/// Limits from a text of defaults.
pub(crate) fn defaults(language: Language, text: &str) -> Result<Limits, LimitsError> {
    Limits::builder().defaults_text(language, text).build()
}

/// A name for each format, without limits.
pub(crate) fn names() -> LimitsBuilder {
    let names = [
        ("any", IdFormat::Opaque),
        ("ip", IdFormat::IpAddress),
        ("range", IdFormat::Ipv6Range),
        ("account", IdFormat::RegId),
        ("domain", IdFormat::Domain),
        ("set", IdFormat::FqdnSet),
        ("account_domain", IdFormat::RegIdDomain),
        ("account_set", IdFormat::RegIdFqdnSet),
    ];
    let known = names.into_iter().filter(|(name, _)| has_format_of(name));
    known.fold(Limits::builder(), |builder, name| {
        builder.name(LimitName::unnumbered(name.0, name.1))
    })
}

/// Limits from a text of overrides, of the names above.
pub(crate) fn overrides(language: Language, text: &str) -> Result<Limits, LimitsError> {
    names().overrides_text(language, text).build()
}

/// The limit of a client by any spelling of its id.
pub(crate) fn limit_of<'a>(limits: &'a Limits, name: &str, id: &str) -> Option<&'a Limit> {
    let named = limits.get(name).unwrap();
    let folded = named.name.format().fold(id).unwrap();
    named.limit_of(&folded)
}

/// The override of a client by any spelling of its id.
pub(crate) fn override_of<'a>(limits: &'a Limits, name: &str, id: &str) -> Option<Override<'a>> {
    let named = limits.get(name).unwrap();
    let folded = named.name.format().fold(id).unwrap();
    named.override_of(&folded)
}

/// All that limits say, in order.
pub(crate) fn facts(limits: &Limits) -> Vec<String> {
    fn line(fact: impl Debug) -> String {
        format!("{fact:?}")
    }

    let named = limits.iter();
    named
        .flat_map(|named| {
            let first = line((&named.name, &named.limit));
            std::iter::once(first).chain(named.overrides().map(line))
        })
        .collect()
}

pub(crate) fn limit(burst: u32, count: u32, seconds: u64) -> Limit {
    Limit::new(burst, count, Duration::from_secs(seconds)).unwrap()
}

/// A message without the known names whose format is that of a feature that is off.
fn without_absent_names(message: &str) -> String {
    let Some((start, known)) = message.split_once("known are ") else {
        return message.to_owned();
    };
    let known: Vec<&str> = known
        .split(", ")
        .filter(|name| has_format_of(name))
        .collect();
    format!("{start}known are {}", known.join(", "))
}

/// Builds limits from each text, and compares the mistake: its line and what it says first.
pub(crate) fn refused(
    build: impl Fn(Language, &str) -> Result<Limits, LimitsError>,
    refusals: &[Refusal],
) {
    for (language, text, message) in refusals {
        if reads(*language) {
            let error = build(*language, text).expect_err(text).to_string();
            let told = error.strip_prefix("limits:").unwrap_or(&error).trim_start();
            let message = without_absent_names(message);
            assert!(told.starts_with(&message), "{language:?} {text:?}: {error}");
        }
    }
}

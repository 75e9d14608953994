//! Limits from files: all forms are read, and bad ones lead to the right errors.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod all_mistakes;
mod forms;
mod hostile;
mod ids;
mod kinds;
mod mistakes;
mod paths;
mod reloader;
mod round_trip;
#[path = "../support/mod.rs"]
mod support;

use std::{fmt::Debug, time::Duration};

use tollgate::{
    Limit, Limits,
    id::IdFormat,
    limit::{LimitName, LimitsBuilder, LimitsError, NamedLimit, Override},
};

/// A language, as the name of a text in it.
pub(crate) type Language = &'static str;

pub(crate) const YAML: Language = "limits.yml";
pub(crate) const JSON: Language = "limits.json";
pub(crate) const TOML: Language = "limits.toml";

/// Whether this build reads a language.
pub(crate) fn reads(language: Language) -> bool {
    let is_off = (language == YAML && !cfg!(feature = "yaml"))
        || (language == TOML && !cfg!(feature = "toml"));
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
        ("domain_or_cidr", IdFormat::DomainOrCidr),
        ("account_domain", IdFormat::RegIdDomain),
        ("account_domain_or_cidr", IdFormat::RegIdDomainOrCidr),
        ("account_ident", IdFormat::RegIdIdentValue),
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
    named.limit_of(id).unwrap()
}

/// The override of a client by any spelling of its id.
pub(crate) fn override_of<'a>(limits: &'a Limits, name: &str, id: &str) -> Option<&'a Override> {
    let named = limits.get(name).unwrap();
    named.override_of(id)
}

/// All facts about limits, in order.
pub(crate) fn facts(limits: &Limits) -> Vec<String> {
    fn line(fact: impl Debug) -> String {
        format!("{fact:?}")
    }

    let own = |named: &NamedLimit| {
        let name = (named.name(), named.number(), named.format());
        let words = (named.description(), named.docs(), named.is_shadow());
        let first = line((name, named.limit(), words));
        let own = named.overrides();
        let own = own.map(|own| line((own.id(), own.limit(), own.comment())));
        std::iter::once(first).chain(own).collect::<Vec<_>>()
    };
    limits.iter().flat_map(own).collect()
}

pub(crate) fn limit(burst: u32, count: u32, seconds: u64) -> Limit {
    Limit::new(burst, count, Duration::from_secs(seconds)).unwrap()
}

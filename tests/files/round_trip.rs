//! The texts of limits are read as the same limits.

use std::{collections::HashSet, net::Ipv4Addr, time::Duration};

use proptest::{
    collection::vec,
    option,
    prelude::*,
    sample::{Index, select},
};
use serde_json::json;
use tollgate::{
    Limit, Limits,
    id::IdFormat,
    limit::LimitName,
    quota::{Per, UtcOffset},
    tiers::Tier,
};

use crate::{JSON, Language, YAML, facts, limit_of, override_of, overrides, support::id_formats};

/// The texts of limits, in the form of files.
fn written(limits: &Limits) -> (String, String) {
    let (mut defaults, mut overrides) = (Vec::new(), Vec::new());
    for named in limits.iter() {
        let mut entry = named
            .limit()
            .map_or_else(|| json!({}), |limit| json!(limit));
        if let Some(number) = named.number() {
            entry["number"] = json!(number);
        }
        entry["id"] = json!(named.format().to_string());
        defaults.push(format!("\"{}\": {entry}", named.name()));
        for own in named.overrides() {
            let mut entry = json!(own.limit());
            entry["ids"] = match own.comment() {
                Some(comment) => json!([{"id": own.id(), "comment": comment}]),
                None => json!([own.id()]),
            };
            overrides.push(json!({named.name(): entry}));
        }
    }
    let defaults = format!("{{{}}}", defaults.join(", "));
    (defaults, json!(overrides).to_string())
}

fn read(language: Language, (defaults, overrides): &(String, String)) -> Limits {
    Limits::builder()
        .defaults_text(language, defaults)
        .overrides_text(language, overrides)
        .build()
        .unwrap_or_else(|error| panic!("{error} in {defaults}\n{overrides}"))
}

/// Asserts that limits, and their text, are the same after they are written and read.
fn survives(limits: &Limits) {
    let texts = written(limits);
    let again = read(JSON, &texts);
    assert_eq!(facts(&again), facts(limits));
    for named in limits.iter() {
        let name = named.name();
        for own in named.overrides() {
            assert_eq!(limit_of(&again, name, own.id()), Some(own.limit()));
            let found = override_of(&again, name, own.id());
            let found = found.map(|found| (found.id(), found.limit(), found.comment()));
            assert_eq!(found, Some((own.id(), own.limit(), own.comment())));
        }
    }
    assert_eq!(written(&again), texts);
}

fn span() -> impl Strategy<Value = Duration> {
    (1..=86_400_000_000_u64).prop_map(Duration::from_micros)
}

fn token_buckets() -> impl Strategy<Value = Limit> {
    let sizes = (any::<u32>(), any::<u32>(), 1..=u64::from(u32::MAX));
    let sizes = prop_oneof![sizes, (1..10u32, 1..10u32, 1..4u64)];
    let limits = sizes.prop_filter_map("no limit", |(burst, count, micros)| {
        Limit::new(burst, count, Duration::from_micros(micros)).ok()
    });
    let lines = (1..10u32, span(), span())
        .prop_map(|(count, period, wait)| Limit::per(count, period).max_wait(wait));
    prop_oneof![limits, lines]
}

const PERIODS: [Per; 4] = [Per::Hour, Per::Day, Per::Week, Per::Month];

fn quotas() -> impl Strategy<Value = Limit> {
    let calendar = (select(PERIODS.to_vec()), -1439..=1439_i16)
        .prop_map(|(per, offset)| per.at_offset(UtcOffset::minutes(offset)));
    #[cfg(feature = "zones")]
    let calendar = {
        let zones = ["America/Argentina/Buenos_Aires", "Etc/GMT+5", "UTC"];
        let zoned = (select(PERIODS.to_vec()), select(zones.to_vec()))
            .prop_map(|(per, zone)| per.in_zone(zone));
        prop_oneof![calendar, zoned]
    };
    let per = prop_oneof![calendar, span().prop_map(Per::first_use)];
    (1..=u32::MAX, per).prop_map(|(quota, per)| Limit::quota(quota, per))
}

fn tiers() -> impl Strategy<Value = Limit> {
    let tier_span = || prop_oneof![5 => span(), 1 => Just(Tier::FOREVER)];
    let lowest = (1..=4096_u32, tier_span()).prop_map(|(limit, window)| Tier::new(limit, window));
    let others = (
        lowest.clone(),
        tier_span(),
        option::of(tier_span()),
        any::<bool>(),
    );
    let others = others.prop_map(|(tier, active, cooldown, is_skippable)| {
        let tier = tier.active(active).cooldown(cooldown.unwrap_or_default());
        if is_skippable { tier.skippable() } else { tier }
    });
    (option::of(lowest), vec(others, 0..4)).prop_filter_map("no limit", |(lowest, others)| {
        Limit::tiers(lowest.into_iter().chain(others)).ok()
    })
}

fn permits() -> impl Strategy<Value = Limit> {
    let hold = (1_000_000..=86_400_000_000_u64).prop_map(Duration::from_micros);
    (1..=4096_u32, hold).prop_map(|(limit, hold)| Limit::concurrent(limit).hold(hold))
}

fn limits_of_all_kinds() -> impl Strategy<Value = Limit> {
    let windows = (1..=4096_u32, span()).prop_map(|(limit, window)| Limit::window(limit, window));
    let others = select(vec![Limit::UNLIMITED, Limit::BLOCKED]);
    prop_oneof![
        token_buckets(),
        windows,
        quotas(),
        tiers(),
        permits(),
        others
    ]
}

/// An id in each format, by numbers. Different ones are different clients.
fn id(format: IdFormat, n: u32, text: &str) -> String {
    let flip = |text: String| {
        if n.is_multiple_of(2) {
            text.to_uppercase()
        } else {
            text
        }
    };
    match format {
        IdFormat::IpAddress if n.is_multiple_of(3) => Ipv4Addr::from_bits(n).to_string(),
        IdFormat::IpAddress => flip(format!("2001:0db8::{:x}:{:04x}", n >> 16, n & 0xffff)),
        IdFormat::Ipv6Range => flip(format!("{:04x}:{:x}:00::/48", n >> 16, n & 0xffff)),
        IdFormat::RegId => n.to_string(),
        IdFormat::Domain => flip(format!("n{n}.co.uk")),
        IdFormat::FqdnSet => flip(format!("n{n}.com,10.0.0.1,*.a.net")),
        IdFormat::DomainOrCidr => flip(format!("2001:{:x}:{:x}::", n >> 16, n & 0xffff)),
        IdFormat::RegIdDomainOrCidr => format!("{n}:192.0.2.7"),
        IdFormat::RegIdIdentValue => format!("{n}:{}", flip("*.a.com".into())),
        IdFormat::RegIdDomain => format!("{n}:{}", flip(format!("n{n}.co.uk"))),
        IdFormat::RegIdFqdnSet => format!("{n}:{}", flip("b.com,a.com".into())),
        _ => format!("{n}{text}"),
    }
}

/// A client's number, its comment, and the rest of its id in formats that admit any text.
type Client = (u32, Option<String>, String);

type Named = (Option<Limit>, bool, Vec<(Limit, Vec<Client>)>);

fn named() -> impl Strategy<Value = Named> {
    let client = (any::<u32>(), option::of(any::<String>()), any::<String>());
    let group = (limits_of_all_kinds(), vec(client, 1..4));
    (
        option::of(limits_of_all_kinds()),
        any::<bool>(),
        vec(group, 0..4),
    )
}

/// The text of overrides, and limits from it. Clients that are there already are left out.
fn assemble(all: &[Named], formats: &[Index]) -> Limits {
    let (mut builder, mut groups) = (Limits::builder(), Vec::new());
    let mut expected = Vec::new();
    for (i, ((default, numbered, overridden), format)) in all.iter().zip(formats).enumerate() {
        let format = *format.get(&id_formats());
        let number = numbered.then_some(7 * u32::try_from(i).unwrap());
        let text = format!("n{i}.a-b_C");
        let name = number.map_or_else(
            || LimitName::unnumbered(&text, format),
            |number| LimitName::new(&text, number, format),
        );
        builder = builder.name(name.clone());
        if let Some(limit) = default {
            builder = builder.limit(name, limit.clone());
        }
        let mut seen = HashSet::new();
        for (limit, clients) in overridden {
            let fresh = clients.iter().filter(|client| seen.insert(client.0));
            let ids: Vec<_> = fresh
                .map(|(n, comment, own)| {
                    let id = id(format, *n, own);
                    let listed = listed(&id, comment);
                    expected.push((text.clone(), id, limit));
                    listed
                })
                .collect();
            if !ids.is_empty() {
                groups.push(group(&text, limit, &ids));
            }
        }
    }
    let builder = builder.overrides_text(JSON, &format!("[{}]", groups.join(",")));
    let limits = builder.build().unwrap();
    for (name, id, limit) in expected {
        assert_eq!(limit_of(&limits, &name, &id), Some(limit));
    }
    limits
}

fn listed(id: &str, comment: &Option<String>) -> String {
    let id = serde_json::to_string(id).unwrap();
    match comment {
        Some(comment) => format!(
            r#"{{"id": {id}, "comment": {}}}"#,
            serde_json::to_string(comment).unwrap()
        ),
        None => id,
    }
}

fn group(name: &str, limit: &Limit, ids: &[String]) -> String {
    let values = serde_json::to_string(limit).unwrap();
    let values = values.strip_suffix('}').unwrap();
    format!(r#"{{"{name}": {values}, "ids": [{}]}}}}"#, ids.join(","))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_limit_survives_in_one_line(limit in limits_of_all_kinds()) {
        prop_assert_eq!(limit.to_string().parse(), Ok(limit));
    }

    #[test]
    fn any_limits_survive(all in vec(named(), 1..6), formats in vec(any::<Index>(), 6)) {
        survives(&assemble(&all, &formats));
    }

    #[test]
    #[cfg_attr(not(feature = "yaml"), ignore = "it needs the feature `yaml`")]
    fn yaml_reads_what_is_written_as_json(n in any::<u32>(), id in "[ -~à-ÿ\n\t]{0,40}", comment in "[ -~\n]{0,40}") {
        let json = serde_json::json!([{"any": {"burst": 1, "count": 1, "period": "1s",
            "ids": [{"id": format!("{n}{id}"), "comment": comment}]}}]);
        let limits = overrides(JSON, &json.to_string()).unwrap();
        let again = read(YAML, &written(&limits));
        prop_assert_eq!(facts(&again), facts(&limits));
    }
}

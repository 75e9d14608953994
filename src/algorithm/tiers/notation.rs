//! Tiers in one line, as `5 per 1s for infinite, then 1 per 15s for 15s`, and in files: a list of maps, lowest first.

use std::{fmt, time::Duration};

use super::{Tier, Tiers};
use crate::algorithm::{
    LimitError,
    duration::{format_span, parse_span},
    notation::{FieldReader, Form, MapForm, Notation, WrittenFields, after_word, form, number},
};

const TIER: MapForm = MapForm {
    fields: &["limit", "window", "active", "cooldown", "skippable"],
    has_values: false,
    around: "a list of `{limit, window, active, cooldown}`, the lowest tier first",
    whole: "a tier has limit and window, and above the lowest also active",
    misplaced: &[
        ("burst", "a tier has a limit"),
        ("count", "a tier has a limit"),
        ("period", "a tier has a window"),
    ],
};

impl Notation for Tiers {
    const FORM: Form = Form {
        fields: &["tiers"],
        words: "tiers",
        options: &[],
    };

    fn parse(line: &str) -> Option<Result<Self, LimitError>> {
        // The hold of a concurrency limit is `held for` a time too.
        let has_tiers = line.contains("per ") && line.contains(" for ");
        has_tiers.then(|| {
            let tiers = line.split(", then ").map(parse_tier);
            Self::new(tiers.collect::<Result<Vec<_>, _>>()?)
        })
    }

    fn read<F: FieldReader>(fields: &F) -> Option<Self> {
        let listed = fields.list("tiers", &TIER);
        fields.require(&["tiers"]);
        let listed = listed?;
        let read: Vec<_> = listed
            .iter()
            .enumerate()
            .map(|(i, fields)| read_tier(i, fields))
            .collect();
        let tiers = Self::new(read.into_iter().collect::<Option<Vec<_>>>()?);
        let mistaken = |error: LimitError| {
            let fields = error.tier().map_or(fields, |tier| &listed[tier]);
            fields.mistaken(error);
        };
        tiers.map_err(mistaken).ok()
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, tier) in self.iter().enumerate() {
            f.write_str(if i > 0 { ", then " } else { "" })?;
            write_tier(f, tier)?;
        }
        Ok(())
    }

    fn values(&self) -> WrittenFields {
        let tiers = self.iter().map(|tier| {
            WrittenFields::default()
                .number("limit", tier.limit)
                .text("window", format_span(tier.window))
                .text("active", format_span(tier.active))
                .text("cooldown", format_span(tier.cooldown))
                .flag("skippable", tier.skippable)
        });
        WrittenFields::default().maps("tiers", tiers.collect())
    }
}

fn write_tier(f: &mut fmt::Formatter<'_>, tier: Tier) -> fmt::Result {
    let (window, active) = (format_span(tier.window), format_span(tier.active));
    write!(f, "{} per {window} for {active}", tier.limit)?;
    if !tier.cooldown.is_zero() {
        write!(f, ", cooldown {}", format_span(tier.cooldown))?;
    }
    f.write_str(if tier.skippable { ", skippable" } else { "" })
}

/// Reads `1 per 15s for 15s, cooldown 1m0s, skippable`.
fn parse_tier(text: &str) -> Result<Tier, LimitError> {
    let (limit, rest) = number(text)?;
    let rest = after_word(rest, "per").ok_or_else(form)?;
    let (window, rest) = rest.split_once(" for ").ok_or_else(form)?;
    let mut parts = rest.split(", ");
    let active = parts.next().unwrap_or_default();
    let tier =
        Tier::new(limit, parse_span("window", window)?).active(parse_span("active", active)?);
    parts.try_fold(tier, |tier, part| match after_word(part, "cooldown") {
        Some(cooldown) => Ok(tier.cooldown(parse_span("cooldown", cooldown)?)),
        None if part == "skippable" => Ok(tier.skippable()),
        None => Err(form()),
    })
}

/// Reads a tier. Without `active`, the lowest tier is active forever. A higher one must set it, or it would never end.
fn read_tier<F: FieldReader>(i: usize, fields: &F) -> Option<Tier> {
    let (limit, window) = (fields.whole("limit"), span(fields, "window"));
    let (active, cooldown) = (span(fields, "active"), span(fields, "cooldown"));
    let skippable = fields.flag("skippable");
    fields.require(match i {
        0 => &["limit", "window"],
        _ => &["limit", "window", "active"],
    });
    let tier = Tier::new(limit?, window?).active(active.unwrap_or(Tier::FOREVER));
    Some(Tier {
        skippable: skippable.unwrap_or(false),
        ..tier.cooldown(cooldown.unwrap_or_default())
    })
}

/// Reads a duration, which can be endless.
fn span<F: FieldReader>(fields: &F, field: &'static str) -> Option<Duration> {
    fields.parsed(field, |text| parse_span(field, text))
}

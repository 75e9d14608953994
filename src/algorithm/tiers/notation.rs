//! Tiers in one line, as `5 per 1s for infinite, then 1 per 15s for 15s`, and in files: a list of maps, lowest first.

use std::fmt;

use super::{tier::Tier, tiers::Tiers, tiers_error::TiersError};
use crate::algorithm::{
    duration::format_span,
    limit_error::NotationError,
    line::{after_word, number, span},
    notation::{FieldReader, ListedFields, Notation, WrittenFields},
};

const TIER: ListedFields = ListedFields {
    fields: &["limit", "window", "active", "cooldown", "skippable"],
    list: "a list of `{limit, window, active, cooldown}`, the lowest tier first",
    whole: "a tier has limit and window, and above the lowest also active",
    misplaced: &[
        ("burst", "a tier has a limit"),
        ("count", "a tier has a limit"),
        ("period", "a tier has a window"),
    ],
};

impl Notation for Tiers {
    const FIELDS: &'static [&'static str] = &["tiers"];

    const WORDS: &'static str = "tiers";

    fn parse(line: &str) -> Option<Result<Self, NotationError>> {
        // The hold of a concurrency limit is `held for` a time too.
        let has_tiers = line.contains("per ") && line.contains(" for ");
        has_tiers.then(|| {
            let tiers = line.split(", then ").map(parse_tier);
            Ok(Self::checked(tiers.collect::<Result<Vec<_>, _>>()?)?)
        })
    }

    fn read<F: FieldReader>(fields: &F) -> Result<Self, F::Error> {
        let listed = fields.list("tiers", &TIER)?;
        let listed = listed.ok_or_else(|| fields.missing("tiers"))?;
        let read = listed.iter().enumerate();
        let read = read.map(|(i, fields)| read_tier(i, fields));
        Self::checked(read.collect::<Result<Vec<_>, _>>()?).map_err(|error| {
            let fields = match &error {
                TiersError::Tier { tier, .. } => &listed[*tier],
                _ => fields,
            };
            fields.mistaken(error.into())
        })
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, tier) in self.iter().enumerate() {
            let then = if i > 0 { ", then " } else { "" };
            f.write_str(then)?;
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

    fn doubts(&self) -> Vec<(usize, &'static str)> {
        const SHORT: &str = "the cooldown of a tier is shorter than its window, and a tier starts empty each time it is \
             entered: it grants up to twice its limit within one window; make the cooldown as long as the window";
        self.short_cooldowns().map(|tier| (tier, SHORT)).collect()
    }
}

fn write_tier(f: &mut fmt::Formatter<'_>, tier: Tier) -> fmt::Result {
    let (window, active) = (format_span(tier.window), format_span(tier.active));
    write!(f, "{} per {window} for {active}", tier.limit)?;
    if !tier.cooldown.is_zero() {
        write!(f, ", cooldown {}", format_span(tier.cooldown))?;
    }
    match tier.skippable {
        true => f.write_str(", skippable"),
        false => Ok(()),
    }
}

/// Reads `1 per 15s for 15s, cooldown 1m0s, skippable`.
fn parse_tier(text: &str) -> Result<Tier, NotationError> {
    let (limit, rest) = number(text)?;
    let rest = after_word(rest, "per").ok_or(NotationError::Form)?;
    let (window, rest) = rest.split_once(" for ").ok_or(NotationError::Form)?;
    let mut parts = rest.split(", ");
    let active = parts.next().unwrap_or_default();
    let tier = Tier::new(limit, span("window", window)?).active(span("active", active)?);
    parts.try_fold(tier, |tier, part| match after_word(part, "cooldown") {
        Some(cooldown) => Ok(tier.cooldown(span("cooldown", cooldown)?)),
        None if part == "skippable" => Ok(tier.skippable()),
        None => Err(NotationError::Form),
    })
}

/// Reads a tier. Without `active`, the lowest tier is active forever. A higher one must set it, or it would never end.
fn read_tier<F: FieldReader>(i: usize, fields: &F) -> Result<Tier, F::Error> {
    let limit = fields.whole("limit")?;
    let limit = limit.ok_or_else(|| fields.missing("limit"))?;
    let window = fields.span("window")?;
    let window = window.ok_or_else(|| fields.missing("window"))?;
    let active = match fields.span("active")? {
        None if i > 0 => return Err(fields.missing("active")),
        active => active.unwrap_or(Tier::FOREVER),
    };
    let cooldown = fields.span("cooldown")?.unwrap_or_default();
    let tier = Tier::new(limit, window).active(active).cooldown(cooldown);
    Ok(match fields.flag("skippable")? {
        true => tier.skippable(),
        false => tier,
    })
}

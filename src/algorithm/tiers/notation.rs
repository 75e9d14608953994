//! Tiers in files, as a list of maps, and in lines, such as `5 per 1s for infinite, then 1 per 15s for 15s`. The lowest is first.

use std::time::Duration;

use super::{Tier, Tiers};
use crate::algorithm::{
    LimitError,
    duration::{format_span, parse_span},
    notation::{FieldReader, Form, MapForm, Notation, WrittenFields},
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
        lines: &["{limit} per {window} for {active}[, cooldown {cooldown}][, skippable], then …"],
        short: &[],
    };

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

    fn values(&self) -> WrittenFields {
        let tiers = self.iter().map(|tier| {
            WrittenFields::default()
                .number("limit", tier.limit)
                .text("window", format_span(tier.window))
                .text("active", format_span(tier.active))
                .text("cooldown", format_span(tier.cooldown))
                .flag("skippable", tier.skippable)
        });
        WrittenFields::of(Self::FORM.lines[0]).maps("tiers", tiers.collect())
    }
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

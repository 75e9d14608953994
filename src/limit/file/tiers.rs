//! Tiers: a list of maps, lowest first.

use super::{
    super::{
        limit::Limit,
        mistake::{LimitsError, Mistake},
    },
    entry::{AllowedFields, Entry},
    node::Value,
};
use crate::tiers::{Tier, TierMistake, Tiers, TiersError};

const TIER: AllowedFields = AllowedFields {
    has_values: false,
    fields: &["limit", "window", "active", "cooldown", "skippable"],
    whole: "a tier has limit and window, and above the lowest also active",
    misplaced: &[
        ("burst", "a tier has a limit"),
        ("count", "a tier has a limit"),
        ("period", "a tier has a window"),
    ],
};

pub(super) fn tiers(entry: &Entry<'_>) -> Result<Limit, LimitsError> {
    let node = entry.get("tiers").ok_or_else(|| entry.missing("tiers"))?;
    let items = match &node.value {
        Value::List(items) => items,
        value => {
            let expected = "a list of `{limit, window, active, cooldown}`, the lowest tier first";
            return Err(Mistake::shape(expected, value, None).at(node.line));
        }
    };
    let entries = items
        .iter()
        .map(|item| Entry::new(&TIER, item.line, item))
        .collect::<Result<Vec<_>, _>>()?;
    let read = entries.iter().enumerate();
    let read = read
        .map(|(i, entry)| tier(i, entry))
        .collect::<Result<Vec<_>, _>>()?;
    let tiers = Tiers::new(read).map_err(|error| {
        let line = match &error {
            TiersError::Tier { tier, mistake } => entries[*tier].line_of(field_of(mistake)),
            _ => node.line,
        };
        Mistake::from(error).at(line)
    })?;
    Ok(tiers.into())
}

/// Reads a tier. Without `active`, the lowest tier is active forever. A higher one must set it, or it would never end.
fn tier(i: usize, entry: &Entry<'_>) -> Result<Tier, LimitsError> {
    let limit = entry.whole("limit")?;
    let limit = limit.ok_or_else(|| entry.missing("limit"))?;
    let window = entry.span("window")?;
    let window = window.ok_or_else(|| entry.missing("window"))?;
    let active = match entry.span("active")? {
        None if i > 0 => return Err(entry.missing("active")),
        active => active.unwrap_or(Tier::FOREVER),
    };
    let cooldown = entry.span("cooldown")?.unwrap_or_default();
    let tier = Tier::new(limit, window).active(active).cooldown(cooldown);
    Ok(match entry.flag("skippable")? {
        true => tier.skippable(),
        false => tier,
    })
}

/// The field that has to be changed first.
fn field_of(mistake: &TierMistake) -> &'static str {
    match mistake {
        TierMistake::ZeroLimit | TierMistake::TooManyToRemember(_) => "limit",
        TierMistake::Zero(field) | TierMistake::TooFine(field) | TierMistake::TooLong(field) => {
            field
        }
    }
}

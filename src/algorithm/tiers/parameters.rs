use std::{fmt, sync::Arc, time::Duration};

use super::{
    history::TierLog,
    tier::{Tier, TierInMicros},
};
use crate::algorithm::{
    Algorithm, FieldReader, LimitError, LimitSpans, MapForm, NEVER, Notation, Parameters, Share,
    WrittenFields, ceil_micros,
    duration::{format_span, parse_span},
    notation::{AlgorithmFields, is_number, split_option, whole},
};

/// The tiers of a limit, lowest first. Cheap to clone. The [module docs](crate::tiers) have an example.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tiers(pub(super) Arc<[TierInMicros]>);

impl Tiers {
    /// The most tiers of a limit.
    pub(crate) const MAX: usize = 16;

    /// Creates a limit of these tiers, lowest first.
    ///
    /// # Errors
    ///
    /// If there are none or more than [`MAX`](Self::MAX); if a limit, a window or an active period is zero; if a duration
    /// is not a whole number of microseconds or above 2⁵¹ of them (71 years) without being [`Tier::FOREVER`]; if a
    /// window slides with a limit above 4096.
    pub(crate) fn new(tiers: impl IntoIterator<Item = Tier>) -> Result<Self, LimitError> {
        let tiers = tiers.into_iter().enumerate();
        let spans = tiers
            .map(|(i, tier)| TierInMicros::new(&tier, i == 0).map_err(|error| error.in_tier(i)));
        let spans = spans.collect::<Result<Arc<_>, _>>()?;
        match spans.len() {
            0 => Err(LimitError::value(
                "tiers",
                "tiers is empty, so nothing would ever pass: list at least one",
            )),
            1..=Self::MAX => Ok(Self(spans)),
            more => Err(LimitError::value(
                "tiers",
                format!("{more} tiers are more than 16: remove some"),
            )),
        }
    }

    /// The tiers, lowest first.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = Tier> {
        self.0.iter().map(TierInMicros::tier)
    }
}

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

impl Parameters for Tiers {
    fn capacity(&self) -> u32 {
        let limits = self.0.iter().map(|span| span.limit);
        limits.fold(0, u32::saturating_add)
    }

    fn share(&self, share: Share) -> Algorithm {
        let shared = self.0.iter().map(|span| TierInMicros {
            limit: share.units(span.limit),
            ..*span
        });
        Algorithm::Tiers(Self(shared.collect()))
    }

    fn spans(&self) -> LimitSpans {
        let mut windows = self.iter().map(|tier| tier.window);
        let lowest = windows.next().filter(|window| *window != Tier::FOREVER);
        LimitSpans {
            // Several tiers have no common window.
            window: lowest.filter(|_| windows.len() == 0),
            period: lowest,
        }
    }

    /// The bound is the sum over all tiers, each of which is entered as often as possible.
    fn most_within(&self, span: Duration) -> Option<u128> {
        let us = ceil_micros(span);
        let tiers = self.iter().enumerate();
        Some(tiers.map(|(i, tier)| of_tier(tier, i == 0, us)).sum())
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

    fn largest_history(&self) -> usize {
        let sliding = self.0.iter().filter(|span| span.slides);
        let units: usize = sliding.map(|span| span.limit as usize).sum();
        self.0.len() * size_of::<TierLog>() + units * size_of::<u64>()
    }

    /// A limit of 1 is not doubtful: its only unit enters the tier, and counts as long as the tier is active.
    fn doubts(&self) -> Vec<(usize, &'static str)> {
        const SHORT: &str = "the cooldown of a tier is shorter than its window, and a tier starts empty each time it is \
             entered: it grants its limit more than once within one window; make the cooldown as long as the window";
        let upper = self.0.iter().enumerate().skip(1);
        let short = upper.filter(|(_, span)| {
            let ends = span.active.saturating_add(span.cooldown) != NEVER;
            let is_single = span.limit == 1 && span.active >= span.window;
            ends && span.cooldown < span.window - 1 && !is_single
        });
        short.map(|(tier, _)| (tier, SHORT)).collect()
    }
}

impl Notation for Tiers {
    const FIELDS: AlgorithmFields = AlgorithmFields {
        fields: &["tiers"],
        words: "tiers",
        options: &[],
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

    fn parse(line: &str) -> Result<Option<Algorithm>, LimitError> {
        let tiers: Option<Vec<_>> = line.split(THEN).map(parse_tier).collect();
        let Some(tiers) = tiers else {
            return Ok(None);
        };
        let tiers = tiers.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(Some(Algorithm::Tiers(Self::new(tiers)?)))
    }
}

/// The words between two tiers in a line.
const THEN: &str = ", then ";

/// Writes `5 per 1s for infinite, then 50 per 5s for 5s, cooldown 15s, skippable`.
impl fmt::Display for Tiers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, tier) in self.iter().enumerate() {
            f.write_str(if i > 0 { THEN } else { "" })?;
            tier.fmt(f)?;
        }
        Ok(())
    }
}

/// Reads a tier. Without `active`, the lowest tier is active forever. A higher one must set it, or it would never end.
fn read_tier<F: FieldReader>(i: usize, fields: &F) -> Option<Tier> {
    let limit = fields.whole("limit");
    let window = span(fields, "window");
    let active = span(fields, "active");
    let cooldown = span(fields, "cooldown");
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

/// Reads a tier in a line. Returns `None` if it has another form.
fn parse_tier(line: &str) -> Option<Result<Tier, LimitError>> {
    let skippable = line.ends_with(", skippable");
    let line = line.strip_suffix(", skippable").unwrap_or(line);
    let (rate, cooldown) = split_option(line, ", cooldown ");
    let words: Vec<_> = rate.split(' ').collect();
    let [limit, "per", window, "for", active] = words[..] else {
        return None;
    };
    if !is_number(limit) || active.is_empty() {
        return None;
    }
    let read = || {
        Ok(Tier {
            limit: whole("limit", limit)?,
            window: parse_span("window", window)?,
            active: parse_span("active", active)?,
            cooldown: match cooldown {
                Some(cooldown) => parse_span("cooldown", cooldown)?,
                None => Duration::ZERO,
            },
            skippable,
        })
    };
    Some(read())
}

/// Reads a duration, which can be endless.
fn span<F: FieldReader>(fields: &F, field: &'static str) -> Option<Duration> {
    fields.parsed(field, |text| parse_span(field, text))
}

/// Returns the most units that a tier grants within `us` microseconds. On each entry, it grants its limit in each window that
/// starts while it is active. The lowest tier keeps its window when it is entered again.
fn of_tier(tier: Tier, is_lowest: bool, us: u128) -> u128 {
    const ENDLESS: u128 = u128::MAX >> 1;
    let micros = |span: Duration, more| match span {
        Tier::FOREVER => ENDLESS,
        span => span.as_micros() + more,
    };
    // A unit counts, and a tier is active, for a microsecond longer than it says.
    let window = micros(tier.window, 1);
    let active = micros(tier.active, 1);
    let by_window = u128::from(tier.limit) * us.div_ceil(window);
    let gap = micros(tier.cooldown, 0);
    // The first entry can be before the span, which then begins in the last microsecond of the active period.
    let entered = match us.checked_sub(gap + 2) {
        None => 1,
        Some(more) => 2 + more / (active + gap),
    };
    let by_entries = entered * u128::from(tier.limit) * us.min(active).div_ceil(window);
    if is_lowest {
        by_window.min(by_entries)
    } else {
        by_entries
    }
}

//! A summary of valid files.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;
use tollgate::{Limit, Limits, limit::NamedLimit};

use crate::bound::Bound;

/// The numbers of limits and overrides, and the unusual ones among them.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) limits: Names,
    pub(crate) overrides: Overrides,
}

#[derive(Debug, Serialize)]
pub(crate) struct Names {
    count: usize,
    shadow: Vec<String>,
    blocked: Vec<String>,
    unlimited: Vec<String>,
    /// The limits without values. They only limit clients with an override.
    not_limited: Vec<String>,
    /// The bound of each limit, except for limits that admit everything or nothing.
    bounds: BTreeMap<String, Bound>,
}

/// There can be a million overrides, so they are only counted.
#[derive(Debug, Serialize)]
pub(crate) struct Overrides {
    count: usize,
    blocked: usize,
    unlimited: usize,
}

impl Summary {
    pub(crate) fn of(limits: &Limits) -> Self {
        let of = |is: &dyn Fn(&NamedLimit) -> bool| {
            let those = limits.iter().filter(|named| is(named));
            those.map(|named| named.name.to_string()).collect()
        };
        let overrides = |is: fn(&Limit) -> bool| {
            let own = limits.iter().flat_map(NamedLimit::overrides);
            own.filter(|own| is(own.limit)).count()
        };
        Self {
            limits: Names {
                count: limits.iter().count(),
                shadow: of(&|named| limits.is_shadow(named)),
                blocked: of(&|named| named.limit.as_ref().is_some_and(Limit::is_blocked)),
                unlimited: of(&|named| named.limit.as_ref().is_some_and(is_unlimited)),
                not_limited: of(&|named| named.limit.is_none()),
                bounds: limits
                    .iter()
                    .filter_map(|named| {
                        Some((named.name.to_string(), Bound::of(named.limit.as_ref()?)?))
                    })
                    .collect(),
            },
            overrides: Overrides {
                count: overrides(|_| true),
                blocked: overrides(Limit::is_blocked),
                unlimited: overrides(is_unlimited),
            },
        }
    }
}

fn is_unlimited(limit: &Limit) -> bool {
    *limit == Limit::UNLIMITED
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limits, overrides } = self;
        writeln!(f, "limits: {}", limits.count)?;
        for (what, names) in [
            ("in shadow mode", &limits.shadow),
            ("blocked", &limits.blocked),
            ("unlimited", &limits.unlimited),
            ("without values", &limits.not_limited),
        ] {
            if !names.is_empty() {
                writeln!(f, "  {what}: {}", names.join(", "))?;
            }
        }
        for (name, bound) in &limits.bounds {
            writeln!(f, "  {name}: at most {bound}")?;
        }
        write!(f, "overrides: {}", overrides.count)?;
        for (what, count) in [
            ("blocked", overrides.blocked),
            ("unlimited", overrides.unlimited),
        ] {
            if count > 0 {
                write!(f, "\n  {what}: {count}")?;
            }
        }
        Ok(())
    }
}

//! Chooses the client's item of a list, from the right, where proxies append.

use std::net::IpAddr;

use super::{problem::AddressProblem, ranges::Ranges};

/// The most items of a list that are read.
pub(super) const MAX_ITEMS: usize = 64;

/// A way to choose the client's item.
#[derive(Clone, Copy, Debug)]
pub(super) enum ItemChoice<'a> {
    /// The first from the right that is not in these ranges.
    Untrusted(&'a Ranges),
    /// The one at this place from the right, the last item being at 1.
    Nth(usize),
}

impl ItemChoice<'_> {
    /// Chooses among `items`, beginning with the last. An item that is not an address is never passed
    /// over in favour of another.
    pub(super) fn of(
        self,
        items: impl Iterator<Item = Option<IpAddr>>,
    ) -> Result<IpAddr, AddressProblem> {
        match self {
            Self::Untrusted(ranges) => first_untrusted(items, ranges),
            Self::Nth(place) => nth(items, place),
        }
    }
}

fn first_untrusted(
    items: impl Iterator<Item = Option<IpAddr>>,
    ranges: &Ranges,
) -> Result<IpAddr, AddressProblem> {
    let mut problem = AddressProblem::Absent;
    for item in items.take(MAX_ITEMS) {
        let ip = item.ok_or(AddressProblem::Invalid)?;
        if !ranges.contains(ip) {
            return Ok(ip);
        }
        problem = AddressProblem::AllTrusted;
    }
    Err(problem)
}

fn nth(
    mut items: impl Iterator<Item = Option<IpAddr>>,
    place: usize,
) -> Result<IpAddr, AddressProblem> {
    let item = items
        .nth(place.saturating_sub(1))
        .ok_or(AddressProblem::TooFew)?;
    item.ok_or(AddressProblem::Invalid)
}

//! Chooses the client's item of a list. Counts from the right, because proxies append to the list.

use std::net::IpAddr;

use super::{problem::AddressProblem, ranges::Ranges};

/// The most items of a list that are read.
pub(super) const MAX_ITEMS: usize = 64;

/// A way to choose the client's item.
#[derive(Clone, Copy, Debug)]
pub(super) enum ItemChoice<'a> {
    /// The first item from the right that is not in these ranges.
    Untrusted(&'a Ranges),
    /// The item at this place from the right. The last item has the place 1.
    Nth(usize),
}

impl ItemChoice<'_> {
    /// Chooses among `items`, which begin with the last one. An item that is not an address is never skipped.
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

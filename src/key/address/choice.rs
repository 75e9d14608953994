//! Which item of a list is the client's, counted from the right, where proxies append.

use std::net::IpAddr;

use super::{problem::AddressProblem, ranges::Ranges};

/// How many items of a list are read at most.
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
    /// Chooses among `items`, the last of the list first. An item that is no address is never passed
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

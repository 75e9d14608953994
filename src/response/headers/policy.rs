use std::{borrow::Cow, sync::OnceLock};

use http::HeaderValue;
use smallvec::SmallVec;

use super::{
    exact,
    item::{SEPARATOR, add_item, value},
};
use crate::{
    decision::{ClientFigures, Decision, ceil_secs},
    transaction::Algorithm,
};

/// A limit's item of `RateLimit-Policy`. It is the same for all clients without an override that are in the lowest
/// tier, so it is built once. The item of a monthly quota is built each time, because months have different lengths.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policy {
    usual: OnceLock<UsualPolicy>,
    /// The lists that begin with this item.
    lists: [OnceLock<UsualList>; LISTS],
}

/// The most lists of usual items that are kept for a limit. Rules that not all requests meet lead to several.
const LISTS: usize = 4;

/// The most items of a list that are not allocated.
const INLINE: usize = 4;

/// The items of a response. Those of most clients are shared.
pub(super) type Items<'a> = SmallVec<[Cow<'a, HeaderValue>; INLINE]>;

/// The item of most clients, and what it depends on.
#[derive(Clone, Debug)]
struct UsualPolicy {
    algorithm: Algorithm,
    has_line: bool,
    is_reserved: bool,
    /// The cost of a request that the item names.
    cost: u32,
    item: HeaderValue,
    /// The item for requests of other costs.
    any_cost: HeaderValue,
}

impl UsualPolicy {
    #[inline]
    fn is_of(&self, figures: &ClientFigures<'_>) -> bool {
        figures.has_usual_terms(&self.algorithm, self.has_line)
            && figures.is_reserved() == self.is_reserved
    }

    #[inline]
    fn item(&self, cost: u32) -> &HeaderValue {
        let is_usual = cost == self.cost;
        if is_usual { &self.item } else { &self.any_cost }
    }
}

impl Policy {
    #[inline]
    fn item(&self, limit: &str, figures: &ClientFigures<'_>) -> Cow<'_, HeaderValue> {
        match self.usual.get() {
            Some(usual) if usual.is_of(figures) => Cow::Borrowed(usual.item(figures.cost())),
            _ => Cow::Owned(self.new_item(limit, figures)),
        }
    }

    /// Builds the item for a client with an override, or the first one of the limit, which is then reused.
    #[cold]
    fn new_item(&self, limit: &str, figures: &ClientFigures<'_>) -> HeaderValue {
        let (most, window) = figures.allowance();
        let window = Some(window).filter(|window| *window != Decision::NEVER);
        let secs = window.map(|window| ceil_secs(window).max(1));
        let mut standard = Vec::new();
        add_item(&mut standard, limit, ("\";q=", most), (";w=", secs));
        let standard = value(standard);
        let cost = figures.cost();
        let item = exact::policy(&standard, figures.refill(), cost);
        if let Some(algorithm) = figures.algorithm().filter(|_| figures.is_usual()) {
            let _ = self.usual.set(UsualPolicy {
                algorithm,
                has_line: figures.has_line(),
                is_reserved: figures.is_reserved(),
                cost,
                item: item.clone(),
                any_cost: exact::policy(&standard, figures.refill(), 1),
            });
        }
        item
    }

    /// Joins items, of which this is the policy of the first. Lists of usual items are built once.
    fn joined(&self, items: &Items<'_>) -> HeaderValue {
        let are_usual = items.iter().all(|item| matches!(item, Cow::Borrowed(_)));
        for list in self.lists.iter().filter(|_| are_usual) {
            let list = list.get_or_init(|| UsualList::new(items));
            if list.is_of(items) {
                return list.joined.clone();
            }
        }
        joined(items)
    }
}

/// Usual items, and what they look like together.
#[derive(Clone, Debug)]
struct UsualList {
    items: Box<[HeaderValue]>,
    joined: HeaderValue,
}

impl UsualList {
    #[cold]
    fn new(items: &Items<'_>) -> Self {
        Self {
            items: items.iter().map(|item| (**item).clone()).collect(),
            joined: joined(items),
        }
    }

    /// Returns whether these are the same items. Each is built once, so its text is in one place.
    fn is_of(&self, items: &Items<'_>) -> bool {
        let place = |item: &HeaderValue| item.as_bytes().as_ptr();
        let mut both = self.items.iter().zip(items);
        self.items.len() == items.len() && both.all(|(ours, item)| place(ours) == place(item))
    }
}

/// The items of a response. Most responses have one.
#[derive(Default)]
pub(super) struct PolicyList<'a> {
    first: Option<(&'a Policy, Cow<'a, HeaderValue>)>,
    /// All items, if there are several.
    several: Option<Items<'a>>,
}

impl<'a> PolicyList<'a> {
    #[inline(always)]
    pub(super) fn add(&mut self, limit: &str, policy: &'a Policy, figures: &ClientFigures<'_>) {
        let item = policy.item(limit, figures);
        match &self.first {
            None => self.first = Some((policy, item)),
            Some((_, first)) => {
                let several = &mut self.several;
                let items = several.get_or_insert_with(|| Items::from_iter([first.clone()]));
                items.push(item);
            }
        }
    }

    /// Returns the field, if it has an item.
    #[inline(always)]
    pub(super) fn joined(self) -> Option<HeaderValue> {
        let (policy, first) = self.first?;
        Some(match self.several {
            None => first.into_owned(),
            Some(items) => policy.joined(&items),
        })
    }
}

fn joined(items: &Items<'_>) -> HeaderValue {
    let items: SmallVec<[&[u8]; INLINE]> = items.iter().map(|item| item.as_bytes()).collect();
    value(items.join(SEPARATOR))
}

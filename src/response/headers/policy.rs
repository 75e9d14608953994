use std::sync::OnceLock;

use http::HeaderValue;
use smallvec::SmallVec;

use super::exact;
use crate::{
    decision::{ClientFigures, ClientTerms, Decision, ceil_secs},
    response::text::{ResponseText, value},
};

/// What stands between two items of a list.
pub(super) const SEPARATOR: &str = ", ";

/// The parameter of `RateLimit` that follows the name of a limit.
const REMAINING: &str = ";r=";

/// The unit of a limit on what runs at once, by the name that the draft registers.
const CONCURRENT: &str = ";qu=\"concurrent-requests\"";

/// The most items that are kept for a limit: for its values now and after reloads, for those of the most common overrides, for
/// tiers, and for months of different lengths.
const ITEMS: usize = 8;

/// The most lists that are kept for a limit. Rules that not all requests meet lead to several.
const LISTS: usize = 8;

/// What clients see of a rule's limit: its name, and its items of `RateLimit-Policy`. The items for most clients are built
/// once, and so are lists of them.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    /// The limit's item of `RateLimit` up to its first number, after a separator. `None` if clients do not see the limit.
    state: Option<Box<str>>,
    /// Whether the limit can deny a request.
    votes: bool,
    items: [OnceLock<KeptItem>; ITEMS],
    /// The lists that begin with an item of this limit.
    lists: [OnceLock<KeptList>; LISTS],
}

/// An item, and what it depends on.
#[derive(Clone, Debug)]
struct KeptItem {
    terms: ClientTerms,
    /// Whether the item has the parameters of our own.
    exact: bool,
    /// The cost of a request that the item names.
    cost: u32,
    item: HeaderValue,
    /// The item for requests of other costs.
    any_cost: HeaderValue,
}

impl KeptItem {
    #[inline(always)]
    fn of_cost(&self, cost: u32) -> &HeaderValue {
        match cost == self.cost {
            true => &self.item,
            false => &self.any_cost,
        }
    }
}

impl Policy {
    /// Creates the policy of a limit that clients see.
    pub(crate) fn new(limit: &str, votes: bool) -> Self {
        Self {
            state: Some(format!("{SEPARATOR}\"{limit}\"{REMAINING}").into()),
            votes,
            ..Self::hidden()
        }
    }

    /// Creates the policy of a limit that clients do not see.
    pub(crate) fn hidden() -> Self {
        Self {
            state: None,
            votes: false,
            items: Default::default(),
            lists: Default::default(),
        }
    }

    /// Returns the beginning of an item of `RateLimit`, if clients see the limit.
    #[inline(always)]
    pub(super) fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// Returns whether the limit can deny a request.
    pub(super) fn votes(&self) -> bool {
        self.votes
    }

    /// Returns the item with these figures, if clients see the limit. `exact` adds the parameters of our own.
    #[inline(always)]
    pub(super) fn item(&self, figures: &ClientFigures<'_>, exact: bool) -> Option<ShownItem<'_>> {
        for place in &self.items {
            match place.get() {
                Some(kept) if kept.exact == exact && figures.has_terms(&kept.terms) => {
                    return Some(ShownItem::Kept(kept.of_cost(figures.cost())));
                }
                Some(_) => {}
                None => return self.new_item(figures, exact, Some(place)),
            }
        }
        self.new_item(figures, exact, None)
    }

    /// Builds an item, and keeps it if there is a place for it.
    #[cold]
    fn new_item(
        &self,
        figures: &ClientFigures<'_>,
        exact: bool,
        place: Option<&OnceLock<KeptItem>>,
    ) -> Option<ShownItem<'_>> {
        let name = self.state()?.strip_prefix(SEPARATOR)?;
        let name = name.strip_suffix(REMAINING)?;
        let cost = figures.cost();
        let item = text(name, figures, exact.then_some(cost));
        if let Some(place) = place {
            place.get_or_init(|| KeptItem {
                terms: figures.terms(),
                exact,
                cost,
                item: item.clone(),
                any_cost: match exact {
                    true => text(name, figures, Some(1)),
                    false => item.clone(),
                },
            });
        }
        Some(ShownItem::Built(Box::new(item)))
    }
}

/// Writes an item. One with the parameters of our own names a cost.
fn text(name: &str, figures: &ClientFigures<'_>, exact_cost: Option<u32>) -> HeaderValue {
    let (most, window) = figures.allowance();
    let mut item = ResponseText::default();
    item.push(name);
    item.parameter(";q=", most);
    if figures.are_permits() {
        item.push(CONCURRENT);
    }
    if window != Decision::NEVER {
        item.parameter(";w=", ceil_secs(window).max(1));
    }
    if let Some((cost, refill)) = exact_cost.zip(figures.refill()) {
        exact::add_refill(&mut item, refill, cost);
    }
    value(item.as_bytes())
}

/// An item of `RateLimit-Policy`.
#[derive(Debug)]
pub(super) enum ShownItem<'a> {
    /// One that is kept, so its text stays in one place.
    Kept(&'a HeaderValue),
    Built(Box<HeaderValue>),
}

impl ShownItem<'_> {
    fn value(&self) -> &HeaderValue {
        match self {
            Self::Kept(value) => value,
            Self::Built(value) => value,
        }
    }
}

/// The items of a response.
#[derive(Debug, Default)]
pub(super) struct PolicyList<'a> {
    /// The policy of the first item.
    first: Option<&'a Policy>,
    items: SmallVec<[ShownItem<'a>; 4]>,
}

impl<'a> PolicyList<'a> {
    #[inline(always)]
    pub(super) fn add(&mut self, policy: &'a Policy, item: ShownItem<'a>) {
        self.first.get_or_insert(policy);
        self.items.push(item);
    }

    /// Returns the field, if it has an item.
    #[inline(always)]
    pub(super) fn joined(&self) -> Option<HeaderValue> {
        match &*self.items {
            [] => None,
            [only] => Some(only.value().clone()),
            items => self.first.map(|policy| policy.joined(items)),
        }
    }
}

impl Policy {
    /// Joins items, of which this is the policy of the first.
    #[inline(never)]
    fn joined(&self, items: &[ShownItem<'_>]) -> HeaderValue {
        let are_kept = items.iter().all(|item| matches!(item, ShownItem::Kept(_)));
        for list in self.lists.iter().filter(|_| are_kept) {
            let list = list.get_or_init(|| KeptList::new(items));
            if list.is_of(items) {
                return list.joined.clone();
            }
        }
        joined(items)
    }
}

/// Items that are kept, and what they look like together.
#[derive(Clone, Debug)]
struct KeptList {
    items: Box<[HeaderValue]>,
    joined: HeaderValue,
}

impl KeptList {
    #[cold]
    fn new(items: &[ShownItem<'_>]) -> Self {
        Self {
            items: items.iter().map(|item| item.value().clone()).collect(),
            joined: joined(items),
        }
    }

    /// Returns whether these are the same items. Each is built once, so its text is in one place.
    fn is_of(&self, items: &[ShownItem<'_>]) -> bool {
        let place = |item: &HeaderValue| item.as_bytes().as_ptr();
        let mut both = self.items.iter().zip(items);
        self.items.len() == items.len()
            && both.all(|(ours, item)| place(ours) == place(item.value()))
    }
}

fn joined(items: &[ShownItem<'_>]) -> HeaderValue {
    let items: SmallVec<[&[u8]; 4]> = items.iter().map(|item| item.value().as_bytes()).collect();
    value(&items.join(SEPARATOR.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Limit, Limiter, Limits, MemoryBackend, Transaction};

    fn limiter(limit: Limit) -> Limiter {
        let limits = Limits::builder().limit("orders", limit).build().unwrap();
        Limiter::new(limits, MemoryBackend::new())
    }

    /// The item after a request, and whether it is a kept one.
    fn item(policy: &Policy, limiter: &Limiter, exact: bool) -> (String, bool) {
        let request = Transaction::new("orders", "alice");
        let decision = limiter.try_spend(&request).unwrap().unwrap();
        let item = policy.item(&decision.figures().unwrap(), exact).unwrap();
        let text = item.value().to_str().unwrap().to_owned();
        (text, matches!(item, ShownItem::Kept(_)))
    }

    #[test]
    fn items_of_many_limits_are_right_and_the_first_ones_are_kept() {
        let policy = Policy::new("orders", true);
        for is_kept in [false, true] {
            for (i, most) in (1..=2 + u32::try_from(ITEMS).unwrap()).enumerate() {
                let limiter = limiter(Limit::window(most, Duration::from_secs(60)));
                let text = format!("\"orders\";q={most};w=60;tollgate-window=60000000");
                assert_eq!(item(&policy, &limiter, true), (text, is_kept && i < ITEMS));
            }
        }
    }

    #[test]
    fn kept_items_are_those_of_the_fields_in_use() {
        let limiter = limiter(Limit::window(5, Duration::from_secs(60)));
        let policy = Policy::new("orders", true);
        for is_kept in [false, true] {
            for (exact, ours) in [(false, ""), (true, ";tollgate-window=60000000")] {
                let text = format!("\"orders\";q=5;w=60{ours}");
                assert_eq!(item(&policy, &limiter, exact), (text, is_kept));
            }
        }
    }

    #[test]
    fn blocked_client_and_hidden_limit_have_no_figures() {
        let limiter = limiter(Limit::BLOCKED);
        let policy = Policy::new("orders", true);
        for is_kept in [false, true] {
            let text = "\"orders\";q=0".into();
            assert_eq!(item(&policy, &limiter, true), (text, is_kept));
        }
        let request = Transaction::new("orders", "alice");
        let decision = limiter.try_spend(&request).unwrap().unwrap();
        let figures = decision.figures().unwrap();
        assert!(Policy::hidden().item(&figures, false).is_none());
    }
}

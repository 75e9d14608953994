//! A choice among limits.

use std::sync::Arc;

use http::request::Parts;

/// The limits that a rule can choose from, beside its own, and how it chooses.
#[derive(Clone)]
pub(super) struct Choice {
    pub(super) others: Arc<[Arc<str>]>,
    choose: Choose,
}

#[derive(Clone)]
enum Choose {
    ByName(Arc<ByName>),
    ByPlace(Arc<ByPlace>),
}

type ByName = dyn Fn(&Parts) -> Option<&str> + Send + Sync;
type ByPlace = dyn Fn(&Parts) -> Option<usize> + Send + Sync;

/// The limit that a rule has chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chosen<'a> {
    Name(&'a str),
    /// The place among the other limits.
    Place(usize),
}

impl Choice {
    pub(super) fn by_name<T: Into<Arc<str>>>(
        others: impl IntoIterator<Item = T>,
        choose: impl Fn(&Parts) -> Option<&str> + Send + Sync + 'static,
    ) -> Self {
        Self::new(others, Choose::ByName(Arc::new(choose)))
    }

    pub(super) fn by_place<T: Into<Arc<str>>>(
        others: impl IntoIterator<Item = T>,
        choose: impl Fn(&Parts) -> Option<usize> + Send + Sync + 'static,
    ) -> Self {
        Self::new(others, Choose::ByPlace(Arc::new(choose)))
    }

    fn new<T: Into<Arc<str>>>(others: impl IntoIterator<Item = T>, choose: Choose) -> Self {
        Self {
            others: others.into_iter().map(Into::into).collect(),
            choose,
        }
    }

    /// Returns the choice for a request, or `None` for the rule's own limit.
    #[inline]
    pub(super) fn of<'a>(&self, parts: &'a Parts) -> Option<Chosen<'a>> {
        match &self.choose {
            Choose::ByName(choose) => choose(parts).map(Chosen::Name),
            Choose::ByPlace(choose) => choose(parts).map(Chosen::Place),
        }
    }
}

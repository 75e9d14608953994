use crate::{
    backend::{Backend, MemoryBackend},
    key::KeyExtractor,
    limit::{Limit, LimitName, Limits},
    limiter::Limiter,
    rule::Rule,
};

/// The default name of the limit.
const NAME: &str = "requests";

/// The only limit of a layer, and the rule by which requests meet it.
#[derive(Clone, Debug)]
pub(super) struct OneLimit {
    name: LimitName,
    limit: Limit,
    rule: Rule,
}

impl OneLimit {
    pub(super) fn new(limit: Limit, extractor: impl KeyExtractor) -> Self {
        Self {
            name: NAME.into(),
            limit,
            rule: Rule::new(NAME, extractor),
        }
    }

    pub(super) fn named(self, name: LimitName) -> Self {
        Self {
            rule: self.rule.of_limit(name.as_str()),
            name,
            limit: self.limit,
        }
    }

    pub(super) fn rule(&self) -> Rule {
        self.rule.clone()
    }

    /// Creates a limiter with its own memory.
    #[track_caller]
    pub(super) fn in_memory(&self) -> Limiter {
        self.limiter(MemoryBackend::new())
    }

    /// Creates a limiter that keeps the limit's buckets in a backend.
    #[track_caller]
    pub(super) fn limiter(&self, backend: impl Backend) -> Limiter {
        let limits = Limits::builder().limit(self.name.clone(), self.limit.clone());
        match limits.build() {
            Ok(limits) => Limiter::new(limits, backend),
            Err(error) => panic!("{error}"),
        }
    }
}

//! The sources of a rule's ids.

use std::{fmt, ops::Range, sync::Arc};

use http::request::Parts;

use crate::{
    id::{Id, IdFormat},
    key::{Extracted, IdProperties, IdSource, KeyExtractor, MissingId},
    transaction::IdHash,
};

/// The extractors of a rule, in order.
#[derive(Clone)]
pub(super) struct Sources(Arc<[RuleExtractor]>);

struct RuleExtractor {
    extractor: Arc<dyn KeyExtractor>,
    description: IdProperties,
}

/// The id whose bucket a request meets.
#[derive(Clone, Debug)]
pub(crate) struct ClientId {
    /// The id in canonical form.
    id: Id,
    /// The id as it was found, if that differs.
    written: Option<Box<Id>>,
}

impl ClientId {
    /// Creates room for an id.
    #[inline(always)]
    pub(crate) fn empty() -> Self {
        Self {
            id: Id::empty(),
            written: None,
        }
    }

    /// Forgets an id that no charge has.
    #[cold]
    pub(super) fn clear(&mut self) {
        *self = Self::empty();
    }

    /// Creates the id of requests without one, which share a bucket.
    pub(super) fn missing() -> Self {
        Self {
            id: Id::MISSING.into(),
            written: None,
        }
    }

    /// Returns the id in canonical form.
    #[inline]
    pub(super) fn canonical(&self) -> &str {
        self.id.as_str()
    }

    /// The id as it was found.
    pub(crate) fn as_found(&self) -> &Id {
        self.written.as_deref().unwrap_or(&self.id)
    }

    /// Returns whether texts for people must not contain the id.
    #[inline]
    pub(super) fn is_secret(&self) -> bool {
        self.id.is_secret()
    }
}

/// The reason why a request has no id for a rule.
#[derive(Debug)]
pub(super) enum NoId {
    /// The rule does not apply.
    Skip,
    /// The id is absent.
    Absent(MissingId),
    /// The id is not in the limit's format.
    Wrong(MissingId),
}

impl NoId {
    /// Returns whether the limit is missing, and not the id.
    pub(super) fn is_unknown_limit(&self) -> bool {
        matches!(self, Self::Wrong(missing) if missing.is_unknown_limit())
    }
}

/// The target and the extractor for which an id was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct IdPlace {
    pub(super) target: usize,
    pub(super) source: usize,
    /// The place of the id among those of the request, and its hash, if an earlier charge has it.
    pub(super) same: Option<(usize, IdHash)>,
    /// Whether it is the id that requests without one share.
    pub(super) is_missing: bool,
}

impl IdPlace {
    /// Creates the place of a new id.
    #[inline(always)]
    pub(super) fn new(target: usize, source: usize) -> Self {
        Self {
            target,
            source,
            same: None,
            is_missing: false,
        }
    }
}

/// The reason why a rule has no id for a request, and its possible limits.
pub(super) struct WithoutId {
    pub(super) no_id: NoId,
    pub(super) targets: Range<usize>,
}

/// The reason why a request without an id is refused, and the limits that refuse it.
pub(super) struct Unknown {
    pub(super) missing: MissingId,
    pub(super) targets: Range<usize>,
}

impl Sources {
    pub(super) fn new(extractor: impl KeyExtractor) -> Self {
        let description = extractor.describe();
        let sources: Arc<[_]> = match description.each() {
            [] => Arc::new([RuleExtractor {
                extractor: Arc::new(extractor),
                description,
            }]),
            each => each.iter().map(RuleExtractor::new).collect(),
        };
        Self(sources)
    }

    /// Finds the first id in a format, puts it into `room`, and returns its extractor. Passes the reasons of the
    /// earlier extractors to `missed`.
    #[inline(always)]
    pub(super) fn find(
        &self,
        parts: &Parts,
        format: IdFormat,
        room: &mut ClientId,
        missed: impl Fn(&NoId),
    ) -> Result<usize, NoId> {
        // Most rules have one extractor.
        if let [source] = &*self.0 {
            return source.find(parts, format, room).map(|()| 0);
        }
        let mut last = NoId::Skip;
        for (i, source) in self.0.iter().enumerate() {
            match source.find(parts, format, room) {
                Ok(()) => return Ok(i),
                Err(no_id) if i + 1 == self.0.len() => last = no_id,
                Err(no_id) => missed(&no_id),
            }
        }
        Err(last)
    }

    /// Returns whether all extractors find ids of a format.
    pub(super) fn fit(&self, format: IdFormat) -> bool {
        let mut sources = self.0.iter();
        sources.all(|source| source.description.has_format(format))
    }

    /// Returns whether both have one extractor, and these find the same.
    pub(super) fn are_same(&self, other: &Self) -> bool {
        match (&*self.0, &*other.0) {
            ([one], [other]) => one.description.is_same(&other.description),
            _ => false,
        }
    }

    /// Returns whether one of the extractors can find an id, given in canonical form.
    pub(super) fn can_find(&self, folded: &str) -> bool {
        let mut sources = self.0.iter();
        sources.any(|source| source.description.may_find(folded))
    }

    /// Returns whether one of the extractors can find secret ids.
    pub(super) fn have_secrets(&self) -> bool {
        let mut sources = self.0.iter();
        sources.any(|source| source.description.has_secrets())
    }

    /// Returns the source of one extractor's ids.
    pub(super) fn id_source(&self, source: usize) -> IdSource {
        self.0[source].description.id_source()
    }

    /// Returns whether one of the extractors trusts every peer.
    pub(super) fn trust_anyone(&self) -> bool {
        let mut sources = self.0.iter();
        sources.any(|source| source.description.id_source() == IdSource::Anyone)
    }
}

impl RuleExtractor {
    fn new(extractor: &Arc<dyn KeyExtractor>) -> Self {
        Self {
            extractor: Arc::clone(extractor),
            description: extractor.describe(),
        }
    }

    /// Puts the id into `room`, in its canonical form.
    #[inline(always)]
    fn find(&self, parts: &Parts, format: IdFormat, room: &mut ClientId) -> Result<(), NoId> {
        match self.extractor.extract(parts) {
            Extracted::Id(id) if format.keeps(id.as_str()) => {
                debug_assert!(room.written.is_none(), "a room is used once");
                room.id = id;
            }
            Extracted::Id(id) => *room = self.canonical(id, format)?,
            Extracted::Skip => return Err(NoId::Skip),
            Extracted::Missing(missing) => return Err(NoId::Absent(missing)),
        }
        Ok(())
    }

    fn canonical(&self, id: Id, format: IdFormat) -> Result<ClientId, NoId> {
        let canonical = format.fold(id.as_str());
        match canonical.map(|canonical| canonical.unless(id.as_str())) {
            Ok(None) => Ok(ClientId { id, written: None }),
            Ok(Some(canonical)) => Ok(ClientId {
                id: canonical.secret_if(id.is_secret()),
                written: Some(Box::new(id)),
            }),
            Err(error) => {
                let error = error.secret_if(id.is_secret());
                Err(NoId::Wrong(self.description.missing(&error)))
            }
        }
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id_sources = self.0.iter().map(|source| source.description.id_source());
        f.debug_list().entries(id_sources).finish()
    }
}

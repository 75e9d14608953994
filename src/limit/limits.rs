use std::{
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use ahash::RandomState;
use indexmap::IndexMap;

use super::{
    limit::Limit,
    mistake::Mistake,
    name::LimitName,
    overrides::{Override, Overrides},
};
use crate::{
    id::CanonicalId,
    metrics::Meter,
    spelling::did_you_mean,
    transaction::{Algorithm, LimitRef, LimitSeed},
};

/// The generation of the next limits. The first one is 1.
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// The number of names up to which a name is compared with each.
const FEW: usize = 8;

/// All limits of an application: for each name a default, and overrides for single clients. Created by
/// [`Limits::builder`].
#[derive(Clone, Debug, Default)]
pub struct Limits {
    named: IndexMap<Box<str>, NamedLimit, RandomState>,
    /// Distinguishes the indices of these limits from those of others. A clone has the same generation.
    generation: u64,
    digest: [u8; 32],
    settings: Settings,
    /// Whether any limit has a line to wait in.
    has_lines: bool,
    has_permits: bool,
    /// Whether memory keeps the buckets of any limit in rows.
    has_rows: bool,
}

/// The settings that apply to all limits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settings {
    pub(super) shadow: bool,
    pub(super) redact_ids: bool,
}

impl Limits {
    /// The limit of this name, or `None` if the name is not known.
    #[must_use]
    #[inline(always)]
    pub fn get(&self, name: &str) -> Option<&NamedLimit> {
        // A few names are compared faster than one is hashed.
        match self.named.len() {
            0..=FEW => self
                .named
                .iter()
                .find(|(known, _)| is_same(known, name))
                .map(|(_, named)| named),
            _ => self.named.get(name),
        }
    }

    /// Finds a limit by its index, if the reference has one for these limits, or else by its name.
    #[inline(always)]
    pub(crate) fn find(&self, limit: LimitRef<'_>) -> Option<&NamedLimit> {
        let Some(place) = limit.place() else {
            return self.get(limit.as_str());
        };
        let index = match place.within(self.generation) {
            Some(index) => index,
            None => {
                let index = self.named.get_index_of(limit.as_str())?;
                place.remember(self.generation, index);
                index
            }
        };
        self.named.get_index(index).map(|(_, named)| named)
    }

    /// All limits, in the order in which they were defined.
    pub fn iter(&self) -> impl Iterator<Item = &NamedLimit> {
        self.named.values()
    }

    /// Every name, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.named.keys().map(AsRef::as_ref).collect();
        names.sort_unstable();
        names
    }

    /// Returns whether a limit never refuses, because it or all of them are in shadow mode.
    #[must_use]
    #[inline]
    pub fn is_shadow(&self, named: &NamedLimit) -> bool {
        self.settings.shadow || named.name.is_shadow()
    }

    /// Returns whether all limits are in shadow mode.
    #[must_use]
    pub fn is_all_shadow(&self) -> bool {
        self.settings.shadow
    }

    /// Returns whether events show ids as hashes.
    #[must_use]
    #[inline]
    pub fn redacts_ids(&self) -> bool {
        self.settings.redact_ids
    }

    /// Returns a hash of all sources. Within one process, limits with the same hash are equal.
    #[doc(hidden)]
    #[must_use]
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Returns whether any limit or override has a line to wait in.
    #[inline]
    pub(crate) fn has_lines(&self) -> bool {
        self.has_lines
    }

    /// Returns whether any limit or override counts permits.
    #[inline]
    pub(crate) fn has_permits(&self) -> bool {
        self.has_permits
    }

    /// Returns whether memory keeps the buckets of any limit in rows.
    #[inline]
    pub(crate) fn has_rows(&self) -> bool {
        self.has_rows
    }

    /// Computes the properties of all limits together, once they are added.
    pub(super) fn finished(mut self) -> Self {
        for named in self.named.values_mut() {
            let own = named.overrides.iter().map(|own| own.limit);
            named.redacts_ids = self.settings.redact_ids;
            named.has_line = named.limit.iter().chain(own).any(Limit::has_line);
            let default = named.limit.as_ref().and_then(Limit::algorithm);
            let is_shadow = self.settings.shadow || named.name.is_shadow();
            let is_same_for_all = !is_shadow && named.overrides.iter().next().is_none();
            named.for_all = default.filter(|_| is_same_for_all).cloned();
        }
        let has_lines = self.iter().any(NamedLimit::has_line);
        let has_permits = self.iter().any(NamedLimit::has_permits);
        let has_rows = self.iter().any(|named| {
            let own = named.overrides.iter().map(|own| own.limit);
            let mut all = named.limit.iter().chain(own);
            all.any(|limit| limit.algorithm().is_some_and(Algorithm::fits_row))
        });
        (self.has_lines, self.has_permits) = (has_lines, has_permits);
        self.has_rows = has_rows;
        self
    }

    /// Starts the counters of all limits at 0.
    pub(crate) fn begin_counters(&self) {
        for named in self.iter() {
            Meter::begin(named.name.as_str());
            let algorithm = named.limit.as_ref().and_then(Limit::algorithm);
            if algorithm.is_some_and(|algorithm| algorithm.hold().is_some()) {
                Meter::begin_permits(named.name.as_str());
            }
        }
    }

    /// Creates empty limits for sources with this hash.
    pub(super) fn of(digest: [u8; 32], settings: Settings) -> Self {
        Self {
            generation: GENERATION.fetch_add(1, Ordering::Relaxed),
            digest,
            settings,
            ..Self::default()
        }
    }

    /// Adds a name without a limit.
    pub(super) fn declare(&mut self, name: LimitName) {
        let key = name.as_str().into();
        let named = NamedLimit {
            seed: LimitSeed::of(name.key()),
            words: OnceLock::new(),
            name,
            limit: None,
            is_defined: false,
            file: None,
            overrides: Overrides::default(),
            has_line: false,
            for_all: None,
            redacts_ids: false,
            meter: Meter::default(),
        };
        self.named.insert(key, named);
    }

    /// Sets the limit of a declared name; `None` turns it off.
    pub(super) fn define(&mut self, said: &LimitName, limit: Option<Limit>) {
        if let Some(named) = self.named.get_mut(said.as_str()) {
            named.name.adopt(said);
            (named.limit, named.is_defined) = (limit, true);
            named.words = OnceLock::new();
        }
    }

    /// Records which file defines a name.
    pub(super) fn defined_in(&mut self, name: &str, file: &Path) {
        if let Some(named) = self.named.get_mut(name) {
            named.file = Some(file.into());
        }
    }

    /// Adds an override for one client of a name.
    pub(super) fn override_for(
        &mut self,
        name: &str,
        id: &str,
        limit: Arc<Limit>,
        comment: Option<&str>,
    ) -> Result<(), Mistake> {
        let Some(named) = self.named.get_mut(name) else {
            return Err(self.unknown(name));
        };
        let folded = named.name.format().canonical(id)?;
        let added = named.overrides.add(id, folded.as_str(), limit, comment);
        added.map_err(|other| Mistake::DuplicateOverride {
            first: other.id.into(),
            origin: None,
        })
    }

    /// Creates the mistake for an unknown name.
    pub(super) fn unknown(&self, name: &str) -> Mistake {
        let hint = did_you_mean(name, &self.names());
        Mistake::UnknownName { hint }
    }
}

/// A limit name, its default limit, and its overrides. Returned by [`Limits::get`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NamedLimit {
    /// The name.
    pub name: LimitName,
    /// The default, or `None` if only clients with an override are limited.
    pub limit: Option<Limit>,
    /// Whether the default, or the lack of one, is already defined.
    is_defined: bool,
    /// The file that defines the limit, if one does.
    file: Option<Arc<Path>>,
    overrides: Overrides,
    /// Whether requests of any client can wait in line.
    has_line: bool,
    /// The algorithm of all clients, if none has an override and the limit is not in shadow mode.
    for_all: Option<Algorithm>,
    /// Whether operators see the ids of clients as hashes.
    redacts_ids: bool,
    meter: Meter,
    seed: LimitSeed,
    /// The default in words and in parentheses, which is created at its first use.
    words: OnceLock<Box<str>>,
}

/// Compares two names. Most that differ have another length or last letter, which needs no call.
#[inline(always)]
fn is_same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    a.len() == b.len() && a.last() == b.last() && a == b
}

impl NamedLimit {
    /// Returns the limit of a client: its override, or else the default, or else none.
    ///
    /// ```
    /// use tollgate::{Limit, Limits};
    ///
    /// let limits = Limits::builder().limit("requests", Limit::per_second(10)).build()?;
    /// let requests = limits.get("requests").expect("it was just defined");
    /// let id = requests.name.format().fold("203.0.113.7").expect("anything is an opaque id");
    /// assert_eq!(requests.limit_of(&id), Some(&Limit::per_second(10)));
    /// # Ok::<_, tollgate::limit::LimitsError>(())
    /// ```
    #[must_use]
    pub fn limit_of(&self, id: &CanonicalId<'_>) -> Option<&Limit> {
        self.in_force(id.as_str())
    }

    /// The override of a client, if it has one.
    #[must_use]
    pub fn override_of(&self, id: &CanonicalId<'_>) -> Option<Override<'_>> {
        self.own(id.as_str())
    }

    /// The limit of the client with a folded id.
    #[inline]
    pub(crate) fn in_force(&self, folded: &str) -> Option<&Limit> {
        let own = self.overrides.limit_of(folded);
        own.or(self.limit.as_ref())
    }

    /// The override of the client with a folded id.
    pub(crate) fn own(&self, folded: &str) -> Option<Override<'_>> {
        self.overrides.get(folded)
    }

    /// Returns the limit of the client with a folded id for people, and whether it is an override. The default of a list of
    /// blocked clients says nothing.
    pub(crate) fn shown(&self, folded: &str) -> (Option<&Limit>, bool) {
        let own = self.own(folded).map(|own| own.limit);
        let default = self.limit.as_ref().filter(|_| !self.name.is_block());
        (own.or(default), own.is_some())
    }

    /// The default in words, in parentheses after a space, if it decides by this algorithm.
    pub(crate) fn words(&self, algorithm: &Algorithm) -> Option<&str> {
        let default = self.limit.as_ref()?;
        let words = || format!(" ({default})").into();
        (default.algorithm() == Some(algorithm)).then(|| &**self.words.get_or_init(words))
    }

    /// Returns the part of fingerprints that all buckets of this limit share.
    #[inline]
    pub(crate) fn seed(&self) -> &LimitSeed {
        &self.seed
    }

    /// Returns the counters of this limit's transactions.
    #[inline]
    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    pub(crate) fn is_defined(&self) -> bool {
        self.is_defined
    }

    /// Returns the algorithm of all clients, if none has an override and the limit is not in shadow mode.
    #[inline]
    pub(crate) fn for_all(&self) -> Option<&Algorithm> {
        self.for_all.as_ref()
    }

    /// Returns whether requests of any client can wait in line.
    pub(crate) fn has_line(&self) -> bool {
        self.has_line
    }

    /// Returns whether operators see the ids of clients as hashes.
    pub(crate) fn redacts_ids(&self) -> bool {
        self.redacts_ids
    }

    /// Returns whether permits are counted for any client.
    fn has_permits(&self) -> bool {
        let own = self.overrides.iter().map(|own| own.limit);
        let mut algorithms = self.limit.iter().chain(own).filter_map(Limit::algorithm);
        algorithms.any(|algorithm| algorithm.hold().is_some())
    }

    /// Returns the file that defines the limit, if one does.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// All overrides, in the order in which they were defined.
    #[must_use]
    pub fn overrides(&self) -> impl ExactSizeIterator<Item = Override<'_>> {
        self.overrides.iter()
    }
}

use std::{fmt, path::Path, sync::LazyLock};

use ahash::RandomState;

use super::{
    assembly::Assembly,
    file::{Document, LimitsSource},
    limit::Limit,
    limits::Limits,
    mistake::{LimitsError, Mistakes, Reporter},
    name::LimitName,
};
use crate::{
    algorithm::{Algorithm, block::Block},
    random,
};

/// Builds [`Limits`] from code and files. Files are read when the limits are built.
///
/// A builder can be used again, which reads the files again:
///
/// ```
/// use tollgate::{Limit, Limits, id::IdFormat, limit::LimitName};
///
/// let recipe = Limits::builder()
///     .name(LimitName::new("NewOrdersPerAccount", 6, IdFormat::RegId))
///     .limit("NewOrdersPerAccount", Limit::per_hour(100))
///     .override_for("NewOrdersPerAccount", "12345678", Limit::per_hour(200));
/// let limits = recipe.build()?;
/// # let _ = limits;
/// # Ok::<_, tollgate::limit::LimitsError>(())
/// ```
#[derive(Clone, Default, Hash)]
#[must_use = "nothing is limited until `build` is called"]
pub struct LimitsBuilder {
    names: Vec<LimitName>,
    limits: Vec<(LimitName, Limit)>,
    overrides: Vec<(LimitName, Box<str>, Limit)>,
    sources: Vec<LimitsSource>,
    is_shadow: bool,
    pub(crate) redacts_ids: bool,
}

/// Hashes sources. The hashes are only compared within this process.
static HASHER: LazyLock<RandomState> = LazyLock::new(|| random::keys(3));

impl Limits {
    /// Returns a builder without limits.
    pub fn builder() -> LimitsBuilder {
        LimitsBuilder::default()
    }
}

impl LimitsBuilder {
    /// Declares a name, with its number and id format. The name has no limit until code or a file sets one.
    ///
    /// Once a name is declared, files can only give values to declared names. A misspelt name is then an error. Without
    /// declarations, it would be another limit.
    pub fn name(mut self, name: impl Into<LimitName>) -> Self {
        self.names.push(name.into());
        self
    }

    /// Sets the limit of a name. The name need not be declared.
    pub fn limit(mut self, name: impl Into<LimitName>, limit: Limit) -> Self {
        self.limits.push((name.into(), limit));
        self
    }

    /// Adds a list of clients that are blocked for a time, with a reason for them. [`Limiter::block`] adds a client,
    /// and [`Limiter::unblock`] removes it. A [`Rule`](crate::Rule) with this name refuses the clients on the list.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{
    ///     Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, id::IdFormat, key::HeaderId, limit::LimitName,
    /// };
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limits = Limits::builder()
    ///     .limit(LimitName::new("orders", 1, IdFormat::RegId), Limit::per_hour(100))
    ///     .block(LimitName::new("unpaid", 2, IdFormat::RegId), "this account is paused: pay the open invoice")
    ///     .build()?;
    /// let limiter = Limiter::new(limits, MemoryBackend::new());
    /// let account = || HeaderId::new("x-account").shown();
    /// let layer = RateLimitLayer::with_limiter(limiter.clone())
    ///     .rule(Rule::new("unpaid", account()))
    ///     .rule(Rule::new("orders", account()));
    ///
    /// limiter.block("unpaid", "12345678", Duration::from_secs(24 * 60 * 60)).await?;
    /// # let _ = layer;
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The list is read together with the other limits of the request, in the same round trip. So every server that shares the
    /// store refuses the client from its next request on. Requests do not change the list.
    ///
    /// The reason is the [description](LimitName::description) of the name. All clients on the list have the same one. Each list
    /// adds one bucket to each request. The headers that show how much is left do not show these lists.
    ///
    /// The guide describes [how blocks behave with failures, caches and memory](crate::guide::operating#blocking-a-client).
    ///
    /// An override with [`Limit::UNLIMITED`] protects a client from blocks, and [`Limit::BLOCKED`] blocks it for good.
    ///
    /// [`Limiter::block`]: crate::Limiter::block
    /// [`Limiter::unblock`]: crate::Limiter::unblock
    pub fn block(self, name: impl Into<LimitName>, reason: &str) -> Self {
        let name = name.into().description(reason);
        self.limit(name, Limit::of(Algorithm::Block(Block)))
    }

    /// Sets another limit for one client: an override. Of a limit by [`ipAddress`](crate::id::IdFormat::IpAddress), the id can be a
    /// range such as `198.51.100.0/24`: each client in it has a bucket of its own with this limit. An exact address wins over a
    /// range, and a longer range over a shorter one.
    ///
    /// ```
    /// use tollgate::{Limit, Limits};
    ///
    /// let limits = Limits::builder()
    ///     .limit("requests", Limit::per_second(10))
    ///     .override_for("requests", "203.0.113.7", Limit::per_second(100))
    ///     .override_for("requests", "198.51.100.2", Limit::BLOCKED)
    ///     .build()?;
    /// # let _ = limits;
    /// # Ok::<_, tollgate::limit::LimitsError>(())
    /// ```
    pub fn override_for(mut self, name: impl Into<LimitName>, id: &str, limit: Limit) -> Self {
        self.overrides.push((name.into(), id.into(), limit));
        self
    }

    /// Adds a file of defaults, in a format that the [guide](crate::guide::limits_in_files#defaults) describes. The extension
    /// is that of the language: `.yml`, `.yaml`, `.json` or `.toml`.
    pub fn defaults_file(self, path: impl AsRef<Path>) -> Self {
        self.source(false, path.as_ref(), None)
    }

    /// Adds defaults from a text, in the format of a file. The name is shown in errors, and has the extension of the language, as
    /// in `defaults.yml`.
    pub fn defaults_text(self, name: &str, text: &str) -> Self {
        self.source(false, Path::new(name), Some(text))
    }

    /// Adds a file of overrides, in a format that the [guide](crate::guide::limits_in_files#overrides) describes. A file
    /// without overrides contains `[]`. An empty file is an error, because it may have been truncated.
    pub fn overrides_file(self, path: impl AsRef<Path>) -> Self {
        self.source(true, path.as_ref(), None)
    }

    /// Adds overrides from a text, in the format of a file. The name is shown in errors, and has the extension of the language, as
    /// in `overrides.yml`.
    pub fn overrides_text(self, name: &str, text: &str) -> Self {
        self.source(true, Path::new(name), Some(text))
    }

    /// Puts all limits into shadow mode, as [`LimitName::shadow`] does for one.
    pub fn shadow(mut self, shadow: bool) -> Self {
        self.is_shadow = shadow;
        self
    }

    /// Replaces all ids in events by hashes. A hash identifies a client within one process, and cannot be traced back to the id.
    /// Without it, events of level `DEBUG` and below contain ids, and so do events about mistakes in files. With it, the latter
    /// only contain the line. [Secret](crate::id::Id::secret) ids are hashes in all events.
    pub fn redact_ids(mut self, redact_ids: bool) -> Self {
        self.redacts_ids = redact_ids;
        self
    }

    /// Reads the files, and returns the limits.
    ///
    /// # Errors
    ///
    /// If files cannot be read, or if there are mistakes in code or in files. The error has all of them.
    pub fn build(&self) -> Result<Limits, LimitsError> {
        self.assemble(&self.read()?)
    }

    /// Reads the current contents of the files.
    pub(crate) fn read(&self) -> Result<Vec<Document>, LimitsError> {
        let mistakes = Mistakes::default();
        let read = |source: &LimitsSource| source.read(&mistakes);
        let documents = self.sources.iter().filter_map(read).collect();
        mistakes.or(documents)
    }

    pub(crate) fn assemble(&self, documents: &[Document]) -> Result<Limits, LimitsError> {
        let mistakes = Mistakes::default();
        let in_code = Reporter::new(&mistakes, None);
        let mut assembly = Assembly::default();
        for name in &self.names {
            assembly.declare(in_code, name);
        }
        assembly.is_closed = !self.names.is_empty();
        for (name, limit) in &self.limits {
            assembly.define(in_code, name, Some(limit.clone()));
        }
        for document in documents.iter().filter(|document| !document.is_overrides) {
            assembly.read_defaults(&mistakes, document);
        }
        for own in &self.overrides {
            assembly.override_in_code(in_code, own);
        }
        for document in documents.iter().filter(|document| document.is_overrides) {
            assembly.read_overrides(&mistakes, document);
        }
        let limits = assembly.limits;
        let digest = self.digest(documents);
        mistakes.or(limits.finished(digest, self.is_shadow, self.redacts_ids))
    }

    /// Returns the hash of limits from these documents.
    pub(crate) fn digest(&self, documents: &[Document]) -> u64 {
        HASHER.hash_one((self, documents))
    }

    fn source(mut self, is_overrides: bool, file: &Path, text: Option<&str>) -> Self {
        self.sources.push(LimitsSource {
            is_overrides,
            file: file.into(),
            text: text.map(Into::into),
        });
        self
    }
}

/// Leaves out overrides and texts, because ids can be personal data.
impl fmt::Debug for LimitsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LimitsBuilder").field(&self.names).finish()
    }
}

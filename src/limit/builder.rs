use std::{fmt, iter, path::Path, sync::Arc};

use sha2::{Digest, Sha256};

use super::{
    assembly::Assembly,
    file::{Document, Language, LimitsSource},
    limit::Limit,
    limits::{Limits, Settings},
    mistake::LimitsError,
    name::LimitName,
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
#[derive(Clone, Default)]
#[must_use = "nothing is limited until `build` is called"]
pub struct LimitsBuilder {
    names: Vec<LimitName>,
    limits: Vec<(LimitName, Limit)>,
    overrides: Vec<CodedOverride>,
    defaults_sources: Vec<LimitsSource>,
    overrides_sources: Vec<LimitsSource>,
    settings: Settings,
}

#[derive(Clone, Debug)]
struct CodedOverride {
    name: String,
    id: String,
    limit: Arc<Limit>,
}

/// Prints the number of overrides only, because their ids can be personal data.
impl fmt::Debug for LimitsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitsBuilder")
            .field("names", &self.names)
            .field("limits", &self.limits)
            .field("overrides", &self.overrides.len())
            .field("defaults_sources", &self.defaults_sources)
            .field("overrides_sources", &self.overrides_sources)
            .field("settings", &self.settings)
            .finish()
    }
}

impl Limits {
    /// Starts with no limits.
    pub fn builder() -> LimitsBuilder {
        LimitsBuilder::default()
    }
}

impl LimitsBuilder {
    /// Declares a name, with its number and id format. The name has no limit until code or a file sets one.
    ///
    /// Once a name is declared, files can only give values to declared names. A misspelt name is then an error, instead
    /// of another limit.
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
    /// A block is a bucket in debt: one token per second and a burst of one, and nothing is ever charged but the block. A
    /// request is refused until the debt is gone. It is asked together with the other limits of the request, in the same round
    /// trip. So every server that shares the store refuses the client, from its next request on.
    ///
    /// The reason is the [description](LimitName::description) of the name, and the same for all clients on the list. Each
    /// list costs a request one more bucket. The headers that show how much is left leave these lists out.
    ///
    /// The guide describes [what follows for failures, caches and memory](crate::guide::operating#blocking-a-client).
    ///
    /// An override with [`Limit::UNLIMITED`] protects a client from blocks, and [`Limit::BLOCKED`] blocks it for good.
    ///
    /// [`Limiter::block`]: crate::Limiter::block
    /// [`Limiter::unblock`]: crate::Limiter::unblock
    pub fn block(mut self, name: impl Into<LimitName>, reason: &str) -> Self {
        self.limits.push((name.into().block(reason), Limit::BLOCK));
        self
    }

    /// Sets another limit for one client: an override.
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
    pub fn override_for(mut self, name: &str, id: &str, limit: Limit) -> Self {
        self.overrides.push(CodedOverride {
            name: name.into(),
            id: id.into(),
            limit: limit.into(),
        });
        self
    }

    /// Adds a file of defaults, in a format that the [guide](crate::guide::limits_in_files#defaults) describes.
    pub fn defaults_file(self, path: impl AsRef<Path>) -> Self {
        self.defaults(LimitsSource::File(path.as_ref().into()))
    }

    /// Adds defaults from a text, in the format of a file.
    pub fn defaults_text(self, language: Language, text: &str) -> Self {
        self.defaults(LimitsSource::Text(language, text.into()))
    }

    /// Adds a file of overrides, in a format that the [guide](crate::guide::limits_in_files#overrides) describes. A file
    /// without overrides contains `[]`. An empty file is an error, because it may have been truncated.
    pub fn overrides_file(self, path: impl AsRef<Path>) -> Self {
        self.overrides(LimitsSource::File(path.as_ref().into()))
    }

    /// Adds overrides from a text, in the format of a file.
    pub fn overrides_text(self, language: Language, text: &str) -> Self {
        self.overrides(LimitsSource::Text(language, text.into()))
    }

    /// Puts all limits into shadow mode, as [`LimitName::shadow`] does for one.
    pub fn shadow(mut self, shadow: bool) -> Self {
        self.settings.shadow = shadow;
        self
    }

    /// Replaces all ids in events by hashes. A hash identifies a client within one process, and cannot be traced back to
    /// the id. Only events of level `DEBUG` and below contain ids. [Secret](crate::id::Id::secret) ids are always hashes there.
    pub fn redact_ids(mut self, redact_ids: bool) -> Self {
        self.settings.redact_ids = redact_ids;
        self
    }

    /// Reads the files, and returns the limits.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or at the first mistake: in the names in code, then in their limits, in the
    /// defaults, in the overrides in code, and in those in files.
    pub fn build(&self) -> Result<Limits, LimitsError> {
        self.assemble(&self.read()?)
    }

    /// Reads the current contents of the files.
    pub(crate) fn read(&self) -> Result<Documents, LimitsError> {
        let read = |sources: &[LimitsSource]| {
            sources
                .iter()
                .map(LimitsSource::read)
                .collect::<Result<_, _>>()
        };
        Ok(Documents {
            defaults: read(&self.defaults_sources)?,
            overrides: read(&self.overrides_sources)?,
        })
    }

    pub(crate) fn assemble(&self, documents: &Documents) -> Result<Limits, LimitsError> {
        let limits = Limits::of(self.digest(documents), self.settings);
        let mut assembly = Assembly::new(limits, !self.names.is_empty());
        for name in &self.names {
            assembly.declare_in_code(name)?;
        }
        for (name, limit) in &self.limits {
            assembly.define_in_code(name, limit)?;
        }
        for document in &documents.defaults {
            let place = document.place();
            document.definitions(|definition| assembly.define_in_file(definition, place))?;
        }
        for CodedOverride { name, id, limit } in &self.overrides {
            assembly.override_in_code(name, id, limit)?;
        }
        for document in &documents.overrides {
            let added = document.groups(|group| assembly.add(group));
            let first = |name: &str, id: &str| {
                documents
                    .overrides
                    .iter()
                    .find_map(|document| document.origin_of(name, id))
            };
            added.map_err(|error| error.with_first(first))?;
        }
        Ok(assembly.finish())
    }

    /// Returns the hash of limits from these documents.
    pub(crate) fn digest(&self, documents: &Documents) -> [u8; 32] {
        let mut hash = Sha256::new();
        let Self {
            names,
            limits,
            overrides,
            settings,
            ..
        } = self;
        let code = format!("{names:?}{limits:?}{overrides:?}{settings:?}");
        let texts = documents.defaults.iter().chain(&documents.overrides);
        for text in iter::once(&*code).chain(texts.map(Document::text)) {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        hash.finalize().into()
    }

    fn defaults(mut self, source: LimitsSource) -> Self {
        self.defaults_sources.push(source);
        self
    }

    fn overrides(mut self, source: LimitsSource) -> Self {
        self.overrides_sources.push(source);
        self
    }
}

/// The contents of files when they were read.
pub(crate) struct Documents {
    defaults: Vec<Document>,
    overrides: Vec<Document>,
}

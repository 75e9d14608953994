use std::{
    collections::{HashMap, HashSet},
    iter,
    path::Path,
    sync::Arc,
};

use sha2::{Digest, Sha256};

use super::{
    file::{Definition, Document, Group, Language, Listed, Source},
    limit::Limit,
    limits::{Limits, Settings},
    mistake::{LimitsError, Mistake},
    name::LimitName,
};
use crate::{id::IdFormat, transaction::Algorithm};

/// What [`Limits`] are made of: names and limits in code, and files, which are read when it is built.
///
/// It is a recipe. Building it again reads the files again:
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
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is limited until `build` is called"]
pub struct LimitsBuilder {
    names: Vec<LimitName>,
    limits: Vec<(LimitName, Limit)>,
    overrides: Vec<CodedOverride>,
    defaults_sources: Vec<Source>,
    overrides_sources: Vec<Source>,
    settings: Settings,
}

#[derive(Clone, Debug)]
struct CodedOverride {
    name: String,
    id: String,
    limit: Arc<Limit>,
}

impl Limits {
    /// Starts with no limits.
    pub fn builder() -> LimitsBuilder {
        LimitsBuilder::default()
    }
}

impl LimitsBuilder {
    /// Declares a name, with its number and its format of ids. It is not limited unless it gets a
    /// limit, in code or from a file.
    ///
    /// Once a name is declared, files can only give values to names that are: a misspelt one is an
    /// error, and not a limit of its own.
    pub fn name(mut self, name: impl Into<LimitName>) -> Self {
        self.names.push(name.into());
        self
    }

    /// Gives a name its limit. It need not have been declared.
    pub fn limit(mut self, name: impl Into<LimitName>, limit: Limit) -> Self {
        self.limits.push((name.into(), limit));
        self
    }

    /// Gives one client of a name a limit of its own.
    pub fn override_for(mut self, name: &str, id: &str, limit: Limit) -> Self {
        self.overrides.push(CodedOverride {
            name: name.into(),
            id: id.into(),
            limit: limit.into(),
        });
        self
    }

    /// Adds a file of defaults, in a form that the [module](super#defaults) shows.
    pub fn defaults_file(self, path: impl AsRef<Path>) -> Self {
        self.defaults(Source::File(path.as_ref().into()))
    }

    /// Adds a text like a file of defaults.
    pub fn defaults_text(self, language: Language, text: &str) -> Self {
        self.defaults(Source::Text(language, text.into()))
    }

    /// Adds a file of overrides, in a form that the [module](super#overrides) shows. An empty one is one
    /// without overrides.
    pub fn overrides_file(self, path: impl AsRef<Path>) -> Self {
        self.overrides(Source::File(path.as_ref().into()))
    }

    /// Adds a text like a file of overrides.
    pub fn overrides_text(self, language: Language, text: &str) -> Self {
        self.overrides(Source::Text(language, text.into()))
    }

    /// Puts all limits in shadow mode, as [`LimitName::shadow`] does one.
    pub fn shadow(mut self, shadow: bool) -> Self {
        self.settings.shadow = shadow;
        self
    }

    /// Shows ids in events as hashes, by which a client can be followed within one process and not be found out. Events of
    /// level `DEBUG` and below hold ids.
    pub fn redact_ids(mut self, redact_ids: bool) -> Self {
        self.settings.redact_ids = redact_ids;
        self
    }

    /// Reads the files, and returns the limits.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or for the first mistake in what was given: of the names in code
    /// first, then of their limits, of defaults, of overrides in code and of those in files.
    pub fn build(&self) -> Result<Limits, LimitsError> {
        self.assemble(&self.read()?)
    }

    /// Reads the files as they are now.
    pub(crate) fn read(&self) -> Result<Documents, LimitsError> {
        let read = |sources: &[Source]| sources.iter().map(Source::read).collect::<Result<_, _>>();
        Ok(Documents {
            defaults: read(&self.defaults_sources)?,
            overrides: read(&self.overrides_sources)?,
        })
    }

    pub(crate) fn assemble(&self, documents: &Documents) -> Result<Limits, LimitsError> {
        let mut assembly = Assembly {
            limits: Limits::of(self.digest(documents), self.settings),
            numbers: HashMap::new(),
            defined: HashSet::new(),
            is_closed: !self.names.is_empty(),
        };
        for name in &self.names {
            assembly.declare_in_code(name)?;
        }
        for (name, limit) in &self.limits {
            let format = (!name.is_bare()).then(|| name.format());
            if assembly.limits.get(name.as_str()).is_none() {
                assembly.declare_in_code(name)?;
            }
            assembly.define(name, format, Some(limit.clone()))?;
        }
        for document in &documents.defaults {
            document.definitions(|definition| assembly.define_in_file(definition))?;
        }
        for CodedOverride { name, id, limit } in &self.overrides {
            warn(name, limit);
            assembly.override_for(name, id, limit, None)?;
        }
        for document in &documents.overrides {
            document.groups(|group| assembly.add(group))?;
        }
        Ok(assembly.limits)
    }

    /// The hash that limits have which are made of these documents.
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

    fn defaults(mut self, source: Source) -> Self {
        self.defaults_sources.push(source);
        self
    }

    fn overrides(mut self, source: Source) -> Self {
        self.overrides_sources.push(source);
        self
    }
}

/// Limits that are being put together.
struct Assembly {
    limits: Limits,
    /// Who has which number.
    numbers: HashMap<u32, String>,
    /// The names that have got their limits, or that they have none.
    defined: HashSet<String>,
    /// Whether files may only define names that are declared.
    is_closed: bool,
}

impl Assembly {
    fn declare_in_code(&mut self, name: &LimitName) -> Result<(), LimitsError> {
        let declared = self.declare(name.clone());
        declared.map_err(|mistake| LimitsError::from(mistake).of_limit(name.as_str()))
    }

    fn define(
        &mut self,
        said: &LimitName,
        format: Option<IdFormat>,
        limit: Option<Limit>,
    ) -> Result<(), LimitsError> {
        let name = said.as_str();
        let ready = match self.limits.get(name) {
            _ if !self.defined.insert(name.into()) => Err(Mistake::DuplicateName),
            Some(named) => agree(&named.name, said.number(), format).and_then(|()| link(said)),
            None => self.declare(said.clone()),
        };
        ready.map_err(|mistake| LimitsError::from(mistake).of_limit(name))?;
        limit.iter().for_each(|limit| warn(name, limit));
        self.limits.define(said, limit);
        Ok(())
    }

    fn declare(&mut self, name: LimitName) -> Result<(), Mistake> {
        name.validate()?;
        link(&name)?;
        if self.limits.get(name.as_str()).is_some() {
            return Err(Mistake::DuplicateName);
        }
        if let Some(number) = name.number()
            && let Some(other) = self.numbers.insert(number, name.to_string())
        {
            return Err(Mistake::DuplicateNumber { number, other });
        }
        self.limits.declare(name);
        Ok(())
    }

    fn define_in_file(&mut self, definition: Definition<'_>) -> Result<(), LimitsError> {
        let Definition {
            name,
            number,
            format,
            limit,
            shadow,
            description,
            docs,
            line,
        } = definition;
        let said = LimitName::of(name, number, format.unwrap_or_default());
        let said = said.say(shadow, description, docs);
        let known = match self.is_closed {
            true => self.ensure_known(name),
            false => Ok(()),
        };
        let defined = known.and_then(|()| self.define(&said, format, limit));
        defined.map_err(|error| error.at(line))
    }

    fn add(&mut self, group: Group<'_>) -> Result<(), LimitsError> {
        let Group {
            name,
            limit,
            line,
            ids,
        } = group;
        self.ensure_known(name).map_err(|error| error.at(line))?;
        warn(name, &limit);
        let limit = Arc::new(limit);
        ids.into_iter()
            .try_for_each(|Listed { id, comment, line }| {
                let overridden = self.override_for(name, id, &limit, comment);
                overridden.map_err(|error| error.at(line))
            })
    }

    fn override_for(
        &mut self,
        name: &str,
        id: &str,
        limit: &Arc<Limit>,
        comment: Option<&str>,
    ) -> Result<(), LimitsError> {
        let limit = Arc::clone(limit);
        let overridden = self.limits.override_for(name, id, limit, comment);
        overridden.map_err(|mistake| LimitsError::from(mistake).of_limit(name).of_id(id))
    }

    fn ensure_known(&self, name: &str) -> Result<(), LimitsError> {
        match self.limits.get(name) {
            Some(_) => Ok(()),
            None => Err(LimitsError::from(self.limits.unknown(name)).of_limit(name)),
        }
    }
}

/// Tells of what is allowed, and yet hardly meant.
fn warn(name: &str, limit: &Limit) {
    let Some(Algorithm::Tiers(tiers)) = limit.algorithm() else {
        return;
    };
    for tier in tiers.short_cooldowns() {
        tracing::warn!(
            limit = name,
            tier,
            "the cooldown of a tier is shorter than its window, and a tier begins empty each time that it is \
             entered: it grants up to twice its limit within one window; make the cooldown as long as the window"
        );
    }
}

/// A link has to be one.
fn link(name: &LimitName) -> Result<(), Mistake> {
    match name.documented() {
        Some(docs) if !name.has_good_docs() => Err(Mistake::docs(docs)),
        _ => Ok(()),
    }
}

/// What is said of a name's number and format has to be as it was declared.
fn agree(name: &LimitName, number: Option<u32>, format: Option<IdFormat>) -> Result<(), Mistake> {
    let agrees = number.is_none_or(|number| name.number() == Some(number))
        && format.is_none_or(|format| name.format() == format);
    agrees
        .then_some(())
        .ok_or_else(|| Mistake::OtherName(name.clone()))
}

/// What files held when they were read.
#[derive(Debug)]
pub(crate) struct Documents {
    defaults: Vec<Document>,
    overrides: Vec<Document>,
}

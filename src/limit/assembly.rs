use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use super::{
    file::{Definition, ListedId, OverrideGroup},
    limit::Limit,
    limits::Limits,
    mistake::{LimitsError, Location, Mistake, MistakeOrigin},
    name::LimitName,
};
use crate::{
    id::{IdFormat, shortened},
    spelling::nearest,
    transaction::Algorithm,
};

/// Limits under construction.
pub(super) struct Assembly {
    limits: Limits,
    /// The name of each number.
    numbers: HashMap<u32, String>,
    /// The names whose limit, or lack of one, is already defined, and where.
    defined: HashMap<String, MistakeOrigin>,
    /// The places of names that files define.
    origins: HashMap<String, MistakeOrigin>,
    /// Whether files may only define names that are declared.
    is_closed: bool,
}

impl Assembly {
    /// Starts with no names. `is_closed` says whether files may only define names that code has declared.
    pub(super) fn new(limits: Limits, is_closed: bool) -> Self {
        Self {
            limits,
            numbers: HashMap::new(),
            defined: HashMap::new(),
            origins: HashMap::new(),
            is_closed,
        }
    }

    pub(super) fn finish(self) -> Limits {
        self.limits.finished()
    }

    pub(super) fn declare_in_code(&mut self, name: &LimitName) -> Result<(), LimitsError> {
        let declared = self.declare(name.clone());
        declared.map_err(|mistake| LimitsError::from(mistake).of_limit(name.as_str()))
    }

    pub(super) fn define_in_code(
        &mut self,
        name: &LimitName,
        limit: &Limit,
    ) -> Result<(), LimitsError> {
        let format = (!name.is_bare()).then(|| name.format());
        if self.limits.get(name.as_str()).is_none() {
            self.declare_in_code(name)?;
        }
        self.define(name, format, Some(limit.clone()), MistakeOrigin::CODE)
    }

    fn define(
        &mut self,
        said: &LimitName,
        format: Option<IdFormat>,
        limit: Option<Limit>,
        origin: MistakeOrigin,
    ) -> Result<(), LimitsError> {
        let name = said.as_str();
        let first = match self.defined.entry(name.into()) {
            Entry::Occupied(first) => Some(first.get().clone()),
            Entry::Vacant(place) => {
                place.insert(origin);
                None
            }
        };
        let ready = match (first, self.limits.get(name)) {
            (Some(first), _) => Err(Mistake::DuplicateName { first }),
            (None, Some(named)) => self
                .agree(&named.name, said.number(), format)
                .and_then(|()| link(said)),
            (None, None) => self.declare(said.clone()),
        };
        ready.map_err(|mistake| LimitsError::from(mistake).of_limit(name))?;
        limit.iter().for_each(|limit| warn(name, limit));
        self.limits.define(said, limit);
        Ok(())
    }

    fn declare(&mut self, name: LimitName) -> Result<(), Mistake> {
        name.validate()?;
        if let Some(feature) = name.format().missing_feature() {
            return Err(Mistake::FormatFeature(name.format(), feature));
        }
        link(&name)?;
        if self.limits.get(name.as_str()).is_some() {
            let origin = self.origins.get(name.as_str()).cloned();
            let first = origin.unwrap_or(MistakeOrigin::CODE);
            return Err(Mistake::DuplicateName { first });
        }
        if let Some(number) = name.number()
            && let Some(other) = self.numbers.insert(number, name.to_string())
        {
            return Err(Mistake::DuplicateNumber { number, other });
        }
        self.limits.declare(name);
        Ok(())
    }

    pub(super) fn define_in_file(
        &mut self,
        definition: Definition,
        place: &Location,
    ) -> Result<(), LimitsError> {
        let Definition {
            name: said,
            format,
            limit,
            line,
        } = definition;
        let name = said.as_str();
        let is_known = self.limits.get(name).is_some();
        let known = match self.is_closed {
            true => self.ensure_known(name),
            false => Ok(()),
        };
        let origin = MistakeOrigin {
            place: place.clone(),
            line: Some(line),
        };
        if !is_known {
            self.origins.insert(name.into(), origin.clone());
        }
        let defined = known.and_then(|()| self.define(&said, format, limit, origin));
        defined.map_err(|error| error.at(line))?;
        if let Location::File(path) = place {
            self.limits.defined_in(name, path);
        }
        Ok(())
    }

    pub(super) fn add(&mut self, group: OverrideGroup<'_>) -> Result<(), LimitsError> {
        let OverrideGroup {
            name,
            limit,
            line,
            ids,
        } = group;
        self.ensure_known(name).map_err(|error| error.at(line))?;
        warn(name, &limit);
        let limit = Arc::new(limit);
        ids.into_iter()
            .try_for_each(|ListedId { id, comment, line }| {
                let overridden = self.override_for(name, id, &limit, comment);
                overridden.map_err(|error| error.at(line))
            })
    }

    pub(super) fn override_in_code(
        &mut self,
        name: &str,
        id: &str,
        limit: &Arc<Limit>,
    ) -> Result<(), LimitsError> {
        warn(name, limit);
        self.ensure_not_misspelt(name)?;
        self.override_for(name, id, limit, None)
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
        if self.limits.get(name).is_some() {
            return Ok(());
        }
        let mistake = match self.other_spelling(name) {
            Some((near, origin)) => Mistake::OtherSpelling {
                near: shortened(near),
                origin: origin.clone(),
            },
            None => self.limits.unknown(name),
        };
        Err(LimitsError::from(mistake).of_limit(name))
    }

    /// Rejects a name in a file that is similar to a name in code, but not equal.
    fn ensure_not_misspelt(&self, name: &str) -> Result<(), LimitsError> {
        match self.other_spelling(name) {
            Some((near, MistakeOrigin { place, line })) => {
                let mistake = Mistake::OtherInCode {
                    name: shortened(name),
                };
                let mut error = LimitsError::from(mistake).of_limit(near).within(place);
                if let Some(line) = line {
                    error = error.at(*line);
                }
                Err(error)
            }
            None => Ok(()),
        }
    }

    /// Checks that a number and a format are the declared ones.
    fn agree(
        &self,
        name: &LimitName,
        number: Option<u32>,
        format: Option<IdFormat>,
    ) -> Result<(), Mistake> {
        let agrees = number.is_none_or(|number| name.number() == Some(number))
            && format.is_none_or(|format| name.format() == format);
        let origin = || self.origins.get(name.as_str()).cloned();
        agrees.then_some(()).ok_or_else(|| Mistake::OtherName {
            name: name.clone(),
            origin: origin().unwrap_or(MistakeOrigin::CODE),
        })
    }

    /// Finds the name in a file that an unknown name was probably meant to be, and its place.
    fn other_spelling(&self, name: &str) -> Option<(&str, &MistakeOrigin)> {
        if self.limits.get(name).is_some() {
            return None;
        }
        let near = nearest(name, &self.limits.names())?;
        Some((near, self.origins.get(near)?))
    }
}

/// Logs values that are allowed but probably a mistake.
fn warn(name: &str, limit: &Limit) {
    let doubts = limit.algorithm().map(Algorithm::doubts);
    for (tier, doubt) in doubts.into_iter().flatten() {
        tracing::warn!(limit = name, tier, "{doubt}");
    }
}

/// Checks that the link of a limit is valid.
fn link(name: &LimitName) -> Result<(), Mistake> {
    match name.documented() {
        Some(docs) if !name.has_good_docs() => Err(Mistake::Docs(shortened(docs))),
        _ => Ok(()),
    }
}

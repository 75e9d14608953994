use std::collections::HashMap;
#[cfg(feature = "yaml")]
use std::path::Path;

use ahash::RandomState;
use thiserror::Error;

#[cfg(feature = "yaml")]
use super::file::{self, FileError};
use super::{
    limit::Limit,
    name::{LimitName, NameError},
};

/// A limit name and the limit that its clients have.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamedLimit {
    /// The name.
    pub name: LimitName,
    /// The limit, or `None` if the name is known but not limited.
    pub limit: Option<Limit>,
}

/// All limits that an application knows, by name.
#[derive(Clone, Debug, Default)]
pub struct Limits(HashMap<Box<str>, NamedLimit, RandomState>);

impl Limits {
    /// Starts with no limits.
    pub fn builder() -> LimitsBuilder {
        LimitsBuilder {
            limits: Self::default(),
            error: None,
        }
    }

    /// The limit of this name, or `None` if the name is not known.
    #[must_use]
    #[inline]
    pub fn get(&self, name: &str) -> Option<&NamedLimit> {
        self.0.get(name)
    }

    /// All limits, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &NamedLimit> {
        self.0.values()
    }

    /// Every name, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.0.keys().map(AsRef::as_ref).collect();
        names.sort_unstable();
        names
    }

    fn insert(&mut self, named: NamedLimit) -> Result<(), LimitsError> {
        named.name.validate()?;
        let name = named.name.as_str();
        if self.0.contains_key(name) {
            return Err(LimitsError::DuplicateName(name.into()));
        }
        let holder = self
            .0
            .values()
            .find(|other| other.name.key() == named.name.key());
        if let (Some(holder), Some(number)) = (holder, named.name.number()) {
            let names = [holder.name.as_str().into(), name.into()];
            return Err(LimitsError::DuplicateNumber { number, names });
        }
        self.0.insert(name.into(), named);
        Ok(())
    }
}

/// Gathers [`Limits`]. The first mistake is kept for [`build`](Self::build) to return.
#[derive(Debug)]
#[must_use = "nothing is limited until `build` is called"]
pub struct LimitsBuilder {
    limits: Limits,
    error: Option<LimitsError>,
}

impl LimitsBuilder {
    /// Adds a name with its limit.
    pub fn limit(self, name: impl Into<LimitName>, limit: Limit) -> Self {
        self.insert(NamedLimit {
            name: name.into(),
            limit: Some(limit),
        })
    }

    /// Adds a name that is known, but not limited.
    pub fn name(self, name: impl Into<LimitName>) -> Self {
        self.insert(NamedLimit {
            name: name.into(),
            limit: None,
        })
    }

    /// Adds the limits of a YAML file, in the form that the [module](super#files) shows.
    #[cfg(feature = "yaml")]
    pub fn defaults_file(self, path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        self.and_then(|builder| Ok(builder.insert_all(file::read(path)?)))
    }

    /// Adds the limits of a YAML text, in the form that the [module](super#files) shows.
    #[cfg(feature = "yaml")]
    pub fn defaults_yaml(self, yaml: &str) -> Self {
        self.and_then(|builder| Ok(builder.insert_all(file::parse(yaml)?)))
    }

    /// Returns the limits.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or makes no sense, or if a name or a number is wrong or used twice.
    pub fn build(self) -> Result<Limits, LimitsError> {
        self.error.map_or(Ok(self.limits), Err)
    }

    fn insert(self, named: NamedLimit) -> Self {
        self.and_then(|mut builder| builder.limits.insert(named).map(|()| builder))
    }

    #[cfg(feature = "yaml")]
    fn insert_all(self, limits: Vec<NamedLimit>) -> Self {
        limits.into_iter().fold(self, Self::insert)
    }

    fn and_then(self, step: impl FnOnce(Self) -> Result<Self, LimitsError>) -> Self {
        if self.error.is_some() {
            return self;
        }
        step(self).unwrap_or_else(|error| Self {
            limits: Limits::default(),
            error: Some(error),
        })
    }
}

/// Why limits cannot be built.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LimitsError {
    /// A name has a form that no limit can have.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Two limits have one name.
    #[error("the limit `{0}` is defined twice: remove one of them")]
    DuplicateName(String),
    /// Two limits have one number, so their clients would share buckets.
    #[error(
        "the limits `{}` and `{}` both have the number {number}: give one of them another, \
         that no limit has had before",
        names[0], names[1]
    )]
    DuplicateNumber {
        /// The number.
        number: u32,
        /// The limits.
        names: [String; 2],
    },
    /// A file, or a text like one, cannot be used.
    #[cfg(feature = "yaml")]
    #[error(transparent)]
    File(#[from] FileError),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(builder: LimitsBuilder) -> String {
        builder.build().unwrap_err().to_string()
    }

    #[test]
    fn first_mistake_is_kept() {
        let twice = Limits::builder()
            .name("a")
            .limit("a", Limit::per_second(1))
            .name("b c");
        assert_eq!(
            message(twice),
            "the limit `a` is defined twice: remove one of them"
        );
        let numbers = Limits::builder()
            .name(LimitName::numbered("a", 6))
            .name("b")
            .name("c")
            .name(LimitName::numbered("d", 6));
        assert!(message(numbers).starts_with("the limits `a` and `d` both have the number 6"));
        assert!(message(Limits::builder().name("b c")).starts_with("`b c` is not a limit name"));
    }

    #[test]
    fn looks_up_by_name() {
        let limits = Limits::builder()
            .limit("a", Limit::per_second(1))
            .name("b")
            .build()
            .unwrap();
        assert_eq!(limits.names(), ["a", "b"]);
        assert_eq!(limits.get("a").unwrap().limit, Some(Limit::per_second(1)));
        assert_eq!(limits.get("b").unwrap().limit, None);
        assert!(limits.get("c").is_none());
    }
}

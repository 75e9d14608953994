use std::sync::Arc;

use ahash::RandomState;
use indexmap::{IndexMap, map::Entry};

use super::{
    builder::LimitsBuilder,
    limit::Limit,
    mistake::{Mistake, did_you_mean},
    name::LimitName,
};

/// All limits that an application knows: for each name a default, and overrides for some clients.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    named: IndexMap<Box<str>, NamedLimit, RandomState>,
    /// Of the documents that they were made of.
    digest: [u8; 32],
}

impl Limits {
    /// Starts with no limits.
    pub fn builder() -> LimitsBuilder {
        LimitsBuilder::default()
    }

    /// The limit of this name, or `None` if the name is not known.
    #[must_use]
    #[inline]
    pub fn get(&self, name: &str) -> Option<&NamedLimit> {
        self.named.get(name)
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

    /// The SHA-256 of the files and texts that they were made of: which version is in force.
    #[must_use]
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Limits that are to be made of documents with this hash.
    pub(super) fn of(digest: [u8; 32]) -> Self {
        Self {
            digest,
            ..Self::default()
        }
    }

    /// Adds a name that is not limited yet.
    pub(super) fn declare(&mut self, name: LimitName) -> Result<(), Mistake> {
        name.validate()?;
        if self.named.contains_key(name.as_str()) {
            return Err(Mistake::DuplicateName);
        }
        let holder = self.iter().find(|other| other.name.key() == name.key());
        if let (Some(holder), Some(number)) = (holder, name.number()) {
            let other = holder.name.to_string();
            return Err(Mistake::DuplicateNumber { number, other });
        }
        let key = name.as_str().into();
        let named = NamedLimit {
            name,
            limit: None,
            overrides: IndexMap::default(),
        };
        self.named.insert(key, named);
        Ok(())
    }

    /// Gives a name its limit, and adds the name if it is not there. A name alone is of the number
    /// and the format that it was declared with.
    pub(super) fn define(&mut self, name: &LimitName, limit: Option<Limit>) -> Result<(), Mistake> {
        if !self.named.contains_key(name.as_str()) {
            self.declare(name.clone())?;
        }
        let named = &mut self.named[name.as_str()];
        if !name.is_bare() && *name != named.name {
            return Err(Mistake::OtherName(named.name.clone()));
        }
        named.limit = limit;
        Ok(())
    }

    /// Gives one client of a name a limit of its own.
    pub(super) fn override_for(
        &mut self,
        name: &str,
        id: &str,
        limit: Arc<Limit>,
        comment: Option<&str>,
    ) -> Result<(), Mistake> {
        match self.named.get_mut(name) {
            Some(named) => named.override_for(id, limit, comment),
            None => Err(self.unknown(name)),
        }
    }

    /// What to say of a name that is not known.
    pub(super) fn unknown(&self, name: &str) -> Mistake {
        let hint = did_you_mean(name, &self.names());
        Mistake::UnknownName { hint }
    }
}

/// A limit name, the limit that its clients have, and those who have another.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NamedLimit {
    /// The name.
    pub name: LimitName,
    /// The default, or `None` if only those with an override are limited.
    pub limit: Option<Limit>,
    /// By folded id.
    overrides: IndexMap<Box<str>, Overriding, RandomState>,
}

#[derive(Clone, Debug)]
struct Overriding {
    limit: Arc<Limit>,
    /// The id as it was written, unless that is how it is folded.
    written: Option<Box<str>>,
    comment: Option<Box<str>>,
}

impl NamedLimit {
    /// The limit of the client with this [folded](crate::id::IdFormat::fold) id: its own, else the
    /// default, else none.
    #[must_use]
    #[inline]
    pub fn limit_of(&self, folded: &str) -> Option<&Limit> {
        if self.overrides.is_empty() {
            return self.limit.as_ref();
        }
        let own = self.overrides.get(folded);
        own.map(|own| &*own.limit).or(self.limit.as_ref())
    }

    /// The override of the client with this [folded](crate::id::IdFormat::fold) id, if it has one.
    #[must_use]
    pub fn override_of(&self, folded: &str) -> Option<Override<'_>> {
        let (folded, own) = self.overrides.get_key_value(folded)?;
        Some(Override::new(folded, own))
    }

    /// All overrides, in the order in which they were defined.
    #[must_use]
    pub fn overrides(&self) -> impl ExactSizeIterator<Item = Override<'_>> {
        let overrides = self.overrides.iter();
        overrides.map(|(folded, own)| Override::new(folded, own))
    }

    fn override_for(
        &mut self,
        id: &str,
        limit: Arc<Limit>,
        comment: Option<&str>,
    ) -> Result<(), Mistake> {
        let folded = self.name.format().canonical(id)?;
        let own = Overriding {
            limit,
            written: (folded.as_str() != id).then(|| id.into()),
            comment: comment.map(Into::into),
        };
        match self.overrides.entry(folded.as_str().into()) {
            Entry::Vacant(entry) => {
                entry.insert(own);
                Ok(())
            }
            Entry::Occupied(entry) => Err(Mistake::DuplicateOverride {
                first: Override::new(entry.key(), entry.get()).id.into(),
            }),
        }
    }
}

/// The limit that one client has instead of the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Override<'a> {
    /// The id as it was written.
    pub id: &'a str,
    /// The id that its bucket is kept under.
    pub folded: &'a str,
    /// The limit.
    pub limit: &'a Limit,
    /// Why it has it, for those who read the file.
    pub comment: Option<&'a str>,
}

impl<'a> Override<'a> {
    fn new(folded: &'a str, own: &'a Overriding) -> Self {
        Self {
            id: own.written.as_deref().unwrap_or(folded),
            folded,
            limit: &own.limit,
            comment: own.comment.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::IdFormat;

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

    #[test]
    fn override_is_found_by_any_spelling_of_its_id() {
        let name = LimitName::new("ip", 1, IdFormat::IpAddress);
        let limits = Limits::builder()
            .name(name)
            .override_for("ip", "2001:0db8::1", Limit::per_second(2))
            .build()
            .unwrap();
        let ip = limits.get("ip").unwrap();
        let folded = ip.name.format().fold("2001:DB8:0::1").unwrap();
        assert_eq!(ip.limit_of(folded.as_str()), Some(&Limit::per_second(2)));
        assert_eq!(ip.override_of(folded.as_str()).unwrap().id, "2001:0db8::1");
        // Without a default, all others are not limited.
        assert_eq!(ip.limit_of("2001:db8::2"), None);
    }
}

use std::sync::Arc;

use ahash::RandomState;
use indexmap::IndexMap;

use super::{
    builder::LimitsBuilder,
    limit::Limit,
    mistake::{Mistake, did_you_mean},
    name::LimitName,
    overrides::{Override, Overrides},
};
use crate::id::IdFormat;

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
            overrides: Overrides::default(),
        };
        self.named.insert(key, named);
        Ok(())
    }

    /// Gives a name its limit, and adds the name if it is not there. What is said of its number and
    /// its format has to be as it was declared.
    pub(super) fn define(
        &mut self,
        name: &str,
        number: Option<u32>,
        format: Option<IdFormat>,
        limit: Option<Limit>,
    ) -> Result<(), Mistake> {
        if !self.named.contains_key(name) {
            self.declare(LimitName::of(name, number, format.unwrap_or_default()))?;
        }
        let named = &mut self.named[name];
        let agrees = number.is_none_or(|number| named.name.number() == Some(number))
            && format.is_none_or(|format| named.name.format() == format);
        if !agrees {
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
    overrides: Overrides,
}

impl NamedLimit {
    /// The limit of the client with this [folded](crate::id::IdFormat::fold) id: its own, else the
    /// default, else none.
    #[must_use]
    #[inline]
    pub fn limit_of(&self, folded: &str) -> Option<&Limit> {
        let own = self.overrides.limit_of(folded);
        own.or(self.limit.as_ref())
    }

    /// The override of the client with this [folded](crate::id::IdFormat::fold) id, if it has one.
    #[must_use]
    pub fn override_of(&self, folded: &str) -> Option<Override<'_>> {
        self.overrides.get(folded)
    }

    /// All overrides, in the order in which they were defined.
    #[must_use]
    pub fn overrides(&self) -> impl ExactSizeIterator<Item = Override<'_>> {
        self.overrides.iter()
    }

    fn override_for(
        &mut self,
        id: &str,
        limit: Arc<Limit>,
        comment: Option<&str>,
    ) -> Result<(), Mistake> {
        let folded = self.name.format().canonical(id)?;
        let new = Override {
            id,
            folded: folded.as_str(),
            limit: &Arc::clone(&limit),
            comment,
        };
        self.overrides
            .add(new, limit)
            .map_err(|other| Mistake::DuplicateOverride {
                first: other.id.into(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

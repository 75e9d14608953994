use std::{borrow::Cow, fmt, str::FromStr};

use thiserror::Error;

use super::{domain, fqdn_set, id::Id, ip_address, ipv6_range, pair, reg_id};

/// What the ids of a limit look like. The [module docs](super) have them side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IdFormat {
    /// Any text, taken as it is.
    #[default]
    Opaque,
    /// An IPv4 or IPv6 address.
    IpAddress,
    /// A /48 of IPv6 addresses, in CIDR notation.
    Ipv6Range,
    /// The number of an account.
    RegId,
    /// A name that can be registered: one label below a public suffix (eTLD+1).
    Domain,
    /// A set of domain names, comma-separated. Addresses may be among them.
    FqdnSet,
    /// An account's number and a name that can be registered.
    RegIdDomain,
    /// An account's number and a set of domain names.
    RegIdFqdnSet,
}

impl IdFormat {
    /// All formats.
    pub const ALL: [Self; 8] = [
        Self::Opaque,
        Self::IpAddress,
        Self::Ipv6Range,
        Self::RegId,
        Self::Domain,
        Self::FqdnSet,
        Self::RegIdDomain,
        Self::RegIdFqdnSet,
    ];

    /// The name that the format has in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Opaque => "opaque",
            Self::IpAddress => "ipAddress",
            Self::Ipv6Range => "ipv6RangeCIDR",
            Self::RegId => "regId",
            Self::Domain => "domain",
            Self::FqdnSet => "fqdnSet",
            Self::RegIdDomain => "regId:domain",
            Self::RegIdFqdnSet => "regId:fqdnSet",
        }
    }

    /// Folds an id into the text that its bucket is kept under.
    ///
    /// [`Id::MISSING`] is in every format, and folds into itself. Nothing is allocated but for names
    /// of more than 88 characters with capital letters in them, and for sets of more than eight names.
    ///
    /// # Errors
    ///
    /// If the text is not an id in this format.
    #[inline]
    pub fn fold(self, text: &str) -> Result<Folded<'_>, IdError> {
        if matches!(self, Self::Opaque) && !text.is_empty() {
            return Ok(Folded::same(text));
        }
        self.fold_formatted(text)
    }

    /// Folds an id that was written down by somebody who means one client: where folding makes
    /// another client of it, or many, it is refused, with the right one named.
    pub(crate) fn canonical(self, text: &str) -> Result<Folded<'_>, IdError> {
        let folded = self.fold(text)?;
        match folded.wider {
            true => Err(self.error(text, Reason::Wider(folded.as_str().into()))),
            false => Ok(folded),
        }
    }

    fn fold_formatted(self, text: &str) -> Result<Folded<'_>, IdError> {
        let folded = match self {
            _ if text.is_empty() => Err(Reason::Empty),
            _ if text == Id::MISSING => Ok(Folded::same(text)),
            Self::Opaque => Ok(Folded::same(text)),
            Self::IpAddress => ip_address::fold(text),
            Self::Ipv6Range => ipv6_range::fold(text),
            Self::RegId => reg_id::fold(text),
            Self::Domain => domain::fold(text),
            Self::FqdnSet => fqdn_set::fold(text),
            Self::RegIdDomain => pair::fold(text, domain::fold),
            Self::RegIdFqdnSet => pair::fold(text, fqdn_set::fold),
        };
        folded.map_err(|reason| self.error(text, reason))
    }

    #[cold]
    fn error(self, text: &str, reason: Reason) -> IdError {
        IdError {
            format: self,
            id: shortened(text),
            reason,
        }
    }
}

impl fmt::Display for IdFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().fmt(f)
    }
}

impl FromStr for IdFormat {
    type Err = UnknownIdFormat;

    fn from_str(name: &str) -> Result<Self, UnknownIdFormat> {
        let known = Self::ALL.into_iter().find(|format| format.name() == name);
        known.ok_or_else(|| UnknownIdFormat(shortened(name)))
    }
}

/// An id in the form that its bucket is kept under.
#[derive(Clone, Debug)]
pub struct Folded<'a> {
    text: Text<'a>,
    /// Whether it stands for more than what was written.
    wider: bool,
}

#[derive(Clone, Debug)]
enum Text<'a> {
    Borrowed(&'a str),
    Owned(Id),
}

impl<'a> Folded<'a> {
    /// A text that is canonical, or the part of it that is.
    #[inline]
    pub(super) fn same(text: &'a str) -> Self {
        Self {
            text: Text::Borrowed(text),
            wider: false,
        }
    }

    /// What `text` is canonically.
    pub(super) fn canonical(text: &'a str, id: Id) -> Self {
        match id.as_str() == text {
            true => Self::same(text),
            false => Self {
                text: Text::Owned(id),
                wider: false,
            },
        }
    }

    /// Sets whether it stands for more than what was written.
    pub(super) fn wider(mut self, wider: bool) -> Self {
        self.wider = wider;
        self
    }

    pub(super) fn is_wider(&self) -> bool {
        self.wider
    }

    /// The text.
    #[must_use]
    #[inline]
    pub fn as_str(&self) -> &str {
        match &self.text {
            Text::Borrowed(text) => text,
            Text::Owned(id) => id.as_str(),
        }
    }

    /// The text, for as long as what it was folded from is there, and `room` for what is not in that.
    #[inline]
    pub(crate) fn keep_in(self, room: &'a mut Option<Id>) -> &'a str {
        match self.text {
            Text::Borrowed(text) => text,
            Text::Owned(id) => room.insert(id).as_str(),
        }
    }

    /// The id.
    #[must_use]
    pub fn into_id(self) -> Id {
        match self.text {
            Text::Borrowed(text) => text.into(),
            Text::Owned(id) => id,
        }
    }
}

impl AsRef<str> for Folded<'_> {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for Folded<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Folded<'_> {}

impl fmt::Display for Folded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

/// The error of a text that is no id in a format.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{id}` is not an id in the format {format}: {reason}")]
pub struct IdError {
    format: IdFormat,
    id: String,
    reason: Reason,
}

/// What is wrong with a text that shall be an id, and what to change.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum Reason {
    #[error("it is empty: say whose it is, or leave it out")]
    Empty,
    #[error("{0}")]
    Form(&'static str),
    #[error("it is a part of `{0}`, which shares one bucket: write that, if it is meant")]
    Wider(Box<str>),
}

/// The error of a name that no format has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not an id format: use one of {names}", names = IdFormat::ALL.map(IdFormat::name).join(", "))]
pub struct UnknownIdFormat(String);

/// The beginning of a text that anyone may have sent, in one line.
pub(crate) fn shortened(text: &str) -> String {
    const SHOWN: usize = 80;
    let shown = text
        .char_indices()
        .nth(SHOWN)
        .map_or(text, |(i, _)| &text[..i]);
    let ellipsis = if shown.len() < text.len() { "…" } else { "" };
    let shown = match shown.contains(char::is_control) {
        true => Cow::Owned(shown.replace(char::is_control, "\u{fffd}")),
        false => Cow::Borrowed(shown),
    };
    format!("{shown}{ellipsis}")
}

use std::{borrow::Cow, fmt, str::FromStr};

use thiserror::Error;

use super::{
    canonical_id::{CanonicalId, IdProblem},
    domain, fqdn_set,
    id::Id,
    ip_address, ipv6_range, pair, reg_id,
};
use crate::message::debug_is_message;

/// The format of a limit's ids. The [module docs](super) compare the formats.
///
/// ```
/// use tollgate::id::IdFormat;
///
/// assert_eq!("regId:domain".parse(), Ok(IdFormat::RegIdDomain));
/// assert_eq!(IdFormat::Domain.to_string(), "domain");
/// assert!("hostname".parse::<IdFormat>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IdFormat {
    /// Any text, unchanged.
    #[default]
    Opaque,
    /// An IPv4 or IPv6 address.
    IpAddress,
    /// A /48 of IPv6 addresses, in CIDR notation.
    Ipv6Range,
    /// The number of an account.
    RegId,
    /// A registered domain: one label below a public suffix (eTLD+1). Requires the feature `domains`.
    Domain,
    /// A set of domain names, comma-separated. Addresses may be among them.
    FqdnSet,
    /// An account's number and a registered domain. Requires the feature `domains`.
    RegIdDomain,
    /// An account's number and a set of domain names.
    RegIdFqdnSet,
}

impl IdFormat {
    /// All formats.
    pub const ALL: &'static [Self] = &[
        Self::Opaque,
        Self::IpAddress,
        Self::Ipv6Range,
        Self::RegId,
        Self::Domain,
        Self::FqdnSet,
        Self::RegIdDomain,
        Self::RegIdFqdnSet,
    ];

    /// The name of the format in files.
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

    /// Returns the feature that the format needs, unless it is enabled.
    pub(crate) fn missing_feature(self) -> Option<&'static str> {
        let has_domains = matches!(self, Self::Domain | Self::RegIdDomain);
        (has_domains && cfg!(not(feature = "domains"))).then_some("domains")
    }

    /// Returns the formats of the two parts, for a pair.
    pub(crate) fn pair(self) -> Option<(Self, Self)> {
        match self {
            Self::RegIdDomain => Some((Self::RegId, Self::Domain)),
            Self::RegIdFqdnSet => Some((Self::RegId, Self::FqdnSet)),
            _ => None,
        }
    }

    /// Folds an id into its canonical form, which is part of the key of its bucket. Tools for administrators use it to look up
    /// the [limit](crate::limit::NamedLimit::limit_of) of a client.
    ///
    /// ```
    /// use tollgate::id::IdFormat;
    ///
    /// let folded = IdFormat::Ipv6Range.fold("2001:0db8::1")?;
    /// assert_eq!(folded.as_str(), "2001:db8::/48");
    /// # Ok::<_, tollgate::id::IdError>(())
    /// ```
    ///
    /// It only allocates for names of more than 88 characters with capital letters, and for sets of more than eight
    /// names.
    ///
    /// # Errors
    ///
    /// If the text is not an id in this format.
    #[inline]
    pub fn fold(self, text: &str) -> Result<CanonicalId<'_>, IdError> {
        match self.keeps(text) {
            true => Ok(CanonicalId::same(text)),
            false => self.fold_formatted(text),
        }
    }

    /// Returns whether a text is obviously an id that the format leaves unchanged.
    #[inline]
    pub(crate) fn keeps(self, text: &str) -> bool {
        const RESERVED: u8 = Id::MISSING.as_bytes()[0];
        match text.as_bytes() {
            [] | [RESERVED, ..] => false,
            _ => matches!(self, Self::Opaque),
        }
    }

    /// Folds an id from a file or from code, which must name one client. An id that stands for more than itself after
    /// folding is rejected, and the error suggests the correct one. [`Id::MISSING`] stands for requests without an id.
    pub(crate) fn canonical(self, text: &str) -> Result<CanonicalId<'_>, IdError> {
        if text == Id::MISSING {
            return Ok(CanonicalId::same(text));
        }
        let folded = self.fold(text)?;
        match folded.is_wider() {
            true => Err(self.error(text, IdProblem::Wider(folded.as_str().into()))),
            false => Ok(folded),
        }
    }

    fn fold_formatted(self, text: &str) -> Result<CanonicalId<'_>, IdError> {
        let folded = match self {
            _ if text.is_empty() => Err(IdProblem::Empty),
            _ if text == Id::MISSING => Err(IdProblem::Reserved),
            Self::Opaque => Ok(CanonicalId::same(text)),
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
    fn error(self, text: &str, reason: IdProblem) -> IdError {
        IdError {
            format: self,
            id: Some(shortened(text)),
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
        let known = Self::ALL.iter().find(|format| format.name() == name);
        known
            .copied()
            .ok_or_else(|| UnknownIdFormat(shortened(name)))
    }
}

/// The error for a text that is not an id in a format. See [`IdFormat`]. It quotes the text, unless the text is a
/// [secret](Id::secret).
#[derive(Clone, PartialEq, Eq, Error)]
#[error("{} is not an id in the format {format}: {reason}", quoted(.id.as_deref()))]
pub struct IdError {
    format: IdFormat,
    /// The text, if it may be shown.
    id: Option<String>,
    reason: IdProblem,
}

impl IdError {
    /// Removes the text from the error, if it is a secret.
    pub(crate) fn secret_if(mut self, is_secret: bool) -> Self {
        if is_secret {
            self.id = None;
        }
        self
    }

    /// Describes the mistake, without the id itself.
    pub(crate) fn without_id(&self) -> String {
        self.clone().secret_if(true).to_string()
    }
}

fn quoted(id: Option<&str>) -> Cow<'_, str> {
    match id {
        Some(id) => format!("`{id}`").into(),
        None => "its value".into(),
    }
}

/// The error for an unknown format name, when an [`IdFormat`] is parsed.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not an id format: use one of {names}", names = names())]
pub struct UnknownIdFormat(String);

debug_is_message!(IdError, UnknownIdFormat);

fn names() -> String {
    let names: Vec<_> = IdFormat::ALL.iter().map(|format| format.name()).collect();
    names.join(", ")
}

/// Shortens a text from an untrusted source to its beginning, on one line.
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

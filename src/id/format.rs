use std::{borrow::Cow, fmt, str::FromStr};

use thiserror::Error;

use super::{
    MISSING, address,
    id::{Id, Remedy},
    name,
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
    /// A registered domain, or the network of an address: the /32 of IPv4, the /64 of IPv6. Requires the feature `domains`.
    DomainOrCidr,
    /// An account's number and a registered domain. Requires the feature `domains`.
    RegIdDomain,
    /// An account's number and a registered domain or a network. Requires the feature `domains`.
    RegIdDomainOrCidr,
    /// An account's number and a whole domain name, with or without a wildcard, or an address.
    RegIdIdentValue,
    /// An account's number and a set of domain names.
    RegIdFqdnSet,
}

const EMPTY: Remedy = "it is empty: use the client's id, or leave it out";

const RESERVED: Remedy = "it is reserved for requests without an id: use `Transaction::missing`";

const NO_NUMBER: Remedy =
    "use a whole number up to 18446744073709551615, without sign or leading zeros";

const NO_PAIR: Remedy =
    "use an account's number and a colon before the rest, as in `12345678:example.com`";

impl IdFormat {
    /// All formats, with their names in files.
    pub(crate) const ALL: [(Self, &'static str); 11] = [
        (Self::Opaque, "opaque"),
        (Self::IpAddress, "ipAddress"),
        (Self::Ipv6Range, "ipv6RangeCIDR"),
        (Self::RegId, "regId"),
        (Self::Domain, "domain"),
        (Self::FqdnSet, "fqdnSet"),
        (Self::DomainOrCidr, "domainOrCIDR"),
        (Self::RegIdDomain, "regId:domain"),
        (Self::RegIdDomainOrCidr, "regId:domainOrCIDR"),
        (Self::RegIdIdentValue, "regId:identValue"),
        (Self::RegIdFqdnSet, "regId:fqdnSet"),
    ];

    /// Returns the name of the format in files.
    pub(crate) const fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Returns the feature that the format needs, unless it is enabled.
    pub(crate) fn missing_feature(self) -> Option<&'static str> {
        let [.., last] = self.pair().unwrap_or([self; 2]);
        let has_domains = matches!(last, Self::Domain | Self::DomainOrCidr);
        (has_domains && cfg!(not(feature = "domains"))).then_some("domains")
    }

    /// Returns the formats of the two parts, for a pair. An opaque second part can only be folded together with the whole pair.
    pub(crate) fn pair(self) -> Option<[Self; 2]> {
        let second = match self {
            Self::RegIdDomain => Self::Domain,
            Self::RegIdDomainOrCidr => Self::DomainOrCidr,
            Self::RegIdIdentValue => Self::Opaque,
            Self::RegIdFqdnSet => Self::FqdnSet,
            _ => return None,
        };
        Some([Self::RegId, second])
    }

    /// Returns the part of an id that names the client: for a format of pairs, the second part.
    fn named(self, id: &str) -> &str {
        match (self.pair(), id.split_once(':')) {
            (Some(_), Some((_, second))) => second,
            _ => id,
        }
    }

    /// Folds an id into its canonical form, which is part of the key of its bucket.
    ///
    /// ```
    /// use tollgate::id::IdFormat;
    ///
    /// let folded = IdFormat::Ipv6Range.fold("2001:0db8::1")?;
    /// assert_eq!(folded.as_str(), "2001:db8::/48");
    /// # Ok::<_, tollgate::id::IdError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the text is not an id in this format.
    pub fn fold(self, text: &str) -> Result<Id, IdError> {
        self.fold_into(text, &mut None).map(Id::from)
    }

    /// Folds an id without copying it. A folded text that is not a part of `text` is written to `room`.
    pub(crate) fn fold_into<'a>(
        self,
        text: &'a str,
        room: &'a mut Option<Id>,
    ) -> Result<&'a str, IdError> {
        if self.keeps(text) {
            return Ok(text);
        }
        match self.folded(text) {
            Ok(Cow::Borrowed(folded)) => Ok(folded),
            Ok(Cow::Owned(folded)) => Ok(room.insert(folded.into()).as_str()),
            Err(remedy) => Err(self.error(text, remedy)),
        }
    }

    /// Folds the id that an extractor has found. A secret stays a secret.
    #[inline]
    pub(crate) fn fold_id(self, id: Id) -> Result<Id, IdError> {
        if self.keeps(id.as_str()) {
            return Ok(id);
        }
        let is_secret = id.is_secret();
        let folded = self.fold(id.as_str());
        let folded = folded.map(|id| id.secret_if(is_secret));
        folded.map_err(|error| error.secret_if(is_secret))
    }

    /// Returns whether folding keeps the text as it is: any text is an id in the format, except for a few.
    #[inline]
    pub(crate) fn keeps(self, text: &str) -> bool {
        self == Self::Opaque && !text.is_empty() && text != MISSING
    }

    /// Folds an id from a file or from code, which must name one client. An id whose folded form stands for more clients than the
    /// text is rejected, and the error suggests the right one. [`MISSING`] stands for requests without an id.
    pub(crate) fn canonical(self, text: &str) -> Result<Id, IdError> {
        if text == MISSING {
            return Ok(text.into());
        }
        let folded = self.fold(text)?;
        if !self.widens(text, folded.as_str()) {
            return Ok(folded);
        }
        let belongs = format!("it belongs to `{folded}`, which shares one bucket");
        let remedy = match self.without_mask(folded.as_str()) {
            Some(right) if text.contains('/') => format!("write `{right}`, without a mask"),
            Some(right) => format!("{belongs}: write `{right}` if you mean all of it"),
            None => format!("{belongs}: write that if you mean all of it"),
        };
        Err(self.error(text, remedy))
    }

    /// Returns whether a folded id stands for more than the text does: for a range, a whole domain, or an address in all zones. The
    /// network of a client may be written as its first address, as in Boulder's files.
    fn widens(self, text: &str, folded: &str) -> bool {
        if let Some(first) = self.without_mask(folded) {
            return !address::is_same(self.named(text), self.named(first));
        }
        match self {
            Self::IpAddress => text.contains('%'),
            Self::Ipv6Range => !address::is_whole_range(text, folded),
            Self::Domain | Self::DomainOrCidr | Self::RegIdDomain | Self::RegIdDomainOrCidr => {
                folded.len() < text.strip_suffix('.').unwrap_or(text).len()
            }
            Self::Opaque
            | Self::RegId
            | Self::FqdnSet
            | Self::RegIdFqdnSet
            | Self::RegIdIdentValue => false,
        }
    }

    /// Returns a folded id without the mask of its network, if files write it like that.
    fn without_mask(self, folded: &str) -> Option<&str> {
        let has_networks = matches!(self, Self::DomainOrCidr | Self::RegIdDomainOrCidr);
        let (first, _) = folded.split_once('/').filter(|_| has_networks)?;
        Some(first)
    }

    /// Returns the group of a folded id. A store keeps the buckets of one group together. The group is the IPv6 range of an
    /// address, the account of a pair, or the id itself.
    pub(crate) fn group(self, id: &str) -> Cow<'_, str> {
        match self {
            Self::IpAddress => address::range_of(id).map_or(id.into(), Cow::from),
            _ if self.pair().is_some() => id.split(':').next().unwrap_or(id).into(),
            _ => id.into(),
        }
    }

    fn folded(self, text: &str) -> Result<Cow<'_, str>, Remedy> {
        match self {
            _ if text.is_empty() => Err(EMPTY),
            _ if text == MISSING => Err(RESERVED),
            Self::Opaque => Ok(text.into()),
            Self::IpAddress => address::fold_address(text),
            Self::Ipv6Range => address::fold_range(text),
            Self::RegId => number(text).map(Cow::from),
            Self::Domain => name::fold_domain(text),
            Self::FqdnSet => name::fold_set(text),
            Self::DomainOrCidr => name::fold_domain_or_network(text),
            Self::RegIdDomain => pair(text, name::fold_domain),
            Self::RegIdDomainOrCidr => pair(text, name::fold_domain_or_network),
            Self::RegIdIdentValue => pair(text, name::fold_identifier),
            Self::RegIdFqdnSet => pair(text, name::fold_set),
        }
    }

    #[cold]
    fn error(self, text: &str, remedy: impl fmt::Display) -> IdError {
        IdError {
            text: Some(shortened(text).into()),
            mistake: format!("is not an id in the format {self}: {remedy}").into(),
        }
    }
}

fn number(text: &str) -> Result<&str, Remedy> {
    let number = text.parse::<u64>();
    let is_number = number.is_ok_and(|number| itoa::Buffer::new().format(number) == text);
    is_number.then_some(text).ok_or(NO_NUMBER)
}

fn pair(
    text: &str,
    fold: fn(&str) -> Result<Cow<'_, str>, Remedy>,
) -> Result<Cow<'_, str>, Remedy> {
    let (account, written) = text.split_once(':').ok_or(NO_PAIR)?;
    let account = number(account)?;
    let folded = fold(written)?;
    Ok(if folded == written {
        text.into()
    } else {
        format!("{account}:{folded}").into()
    })
}

impl fmt::Display for IdFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().fmt(f)
    }
}

impl FromStr for IdFormat {
    type Err = IdError;

    fn from_str(name: &str) -> Result<Self, IdError> {
        let known = Self::ALL.into_iter().find(|(_, known)| *known == name);
        known.map(|(format, _)| format).ok_or_else(|| IdError {
            text: Some(shortened(name).into()),
            mistake: format!(
                "is not an id format: use one of {}",
                Self::ALL.map(|(_, name)| name).join(", ")
            )
            .into(),
        })
    }
}

/// The error for a text that is not an id in a format, or does not name an [`IdFormat`]. It quotes the text, unless the text is a
/// [secret](Id::secret).
#[derive(Clone, PartialEq, Eq, Error)]
pub struct IdError {
    /// `None` if it is a secret.
    text: Option<Box<str>>,
    mistake: Box<str>,
}

debug_is_message!(IdError);

impl IdError {
    /// Removes the text from the error if it is a secret.
    pub(crate) fn secret_if(mut self, is_secret: bool) -> Self {
        self.text.take_if(|_| is_secret);
        self
    }
}

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => write!(f, "`{text}` {}", self.mistake),
            None => write!(f, "its value {}", self.mistake),
        }
    }
}

/// Shortens a text from an untrusted source to its beginning, on one line.
pub(crate) fn shortened(text: &str) -> String {
    const SHOWN: usize = 80;
    let is_long = text.chars().nth(SHOWN).is_some();
    let shown = text.chars().take(SHOWN).map(|c| match c {
        c if c.is_control() => '\u{fffd}',
        c => c,
    });
    shown.chain(is_long.then_some('…')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_names() {
        for (format, name) in IdFormat::ALL {
            assert_eq!(
                (format.to_string(), name.parse()),
                (name.to_owned(), Ok(format))
            );
        }
        let error = "hostname".parse::<IdFormat>().unwrap_err().to_string();
        assert_eq!(
            error,
            "`hostname` is not an id format: use one of opaque, ipAddress, ipv6RangeCIDR, regId, domain, fqdnSet, \
             domainOrCIDR, regId:domain, regId:domainOrCIDR, regId:identValue, regId:fqdnSet"
        );
    }
}

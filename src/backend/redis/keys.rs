//! The keys of buckets in Redis.

use std::fmt::Write;

use hmac_sha256::Hash as Sha256;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use thiserror::Error;

use crate::{batch::Member, message::debug_is_message, transaction::LimitKey};

/// The form of bucket keys.
///
/// The part of a key in braces is its *hash tag*, which decides its slot in Redis Cluster: keys with the same tag are on the same
/// node. The [`default`](Self::default) form is `tollgate:{<tag>}:<limit>:<id>`, with the limit's number (or its name, if it has
/// none), the client's id, and as tag the id's group. It keeps the limits of one client together, so that they are decided
/// in one step, and spreads clients over the cluster:
///
/// | id | tag |
/// |---|---|
/// | an address, or an IPv6 range | the IPv4 address, or the range that the IPv6 address is in |
/// | `regId:domain`, `regId:fqdnSet` | the account |
/// | any other | itself |
///
/// ```
/// use tollgate::backend::redis::KeyForm;
///
/// let of_its_own = KeyForm::with_prefix("acme-staging")?;
/// let registry = KeyForm::new("registry:api:{rate-limit:<limit>:<id>}")?;
/// # Ok::<_, tollgate::backend::redis::KeyFormError>(())
/// ```
///
/// A bucket belongs to its algorithm. The limit of a bucket by GCRA is written alone; it is followed by `~w` for a window,
/// `~q` for a quota, `~c` for a concurrency limit, `~t` for tiers and `~b` for a list of blocked clients, as in
/// `tollgate:{12345678}:6~w:12345678`. If the limit is in the braces, these letters follow the braces, so that they do not change
/// the slot.
///
/// An id cannot change the structure of its key: braces, `%`, spaces and control characters are percent-encoded, and
/// an id of more than 128 bytes is replaced by its SHA-256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyForm {
    /// The text up to the tag or, if there is none, the limit, with the opening brace.
    before: Box<str>,
    /// Whether a tag is in the braces, or the limit and the id are.
    has_tag: bool,
    hashed: bool,
}

/// Longer ids are hashed, as are all ids of a form that [hashes](KeyForm::hash_ids).
const LONGEST_ID: usize = 128;

/// The characters to escape: braces, because they delimit a hash tag; `%`; spaces and control characters.
const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'{').add(b'}');

/// The prefix of a hashed id. No escaped id contains it, because two hexadecimal digits follow each `%`.
const HASH: &str = "%sha256:";

impl KeyForm {
    /// Parses a form: `prefix:{<tag>}:<limit>:<id>`, or `prefix:{text:<limit>:<id>}`, which scatters a client's limits over a
    /// cluster.
    ///
    /// # Errors
    ///
    /// If it is neither of them, or if the prefix or the text contains a brace or `<`.
    pub fn new(form: &str) -> Result<Self, KeyFormError> {
        let tagged = form.strip_suffix("<tag>}:<limit>:<id>");
        let before = tagged.or_else(|| form.strip_suffix("<limit>:<id>}"));
        let before = before
            .filter(|before| before.matches('{').count() == 1 && !before.contains(['}', '<']));
        let before = before.ok_or_else(|| KeyFormError(form.to_owned()))?;
        Ok(Self {
            before: before.into(),
            has_tag: tagged.is_some(),
            hashed: false,
        })
    }

    /// Creates the default form with another prefix instead of `tollgate`.
    ///
    /// # Errors
    ///
    /// If the prefix contains a brace or `<`.
    pub fn with_prefix(prefix: &str) -> Result<Self, KeyFormError> {
        Self::new(&format!("{prefix}:{{<tag>}}:<limit>:<id>"))
    }

    /// Replaces every id by its SHA-256, so that Redis holds no API keys or other secrets. This only hides ids that
    /// cannot be guessed: all IPv4 addresses can be hashed within minutes.
    #[must_use]
    pub fn hash_ids(mut self) -> Self {
        self.hashed = true;
        self
    }

    /// Returns the key of a member's bucket for logs and errors, without an id that is secret.
    pub(super) fn shown(&self, member: &Member<'_>) -> String {
        if member.is_hidden() {
            self.write(member, |key, _, _| key.push_str("<secret>"))
        } else {
            self.key(member)
        }
    }

    /// Returns the key of a member's bucket.
    pub(super) fn key(&self, member: &Member<'_>) -> String {
        self.write(member, |key, id, bytes| self.push_id(key, id, bytes))
    }

    /// Writes the key of a member's bucket. `push_id` appends an id or a tag, or so many bytes of its hash.
    fn write(&self, member: &Member<'_>, push_id: impl Fn(&mut String, &str, usize)) -> String {
        let of = member.key();
        let mut key = String::with_capacity(64);
        let algorithm = of.algorithm.as_str();
        key.push_str(&self.before);
        if self.has_tag {
            push_id(&mut key, &member.format().group(of.id), 8);
            key.push_str("}:");
        }
        match of.limit {
            LimitKey::Name(name) => key.push_str(name),
            LimitKey::Number(number) => key.push_str(itoa::Buffer::new().format(number)),
        }
        key.extend([if self.has_tag { algorithm } else { "" }, ":"]);
        push_id(&mut key, of.id, 32);
        if !self.has_tag {
            key.extend(["}", algorithm]);
        }
        key
    }

    /// Appends an id, or the first `bytes` bytes of its hash.
    fn push_id(&self, key: &mut String, id: &str, bytes: usize) {
        if self.hashed || id.len() > LONGEST_ID {
            key.push_str(HASH);
            for byte in &Sha256::hash(id.as_bytes())[..bytes] {
                write!(key, "{byte:02x}").expect("a String takes all that is written");
            }
        } else if id
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"%{}".contains(&byte))
        {
            // Almost all ids, which need no closer look.
            key.push_str(id);
        } else {
            key.extend(utf8_percent_encode(id, ESCAPED));
        }
    }
}

impl Default for KeyForm {
    fn default() -> Self {
        Self::with_prefix("tollgate").expect("it has no brace")
    }
}

/// The error for a text that is not a [`KeyForm`].
#[derive(Clone, PartialEq, Eq, Error)]
#[error(
    "`{0}` is not a valid key form: use `prefix:{{<tag>}}:<limit>:<id>`, or `prefix:{{text:<limit>:<id>}}`, with a prefix and a text \
     without braces and `<`"
)]
pub struct KeyFormError(String);

debug_is_message!(KeyFormError);

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, time::Duration};

    use super::*;
    use crate::{
        Limit, Limits, id::IdFormat, limit::LimitName, quota::Per, tiers::Tier, transaction::Mode,
    };

    fn key(form: &KeyForm, limit: LimitKey<'_>, format: IdFormat, id: &str) -> String {
        key_by(form, limit, format, id, &Limit::per_second(1))
    }

    fn key_by(
        form: &KeyForm,
        limit: LimitKey<'_>,
        format: IdFormat,
        id: &str,
        by: &Limit,
    ) -> String {
        let name = match limit {
            LimitKey::Number(number) => LimitName::new("n", number, format),
            LimitKey::Name(name) => LimitName::unnumbered(name, format),
        };
        let limits = Limits::builder().limit(name, by.clone()).build().unwrap();
        let limit = limits.iter().next().unwrap();
        form.key(&Member::new(limit, id, 1, Mode::CheckAndSpend))
    }

    /// The key of a bucket with each algorithm: GCRA, a window, a quota, and tiers.
    fn keys(form: &KeyForm, limit: LimitKey<'_>, format: IdFormat, id: &str) -> [String; 4] {
        let second = Duration::from_secs(1);
        let tiers = Limit::tiers([Tier::new(1, second)]).unwrap();
        let limits = [
            Limit::per_second(1),
            Limit::window(1, second),
            Limit::quota(1, Per::Day),
            tiers,
        ];
        limits.map(|one| key_by(form, limit, format, id, &one))
    }

    #[test]
    fn algorithms_of_a_limit_have_keys_in_one_slot() {
        let account = (LimitKey::Number(6), IdFormat::RegId, "12345678");
        let address = (LimitKey::Name("ip"), IdFormat::IpAddress, "1.2.3.4");
        let cases = [
            (
                "tollgate:{<tag>}:<limit>:<id>",
                account,
                "tollgate:{12345678}:6@:12345678",
            ),
            (
                "tollgate:{<tag>}:<limit>:<id>",
                address,
                "tollgate:{1.2.3.4}:ip@:1.2.3.4",
            ),
            (
                "registry:api:{rate-limit:<limit>:<id>}",
                address,
                "registry:api:{rate-limit:ip:1.2.3.4}@",
            ),
            ("{<limit>:<id>}", address, "{ip:1.2.3.4}@"),
        ];
        for (form, (limit, format, id), expected) in cases {
            let found = keys(&KeyForm::new(form).unwrap(), limit, format, id);
            let expected = ["", "~w", "~q", "~t"].map(|letter| expected.replace('@', letter));
            assert_eq!(found, expected, "{form}");
        }
    }

    #[test]
    fn no_two_buckets_share_a_key_whatever_the_form() {
        let forms = [
            "{<tag>}:<limit>:<id>",
            "~w{<tag>}:<limit>:<id>",
            "{<limit>:<id>}",
            "a:{~w:<limit>:<id>}",
        ];
        let long = "~w".repeat(100);
        let ids = [
            "a", "~wa", "~w", "~w:a", "w~a", "w:a", "q:a", "~q", "~t:~w:a", &long,
        ];
        for hashed in [false, true] {
            for form in forms {
                let form = KeyForm::new(form).unwrap();
                let form = if hashed { form.hash_ids() } else { form };
                let limits = [LimitKey::Number(6), LimitKey::Name("ip")];
                let of = |limit| ids.map(|id| keys(&form, limit, IdFormat::Opaque, id));
                let all: Vec<_> = limits.map(of).concat().concat();
                let different: HashSet<_> = all.iter().collect();
                assert_eq!(different.len(), all.len(), "{form:?}: {all:?}");
            }
        }
    }

    #[test]
    fn no_id_leaves_its_place() {
        let of = |id: &str| {
            let form = KeyForm::default();
            let limit = LimitKey::Number(1);
            key(&form, limit, IdFormat::Opaque, id)
        };
        assert_eq!(of("a}{b"), "tollgate:{a%7D%7Bb}:1:a%7D%7Bb");
        assert_eq!(of("a%7D"), "tollgate:{a%257D}:1:a%257D");
        assert_eq!(of(" \r\n\0"), "tollgate:{%20%0D%0A%00}:1:%20%0D%0A%00");
        let hashed = of(&"x".repeat(129));
        assert!(hashed.starts_with("tollgate:{%sha256:"), "{hashed}");
        assert_ne!(hashed, of(&"x".repeat(130)));
        let hash = hashed.rsplit_once(":1:").unwrap().1;
        assert_ne!(hashed, of(hash), "no id is another's hash");
        let secret = KeyForm::default().hash_ids();
        let hashed = key(&secret, LimitKey::Name("api"), IdFormat::Opaque, "sk_live");
        assert!(!hashed.contains("sk_live"), "{hashed}");
    }

    #[test]
    fn forms_that_would_mix_buckets_up_are_refused() {
        let refused = [
            "tollgate:{<tag>}:<id>",
            "tollgate:{<tag>}:<limit>",
            "<limit>:<id>",
            "}<limit>{:<id>",
            "{a}{<tag>}:<limit>:<id>",
            "{tollgate}:<limit>:<id>",
            "{<tag>}:<number>:<id>",
            "{<limit>:<tag>}",
            "{<tag>}:<limit><id>",
            "<id>:{<tag>}:<limit>:<id>",
        ];
        for form in refused {
            let error = KeyForm::new(form).unwrap_err().to_string();
            assert!(error.contains("use `prefix:{<tag>}"), "{form}: {error}");
        }
        assert!(KeyForm::with_prefix("a{b}").is_err());
    }
}

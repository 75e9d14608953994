//! The keys of buckets in Redis.

use std::fmt::Write;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::{
    message::debug_is_message,
    transaction::{LimitKey, Member},
};

/// The form of bucket keys.
///
/// A form is a list of texts and placeholders with colons between them. The placeholders are `<limit>` for the limit's number (or
/// its name, if it has none), `<id>` for the client's id, and `<tag>` for the id's group. The part in braces is the *hash tag*,
/// which decides the slot of a key in Redis Cluster: keys with the same tag are on the same node.
///
/// A bucket belongs to its algorithm. The limit of a bucket by GCRA is written alone; it is followed by `~w` for a window,
/// `~q` for a quota and `~t` for tiers, as in `tollgate:{12345678}:6~w:12345678`. In a form with `<limit>` in the
/// braces only, these letters follow the braces, so that they do not change the slot.
///
/// The [`default`](Self::default) form is `tollgate:{<tag>}:<limit>:<id>`. Its tag keeps the limits of one client
/// together, so that they are decided in one step, and spreads clients over the cluster:
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
/// An id cannot change the structure of its key: braces, `%`, spaces and control characters are percent-encoded, and
/// an id of more than 128 bytes is replaced by its SHA-256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyForm {
    parts: Vec<KeyPart>,
    hashed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyPart {
    Text(Box<str>),
    Limit,
    /// The letter of the algorithm, which is placed once and outside of the hash tag.
    Algorithm,
    Id,
    Tag,
}

/// Longer ids are hashed, as are all ids of a form that [hashes](KeyForm::hash_ids).
const LONGEST_ID: usize = 128;

/// The characters to escape: braces, because they delimit a hash tag; `%`; spaces and control characters.
const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'{').add(b'}');

/// The prefix of a hashed id. No escaped id contains it, because two hexadecimal digits follow each `%`.
const HASH: &str = "%sha256:";

impl KeyForm {
    /// Parses a form.
    ///
    /// # Errors
    ///
    /// If `<limit>` or `<id>` is missing, because clients or limits would share a bucket; if there is no hash tag,
    /// more than one, or one that is the same for all clients; or if something between two colons is neither a text nor a
    /// placeholder.
    pub fn new(form: &str) -> Result<Self, KeyFormError> {
        let error = |problem| KeyFormError {
            form: form.to_owned(),
            problem,
        };
        Ok(Self {
            parts: parse(form).map_err(error)?,
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
        match member.secret {
            true => self.write(member, |key, _, _| key.push_str("<secret>")),
            false => self.key(member),
        }
    }

    /// Returns the key of a member's bucket.
    pub(super) fn key(&self, member: &Member<'_>) -> String {
        self.write(member, |key, id, bytes| self.push_id(key, id, bytes))
    }

    /// Writes the key of a member's bucket. `push_id` appends an id or a tag, or so many bytes of its hash.
    #[inline]
    fn write(&self, member: &Member<'_>, push_id: impl Fn(&mut String, &str, usize)) -> String {
        let mut key = String::with_capacity(64);
        for part in &self.parts {
            match part {
                KeyPart::Text(text) => key.push_str(text),
                KeyPart::Limit => match member.key.limit {
                    LimitKey::Name(name) => key.push_str(name),
                    LimitKey::Number(number) => key.push_str(itoa::Buffer::new().format(number)),
                },
                KeyPart::Algorithm => key.push_str(member.key.algorithm.as_str()),
                KeyPart::Id => push_id(&mut key, member.key.id, 32),
                KeyPart::Tag => push_id(&mut key, &member.format.group(member.key.id), 8),
            }
        }
        key
    }

    /// Appends an id, or the first `bytes` bytes of its hash.
    fn push_id(&self, key: &mut String, id: &str, bytes: usize) {
        if self.hashed || id.len() > LONGEST_ID {
            key.push_str(HASH);
            for byte in &Sha256::digest(id)[..bytes] {
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

/// Parses a form, and adds the place of the algorithm: after a limit outside of the hash tag or, if there is none, after the tag.
fn parse(form: &str) -> Result<Vec<KeyPart>, &'static str> {
    let text = |text: &str| KeyPart::Text(text.into());
    let mut parts = Vec::new();
    for segment in form.split(':') {
        let opened = segment.strip_prefix('{');
        let closed = opened.unwrap_or(segment).strip_suffix('}');
        parts.extend((!parts.is_empty()).then(|| text(":")));
        parts.extend(opened.map(|_| text("{")));
        parts.push(match closed.or(opened).unwrap_or(segment) {
            "<limit>" => KeyPart::Limit,
            "<id>" => KeyPart::Id,
            "<tag>" => KeyPart::Tag,
            other if other.contains(['<', '>', '{', '}']) => return Err(NO_PLACE),
            other => text(other),
        });
        parts.extend(closed.map(|_| text("}")));
    }
    let places = |part: &KeyPart| -> Vec<_> {
        let places = 0..parts.len();
        places.filter(|place| parts[*place] == *part).collect()
    };
    let limits = places(&KeyPart::Limit);
    if limits.is_empty() || !parts.contains(&KeyPart::Id) {
        return Err(MISSING);
    }
    let (&[opens], &[closes]) = (&*places(&text("{")), &*places(&text("}"))) else {
        return Err(NO_TAG);
    };
    let is_of_client = |part: &KeyPart| matches!(part, KeyPart::Id | KeyPart::Tag);
    let tag = parts.get(opens..closes).unwrap_or_default();
    if !tag.iter().any(is_of_client) {
        return Err(NO_TAG);
    }
    let outside = limits
        .into_iter()
        .find(|limit| *limit < opens || *limit > closes);
    parts.insert(outside.unwrap_or(closes) + 1, KeyPart::Algorithm);
    Ok(parts)
}

/// The error for a text that is not a [`KeyForm`].
#[derive(Clone, PartialEq, Eq, Error)]
#[error("`{form}` is not a valid key form: {problem}")]
pub struct KeyFormError {
    form: String,
    problem: &'static str,
}

debug_is_message!(KeyFormError);

const MISSING: &str = "`<limit>` or `<id>` is missing, so several buckets would share a key: use \
                       `tollgate:{<tag>}:<limit>:<id>`";
const NO_PLACE: &str = "between two colons, there must be a text without braces and angle brackets, `<limit>`, `<id>` or `<tag>`; the \
                        hash tag in braces begins and ends at a colon";
const NO_TAG: &str = "it must have one hash tag, which differs from client to client: put `<tag>` or `<id>` in braces";

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, time::Duration};

    use super::*;
    use crate::{
        Limit,
        id::IdFormat,
        quota::Per,
        tiers::Tier,
        transaction::{BucketKey, Mode},
    };

    fn key(form: &KeyForm, limit: LimitKey<'_>, format: IdFormat, id: &str) -> String {
        let per_second = Limit::per_second(1);
        let member = Member::new(
            BucketKey::new(limit, id),
            per_second.algorithm().unwrap(),
            1,
            Mode::CheckAndSpend,
        );
        form.key(&Member { format, ..member })
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
        limits.map(|one| {
            let key = BucketKey::new(limit, id);
            let member = Member::new(key, one.algorithm().unwrap(), 1, Mode::CheckAndSpend);
            form.key(&Member { format, ..member })
        })
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
            ("<limit>:{<id>}", address, "ip@:{1.2.3.4}"),
            (
                "registry:api:{rate-limit:<limit>:<id>}",
                address,
                "registry:api:{rate-limit:ip:1.2.3.4}@",
            ),
            ("{<limit>:<id>}:v1", address, "{ip:1.2.3.4}@:v1"),
            ("{<limit>:<tag>}:<id>", address, "{ip:1.2.3.4}@:1.2.3.4"),
            (
                "{<limit>:<id>}:<limit>:<limit>",
                address,
                "{ip:1.2.3.4}:ip@:ip",
            ),
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
            "{<limit>:<id>}",
            "{<id>:<limit>}",
            "{<limit>:<tag>}:<id>",
            "{<tag>}:<id>:<limit>",
            "{<tag>}:<limit>:~w:<id>",
            "<limit>:{<id>}:~w",
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
            let (form, limit) = (KeyForm::default(), LimitKey::Number(1));
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
            ("tollgate:{<tag>}:<id>", "is missing"),
            ("tollgate:{<tag>}:<limit>", "is missing"),
            ("<limit>:<id>", "one hash tag"),
            ("}:<limit>:{:<id>", "one hash tag"),
            ("{<tag>}:{<tag>}:<limit>:<id>", "one hash tag"),
            ("{tollgate}:<limit>:<id>", "one hash tag"),
            ("{<tag>}:<number>:<id>", "between two colons"),
            ("{<tag>}:<limit:<id>", "between two colons"),
            ("{<tag>}:<limit><id>", "between two colons"),
            ("{<tag>}<id>:<limit>", "between two colons"),
        ];
        for (form, expected) in refused {
            let error = KeyForm::new(form).unwrap_err().to_string();
            assert!(error.contains(expected), "{form}: {error}");
        }
        assert!(KeyForm::with_prefix("a{b}").is_err());
    }
}

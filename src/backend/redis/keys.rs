//! The keys of buckets in Redis.

use std::fmt::Write;

use hmac_sha256::Hash as Sha256;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::{
    error::RedisError,
    tags::{HashTags, SLOTS},
};
use crate::{batch::Member, transaction::LimitKey};

/// The form of bucket keys.
///
/// The part of a key in braces is its *hash tag*, which decides its slot in Redis Cluster: keys with the same tag are in the same
/// slot. The [`default`](Self::default) form is `tollgate:{<tag>}:<limit>:<id>`, with the limit's number (or its name, if it has
/// none) and the client's id. The tag is one of 64 numbers, whose slots are spread evenly over the cluster. The client's group
/// decides which:
///
/// | id | group |
/// |---|---|
/// | an address, or an IPv6 range | the IPv4 address, or the range that the IPv6 address is in |
/// | `regId:domain`, `regId:fqdnSet` | the account |
/// | any other | itself |
///
/// So all limits of one client are in one slot and are decided in one step, and each slot has many clients, whose decisions
/// travel together. [`tags`](Self::tags) sets another number of tags.
///
/// ```
/// use tollgate::backend::redis::KeyForm;
///
/// let of_its_own = KeyForm::with_prefix("acme-staging")?;
/// let large = KeyForm::default().tags(256)?;
/// let registry = KeyForm::new("registry:api:{rate-limit:<limit>:<id>}")?;
/// # Ok::<_, tollgate::backend::redis::RedisError>(())
/// ```
///
/// A bucket belongs to its algorithm. For limits other than GCRA, letters follow the limit: `~w` for a window, `~q` for a quota,
/// `~c` for a concurrency limit, `~t` for tiers and `~b` for a list of blocked clients, as in `tollgate:{31}:6~w:12345678`. If the
/// limit is in the braces, the letters follow the braces, so that they do not change the slot.
///
/// An id cannot change the structure of its key: braces, `%`, spaces and control characters are percent-encoded, and
/// an id of more than 128 bytes is replaced by its SHA-256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyForm {
    /// The text before the tag or, if there is none, before the limit, with the opening brace.
    before: Box<str>,
    /// The tags, one of which is in the braces. Without tags, the limit and the id are in the braces.
    tags: Option<HashTags>,
    hashed: bool,
}

/// The longest id that is written as it is. Longer ids are hashed, and so are all ids if the form [hashes](KeyForm::hash_ids) them.
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
    pub fn new(form: &str) -> Result<Self, RedisError> {
        let tagged = form.strip_suffix("<tag>}:<limit>:<id>");
        let before = tagged.or_else(|| form.strip_suffix("<limit>:<id>}"));
        let before = before
            .filter(|before| before.matches('{').count() == 1 && !before.contains(['}', '<']));
        let before = before.ok_or_else(|| {
            RedisError::config(&format!(
                "`{form}` is not a valid key form: use `prefix:{{<tag>}}:<limit>:<id>`, or `prefix:{{text:<limit>:<id>}}`, with a \
                 prefix and a text without braces and `<`"
            ))
        })?;
        Ok(Self {
            before: before.into(),
            tags: tagged.map(|_| HashTags::default()),
            hashed: false,
        })
    }

    /// Creates the default form with another prefix instead of `tollgate`.
    ///
    /// # Errors
    ///
    /// If the prefix contains a brace or `<`.
    pub fn with_prefix(prefix: &str) -> Result<Self, RedisError> {
        Self::new(&format!("{prefix}:{{<tag>}}:<limit>:<id>"))
    }

    /// Sets the number of tags, and so of slots that have keys. The default is 64.
    ///
    /// - Fewer tags make a cluster faster, because more decisions travel together. On a single server, the number changes nothing.
    /// - A tag is the smallest part that can be moved to another master: its slot has one `n`th of all clients.
    /// - With equal shares of the slots, one of `m` masters has at most `n / m + 1` tags. Use at least eight for each master. A
    ///   master without a tag is idle.
    /// - Another number changes the keys, so all buckets start full. All processes that share buckets need the same number.
    ///
    /// # Errors
    ///
    /// If `n` is 0 or above 16,384, the number of slots, or if the form has no `<tag>`.
    pub fn tags(mut self, n: u16) -> Result<Self, RedisError> {
        if !(1..=SLOTS).contains(&n) {
            return Err(RedisError::config(&format!(
                "keys cannot have {n} tags: use a number from 1 to {SLOTS}"
            )));
        }
        let tags = self.tags.as_mut().ok_or_else(|| {
            RedisError::config(
                "the key form has no tags: leave out `tags`, or use `prefix:{<tag>}:<limit>:<id>`",
            )
        })?;
        *tags = HashTags::find(n);
        Ok(self)
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
            self.write(member, |key, _| key.push_str("<secret>"))
        } else {
            self.key(member)
        }
    }

    /// Returns the key of a member's bucket.
    pub(super) fn key(&self, member: &Member<'_>) -> String {
        self.write(member, |key, id| self.push_id(key, id))
    }

    /// Writes the key of a member's bucket. `push_id` appends the id.
    fn write(&self, member: &Member<'_>, push_id: impl Fn(&mut String, &str)) -> String {
        let of = member.key();
        let mut key = String::with_capacity(64);
        let algorithm = of.algorithm.as_str();
        let mut number = itoa::Buffer::new();
        key.push_str(&self.before);
        if let Some(tags) = &self.tags {
            let tag = tags.of(&member.format().group(of.id));
            key.extend([number.format(tag), "}:"]);
        }
        key.push_str(match of.limit {
            LimitKey::Name(name) => name,
            LimitKey::Number(limit) => number.format(limit),
        });
        if self.tags.is_some() {
            key.push_str(algorithm);
        }
        key.push(':');
        push_id(&mut key, of.id);
        if self.tags.is_none() {
            key.extend(["}", algorithm]);
        }
        key
    }

    /// Appends an id, or its hash.
    fn push_id(&self, key: &mut String, id: &str) {
        if self.hashed || id.len() > LONGEST_ID {
            key.push_str(HASH);
            for byte in Sha256::hash(id.as_bytes()) {
                write!(key, "{byte:02x}").expect("a String takes all that is written");
            }
        } else if id
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"%{}".contains(&byte))
        {
            // Almost all ids have only these characters, and need no escaping.
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
                "tollgate:{3124}:6@:12345678",
            ),
            (
                "tollgate:{<tag>}:<limit>:<id>",
                address,
                "tollgate:{8518}:ip@:1.2.3.4",
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
    fn keys_of_buckets_are_distinct_in_every_form() {
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
        assert_eq!(of("a}{b"), "tollgate:{931}:1:a%7D%7Bb");
        assert_eq!(of("a%7D"), "tollgate:{447}:1:a%257D");
        assert!(of("{}").ends_with(":%7B%7D"));
        assert!(of(&"a".repeat(LONGEST_ID)).ends_with("aaaa"));
        assert!(of(&"a".repeat(LONGEST_ID + 1)).contains(HASH));
        assert_eq!(of(" \r\n"), "tollgate:{2020}:1:%20%0D%0A");
        let hashed = of(&"x".repeat(129));
        assert!(hashed.contains("}:1:%sha256:"), "{hashed}");
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

    #[test]
    fn number_of_tags_is_one_of_a_form_with_tags() {
        let accounts = |form: KeyForm| {
            let account = LimitKey::Number(6);
            key(&form, account, IdFormat::RegId, "12345678")
        };
        let four = KeyForm::default().tags(4).unwrap();
        assert_ne!(accounts(four), accounts(KeyForm::default()));
        let default = KeyForm::with_prefix("tollgate").unwrap().tags(64).unwrap();
        assert_eq!(default, KeyForm::default());
        for n in [0, 16_385] {
            let error = KeyForm::default().tags(n).unwrap_err().to_string();
            assert!(error.contains("from 1 to 16384"), "{error}");
        }
        let registry = KeyForm::new("registry:api:{rate-limit:<limit>:<id>}").unwrap();
        let error = registry.tags(64).unwrap_err().to_string();
        assert!(error.contains("leave out `tags`"), "{error}");
    }

    /// So they are decided in one step, if their ids name the client.
    #[test]
    fn limits_of_one_client_share_a_tag() {
        let tag = |limit, format, id: &str| {
            let key = key(&KeyForm::default(), LimitKey::Number(limit), format, id);
            key[..=key.find('}').unwrap()].to_owned()
        };
        let account = tag(1, IdFormat::RegId, "12345678");
        assert_eq!(tag(2, IdFormat::RegIdDomain, "12345678:a.com"), account);
        let range = tag(1, IdFormat::Ipv6Range, "2001:db8:1::/48");
        assert_eq!(tag(2, IdFormat::IpAddress, "2001:db8:1::5"), range);
    }
}

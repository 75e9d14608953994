//! One element of the `Forwarded` header: `for="[2001:db8::7]:80";proto=https`.

use std::net::IpAddr;

use arrayvec::ArrayVec;

use super::node;

/// The most parameters of an element. RFC 7239 defines four.
const MAX_PARAMETERS: usize = 16;

/// Returns the address in the parameter `for`, or `None` if the element violates the grammar
/// ([RFC 7239, section 4]) or repeats a parameter.
///
/// [RFC 7239, section 4]: https://www.rfc-editor.org/rfc/rfc7239#section-4
pub(super) fn client(element: &[u8]) -> Option<IpAddr> {
    let mut rest = element.trim_ascii();
    let mut names = ArrayVec::<&[u8], MAX_PARAMETERS>::new();
    let mut client = None;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(b";") {
            rest = after;
            continue;
        }
        let (name, value, after) = pair(rest)?;
        if names.iter().any(|other| name.eq_ignore_ascii_case(other)) {
            return None;
        }
        names.try_push(name).ok()?;
        if name.eq_ignore_ascii_case(b"for") {
            client = Some(value);
        }
        rest = after;
    }
    node::forwarded(&unescaped(client?)?)
}

/// Returns the name and the value, still escaped, of the pair at the start of `text`, and the text after the
/// pair: nothing or a semicolon.
fn pair(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (name, rest) = token(text)?;
    let rest = rest.strip_prefix(b"=")?;
    let (value, rest) = match rest.strip_prefix(b"\"") {
        Some(rest) => quoted(rest)?,
        None => token(rest)?,
    };
    matches!(rest, [] | [b';', ..]).then_some((name, value, rest))
}

fn token(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = text.iter().take_while(|byte| is_of_token(**byte)).count();
    (len > 0).then(|| text.split_at(len))
}

/// Splits the text at the closing quote. A header's value has no control
/// characters, so this need not reject any.
fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut escaped = false;
    let end = text.iter().position(|byte| {
        let closes = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        closes
    })?;
    Some((&text[..end], &text[end + 1..]))
}

fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Returns the value without its backslashes (a token has none), or `None` if it is too long for an address.
fn unescaped(value: &[u8]) -> Option<ArrayVec<u8, { node::MAX_LEN }>> {
    let mut text = ArrayVec::new();
    let mut bytes = value.iter();
    while let Some(&byte) = bytes.next() {
        let byte = if byte == b'\\' { *bytes.next()? } else { byte };
        text.try_push(byte).ok()?;
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect("a test's address"))
    }

    #[test]
    fn well_formed_elements_name_the_client() {
        let elements = [
            "for=203.0.113.7",
            "FOR=203.0.113.7",
            r#"for="203.0.113.7""#,
            r#"for="203.0.113.7:80""#,
            r#"for="203.0.113.7:_port""#,
            r#"for="\2\03.0.\1\1\3\.7""#,
            " \tfor=203.0.113.7\t ",
            ";for=203.0.113.7;",
            ";;;for=203.0.113.7;;proto=https",
            "proto=https;for=203.0.113.7;by=_gateway",
            r#"host="a;for=6.6.6.6,b";for=203.0.113.7"#,
            r#"host="\";for=6.6.6.6;x=\"";for=203.0.113.7"#,
            r#"host="\\";for=203.0.113.7"#,
            r#"host="é";for=203.0.113.7"#,
        ];
        for element in elements {
            assert_eq!(client(element.as_bytes()), ip("203.0.113.7"), "{element}");
        }
        assert_eq!(client(br#"for="[2001:db8::7]:80""#), ip("2001:db8::7"));
    }

    const NAME_NOBODY: [&str; 33] = [
        "",
        ";",
        "for",
        "for=",
        "=203.0.113.7",
        "203.0.113.7",
        "proto=https",
        "for=unknown",
        "for=_hidden",
        "for=203.0.113.7:80",
        "for=[2001:db8::7]",
        "for=2001:db8::7",
        r#"for="2001:db8::7""#,
        r#"for="""#,
        r#"for="203.0.113.7"#,
        r#"for=203.0.113.7""#,
        r#"for="203.0.113.7\"#,
        r#"for="203.0.113.7\""#,
        r#"for="203.0.113.7"x"#,
        r#"for="203.0.113.7" "203.0.113.7""#,
        r#"for=" 203.0.113.7""#,
        "for =203.0.113.7",
        "for= 203.0.113.7",
        "for=203.0.113.7; proto=https",
        "for=203.0.113.7;proto",
        "for=203.0.113.7;proto=",
        "for=203.0.113.7;for=203.0.113.7",
        "for=203.0.113.7;For=203.0.113.8",
        "for=203.0.113.7;proto=http;PROTO=https",
        "for=203.0.113.7,for=203.0.113.7",
        "f\u{f6}r=203.0.113.7",
        "for=203.0.113.7\u{e9}",
        "x-for=203.0.113.7",
    ];

    #[test]
    fn others_name_nobody() {
        for element in NAME_NOBODY {
            assert_eq!(client(element.as_bytes()), None, "{element}");
        }
    }

    #[test]
    fn parameters_are_bounded() {
        let element = |n: usize| {
            let others: String = (1..n).map(|i| format!("x{i}=1;")).collect();
            format!("{others}for=203.0.113.7")
        };
        let most = element(MAX_PARAMETERS);
        assert_eq!(client(most.as_bytes()), ip("203.0.113.7"));
        assert_eq!(client(element(MAX_PARAMETERS + 1).as_bytes()), None);
    }
}

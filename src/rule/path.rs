//! Paths as routers behind the layer may read them.

/// The most levels of nested escapes that are resolved.
const ROUNDS: usize = 4;

/// Returns the mistake in a path pattern, if there is one.
pub(super) fn mistake(path: &str) -> Option<String> {
    if !path.starts_with('/') {
        return Some(format!(
            "the path `{path}` matches no request: begin it with `/`"
        ));
    }
    let above = path.strip_suffix("/*").unwrap_or(path);
    if above.contains(['{', '*']) {
        return Some(format!(
            "`{path}` is a route pattern: end it with `/*` for all that lies below, or put the layer on the route by \
             `route_layer`"
        ));
    }
    let resolved = resolved(path)?;
    Some(format!(
        "the path `{path}` matches no request: write it as `{resolved}`"
    ))
}

/// Returns whether a path, as it was sent, matches the pattern or lies below it.
pub(super) fn lies_at(pattern: &str, path: &str) -> bool {
    match pattern
        .strip_suffix('*')
        .filter(|above| above.ends_with('/'))
    {
        Some(above) => path.len() > above.len() && path.starts_with(above) && is_plain(path),
        None => path == pattern,
    }
}

/// Returns the path that a router may resolve a path to, if it differs: without parameters, needless escapes, backslashes,
/// empty and dot segments.
pub(super) fn resolved(path: &str) -> Option<String> {
    if is_plain(path) {
        return None;
    }
    let mut path = without_parameters(path);
    for _ in 0..ROUNDS {
        path = without_parameters(&unescaped(&path));
    }
    Some(without_dots(&path))
}

fn is_plain(path: &str) -> bool {
    let mut escapes = path.match_indices('%');
    let mut segments = path.split('/');
    !path.contains(['\\', ';'])
        && !path.contains("//")
        && !escapes.any(|(at, _)| escaped(&path[at + 1..]).is_some())
        && !segments.any(|segment| matches!(segment, "." | ".."))
}

/// Returns the path without backslashes and the parameters of segments. Servers that know parameters treat `/login;x` as `/login`.
fn without_parameters(path: &str) -> String {
    let path = path.replace('\\', "/");
    let names = path
        .split('/')
        .filter_map(|segment| segment.split(';').next());
    names.collect::<Vec<_>>().join("/")
}

/// Returns the path with one level of needless escapes and all levels of escaped `%` resolved.
fn unescaped(path: &str) -> String {
    let mut unescaped = String::with_capacity(path.len());
    let mut rest = path;
    while let Some((before, mut after)) = rest.split_once('%') {
        unescaped.push_str(before);
        // `%25` is an escaped `%`, which can begin another escape.
        while let Some(next) = after.strip_prefix("25") {
            after = next;
        }
        (unescaped, rest) = match escaped(after) {
            Some(c) => (unescaped + c.encode_utf8(&mut [0; 4]), &after[2..]),
            None => (unescaped + "%", after),
        };
    }
    unescaped.push_str(rest);
    unescaped
}

/// Returns the character of the escape at the start of the text, after `%`, if it is unreserved (RFC 3986, section 2.3)
/// or has a meaning to routers.
fn escaped(text: &str) -> Option<char> {
    let digits = text.get(..2)?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let byte = u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
    let is_needless = byte.is_ascii_alphanumeric() || b"-._~/\\;%".contains(&byte);
    is_needless.then_some(byte.into())
}

fn without_dots(path: &str) -> String {
    let mut kept = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                kept.pop();
            }
            _ => kept.push(segment),
        }
    }
    let last = path.rsplit('/').next().unwrap_or_default();
    // The path of a folder ends with `/`. Its last segment is empty or was removed.
    let is_folder = kept.last().is_some_and(|kept| *kept != last);
    format!("/{}{}", kept.join("/"), if is_folder { "/" } else { "" })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pattern_is_a_path_or_all_below_it() {
        for (pattern, path, lies) in [
            ("/health", "/health", true),
            ("/health", "/health/", false),
            ("/health", "/healthy", false),
            ("/static/*", "/static/a", true),
            ("/static/*", "/static/a/b", true),
            ("/static/*", "/static/", false),
            ("/static/*", "/static", false),
            ("/static/*", "/statics", false),
            ("/static/*", "/static/../login", false),
            ("/*", "/", false),
            ("/*", "/a", true),
        ] {
            assert_eq!(lies_at(pattern, path), lies, "{pattern} {path}");
        }
    }

    #[test]
    fn disguised_paths_are_resolved() {
        for (path, expected) in [
            ("/a/./b", "/a/b"),
            ("/a/../b", "/b"),
            ("/../../b", "/b"),
            ("/a/b/..", "/a/"),
            ("/a/b/.", "/a/b/"),
            ("/a/..", "/"),
            ("/a//b", "/a/b"),
            ("//a", "/a"),
            ("/a\\..\\b", "/b"),
            ("/%2e%2E/b", "/b"),
            ("/a%2f..%5cb", "/b"),
            ("/a/..;x=1/b", "/b"),
            ("/a/..%3bx/b", "/b"),
            ("/a/.;/b;c", "/a/b"),
            ("/a\\;b", "/a/"),
            ("/a;b", "/a"),
            ("/a;b=1;c/d;e/", "/a/d/"),
            ("/;a/b", "/b"),
            ("/a/;b", "/a/"),
            ("/;a", "/"),
            ("/a;b\\c", "/a/c"),
            ("/a;..", "/a"),
            ("/a/;b/../c", "/c"),
            ("/a%3bb", "/a"),
            ("/%3Ba/b", "/b"),
            ("/a%253bb", "/a"),
            ("/a%%33%62b", "/a"),
            // A server that removes parameters first sees one segment. A server that resolves escapes first sees two.
            ("/a;b%2fc", "/a"),
            ("/a;b%5c..", "/a"),
            ("/a%3bb%2fc", "/a/c"),
            ("/%6c%6F%67in", "/login"),
            ("/%252e%25252e/b", "/b"),
            ("/%%32%65./b", "/b"),
            ("/100%25", "/100%"),
            ("/a/%2", ""),
            ("/a/%zz%+f", ""),
            ("/a/%C3%A9%20", ""),
            ("/a/.b/c./..d/...", ""),
            ("/", ""),
            ("", ""),
            ("*", ""),
        ] {
            let expected = Some(expected).filter(|path| !path.is_empty());
            assert_eq!(resolved(path).as_deref(), expected, "{path}");
        }
    }

    /// Escapes a character, and then the digits of its escape, so that reading it takes this many rounds.
    fn nested(c: char, levels: usize) -> String {
        match levels {
            0 => c.into(),
            _ => format!("{:02x}", u32::from(c))
                .chars()
                .map(|digit| nested(digit, levels - 1))
                .fold("%".to_owned(), |escape, digit| escape + &digit),
        }
    }

    proptest! {
        #[test]
        fn any_path_resolves_without_dot_segments(
            segments in prop::collection::vec("(%2e|%25|%2f|[.%/;\\\\a2e]){0,6}", 0..6),
            hidden in prop::collection::vec(("[a-z0-9]", 1..=4_usize), 1..8),
        ) {
            let name_of = |(name, _): &(String, usize)| name.clone();
            let escape_of = |(name, levels): &(String, usize)| -> String {
                name.chars().map(|c| nested(c, *levels)).collect()
            };
            let plain: String = hidden.iter().map(name_of).collect();
            let escaped: String = hidden.iter().map(escape_of).collect();
            prop_assert_eq!(resolved(&format!("/{escaped}")), Some(format!("/{plain}")));
            let path = format!("/{}", segments.join("/"));
            if let Some(resolved) = resolved(&path) {
                prop_assert!(resolved.starts_with('/') && resolved.len() <= path.len());
                prop_assert!(!resolved.split('/').any(|segment| matches!(segment, "." | "..")));
                prop_assert!(!resolved.contains("//") && !resolved.contains(['\\', ';']));
            }
        }
    }
}

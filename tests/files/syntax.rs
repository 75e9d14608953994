//! What is said of texts that are not in their language.

use tollgate::limit::Language::{self, Json, Toml, Yaml};

use crate::{Refusal, defaults, overrides, reads, refused};

const YAML: &[Refusal] = &[
    (
        Yaml,
        "a:\n\tburst: 1\n",
        "2: a tab indents this line: YAML takes spaces only",
    ),
    (
        Yaml,
        "a:\n  burst: 1\n\tcount: 1\n",
        "3: a tab indents this line",
    ),
    (
        Yaml,
        "a:\n  burst: 1\n \t count: 1\n  period: 1s\n",
        "3: a tab indents this line",
    ),
    (
        Yaml,
        "a:\n  burst:\t1\n  count: @\n",
        "3: unexpected character: `@'",
    ),
    (Yaml, "a: {burst: 1", "1: unclosed bracket '{'"),
    (
        Yaml,
        "\na: 'x\n",
        "3: invalid indentation in multiline quoted scalar",
    ),
    (
        Yaml,
        "a: {}\n b: {}\n",
        "2: this line is indented differently from those around it: indent all fields of a limit equally",
    ),
    (
        Yaml,
        "a: {}\nb\n",
        "2: a `:` is missing: write the name of a limit or a field, a colon, a space and a value",
    ),
    (
        Yaml,
        "a: b: c\n",
        "1: a value and a `:` after it: indent this line like the one before, or put text with a `:` in quotes",
    ),
    (
        Yaml,
        "a:\n  burst: 20\n    count: 10\n",
        "3: a value and a `:` after it",
    ),
    (
        Yaml,
        "a:\n  burst: 20\n count: 10\n",
        "3: this line is indented differently from those around it",
    ),
    (Yaml, "a: {}]\n", "1: misplaced bracket"),
    (
        Yaml,
        "a: \"\\q\"\n",
        "1: while parsing a quoted scalar, found unknown escape character",
    ),
    (Yaml, "a: @b\n", "1: unexpected character"),
    (Yaml, "a: {}\n: {}\n", "2: a key is missing before a `:`"),
    (Yaml, "? [a]\n: {}\n", "1: a key is a list: use text"),
    (Yaml, "? {a: b}\n: {}\n", "1: a key is a map"),
    (
        Yaml,
        "a: {}\n---\nb: {}\n",
        "2: a second document begins: use one for each file",
    ),
    (Yaml, "---\n---\na: {}\n", "2: a second document begins"),
    (
        Yaml,
        "\na: *b\n",
        "2: while parsing node, found unknown anchor: put text that begins with `*` in quotes",
    ),
    (
        Yaml,
        "a: {}\nb: &x [*x]\n",
        "2: an alias refers to its own anchor: write the value out",
    ),
    (Yaml, "a: !b!c {}\n", "1: the handle wasn't declared"),
    (
        Yaml,
        "%YAML 3.0\n---\na: {}\n",
        "1: unsupported YAML major version",
    ),
    (Yaml, "a: \u{1}\n", "1: unexpected character: `\\u{1}'"),
];

/// Texts, and the line of the mistake. What is said of it is up to the parsers of these languages.
const OTHERS: &[(Language, &str, u64)] = &[
    (Json, "{", 1),
    (Json, "{\n\"a\"", 2),
    (Json, "{\"a\": {},\n}", 2),
    (Json, "{\"a\": {}\n\"b\": {}}", 2),
    (Json, "{a: {}}", 1),
    (Json, "{'a': {}}", 1),
    (Json, "{\"a\": {\"burst\": 01}}", 1),
    (Json, "{\"a\": {\n\"burst\": 1.}}", 2),
    (Json, "{\"a\": {\n\"burst\": +1}}", 2),
    (Json, "{\"a\": nul}", 1),
    (Json, "{\"a\": NaN}", 1),
    (Json, "{\"a\": \"\\q\"}", 1),
    (Json, "{\"a\": \"\n\"}", 1),
    (Json, "{\"a\": \"x", 1),
    (Json, "{\"a\": {}}\n]", 2),
    (Json, "{\"a\": {}}\n{\"b\": {}}", 2),
    (Json, "// none\n{}", 1),
    (Json, "# none\n", 1),
    (Json, "\u{feff}\u{feff}{}", 1),
    (Json, "a:\n  burst: 1\n", 1),
    (Toml, "[a\n", 1),
    (Toml, "\n[a]\n[a]\n", 3),
    (Toml, "[a]\nburst = 1\nburst = 2\n", 3),
    (Toml, "[a]\nburst\n", 2),
    (Toml, "[a]\nburst = \n", 2),
    (Toml, "[a]\nburst = 01\n", 2),
    (Toml, "[a]\nperiod = 1s\n", 2),
    (Toml, "[a]\nperiod = 'x\n", 2),
    (Toml, "[a]\nperiod = \"\\q\"\n", 2),
    (Toml, "[a]\nids = [1\n", 2),
    (Toml, "[a] b\n", 1),
    (Toml, "[]\n", 1),
    (Toml, "[a]\nid: regId\n", 2),
    (Toml, "a = 1\n[a]\n", 2),
    (Toml, "{}", 1),
];

#[test]
fn line_and_cause_are_told() {
    for build in [defaults, overrides] {
        refused(build, YAML);
        for (language, text, line) in OTHERS.iter().filter(|(language, ..)| reads(*language)) {
            let error = build(*language, text).unwrap_err();
            assert_eq!(error.line(), Some(*line), "{text:?}: {error}");
        }
    }
}

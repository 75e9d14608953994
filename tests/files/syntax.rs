//! What is said of texts that are not in their language.

use tollgate::limit::Language::{Json, Toml, Yaml};

use crate::{Refusal, defaults, overrides, refused};

const YAML: &[Refusal] = &[
    (
        Yaml,
        "a:\n\tburst: 1\n",
        "limits:2: a tab indents this line: YAML takes spaces only",
    ),
    (
        Yaml,
        "a:\n  burst: 1\n\tcount: 1\n",
        "limits:3: a tab indents this line: YAML takes spaces only",
    ),
    (
        Yaml,
        "a:\n  burst: 1\n \t count: 1\n  period: 1s\n",
        "limits:3: a tab indents this line: YAML takes spaces only",
    ),
    (
        Yaml,
        "a:\n  burst:\t1\n  count: @\n",
        "limits:3: unexpected character: `@'",
    ),
    (Yaml, "a: {burst: 1", "limits:1: unclosed bracket '{'"),
    (
        Yaml,
        "\na: 'x\n",
        "limits:3: invalid indentation in multiline quoted scalar",
    ),
    (
        Yaml,
        "a: {}\n b: {}\n",
        "limits:2: this line is indented differently from those around it: indent all fields of a limit equally",
    ),
    (
        Yaml,
        "a: {}\nb\n",
        "limits:2: a `:` is missing: write the name of a limit or a field, a colon, a space and a value",
    ),
    (
        Yaml,
        "a: b: c\n",
        "limits:1: a value and a `:` after it: indent this line like the one before, or put text with a `:` in quotes",
    ),
    (
        Yaml,
        "a:\n  burst: 20\n    count: 10\n",
        "limits:3: a value and a `:` after it: indent this line like the one before, or put text with a `:` in quotes",
    ),
    (
        Yaml,
        "a:\n  burst: 20\n count: 10\n",
        "limits:3: this line is indented differently from those around it: indent all fields of a limit equally",
    ),
    (Yaml, "a: {}]\n", "limits:1: misplaced bracket"),
    (
        Yaml,
        "a: \"\\q\"\n",
        "limits:1: while parsing a quoted scalar, found unknown escape character",
    ),
    (Yaml, "a: @b\n", "limits:1: unexpected character: `@'"),
    (
        Yaml,
        "a: {}\n: {}\n",
        "limits:2: a key is missing before a `:`",
    ),
    (Yaml, "? [a]\n: {}\n", "limits:1: a key is a list: use text"),
    (
        Yaml,
        "? {a: b}\n: {}\n",
        "limits:1: a key is a map: use text",
    ),
    (
        Yaml,
        "a: {}\n---\nb: {}\n",
        "limits:2: a second document begins: use one for each file",
    ),
    (
        Yaml,
        "---\n---\na: {}\n",
        "limits:2: a second document begins: use one for each file",
    ),
    (
        Yaml,
        "\na: *b\n",
        "limits:2: while parsing node, found unknown anchor: put text that begins with `*` in quotes",
    ),
    (
        Yaml,
        "a: {}\nb: &x [*x]\n",
        "limits:2: an alias refers to its own anchor: write the value out",
    ),
    (Yaml, "a: !b!c {}\n", "limits:1: the handle wasn't declared"),
    (
        Yaml,
        "%YAML 3.0\n---\na: {}\n",
        "limits:1: unsupported YAML major version",
    ),
    (
        Yaml,
        "a: \u{1}\n",
        "limits:1: unexpected character: `\\u{1}'",
    ),
];

const JSON: &[Refusal] = &[
    (Json, "{", "limits:1: EOF while parsing an object"),
    (Json, "{\n\"a\"", "limits:2: EOF while parsing an object"),
    (Json, "{\"a\": {},\n}", "limits:2: key must be a string"),
    (
        Json,
        "{\"a\": {}\n\"b\": {}}",
        "limits:2: expected `,` or `}`",
    ),
    (Json, "{a: {}}", "limits:1: key must be a string"),
    (Json, "{'a': {}}", "limits:1: key must be a string"),
    (Json, "{\"a\": {\"burst\": 01}}", "limits:1: invalid number"),
    (
        Json,
        "{\"a\": {\n\"burst\": 1.}}",
        "limits:2: invalid number",
    ),
    (
        Json,
        "{\"a\": {\n\"burst\": +1}}",
        "limits:2: expected value",
    ),
    (Json, "{\"a\": nul}", "limits:1: expected ident"),
    (Json, "{\"a\": NaN}", "limits:1: expected value"),
    (Json, "{\"a\": \"\\q\"}", "limits:1: invalid escape"),
    (
        Json,
        "{\"a\": \"\n\"}",
        "limits:1: control character (\\u0000-\\u001F) found while parsing a string",
    ),
    (Json, "{\"a\": \"x", "limits:1: EOF while parsing a string"),
    (Json, "{\"a\": {}}\n]", "limits:2: trailing characters"),
    (
        Json,
        "{\"a\": {}}\n{\"b\": {}}",
        "limits:2: trailing characters",
    ),
    (Json, "// none\n{}", "limits:1: expected value"),
    (Json, "# none\n", "limits:1: expected value"),
    (Json, "\u{feff}\u{feff}{}", "limits:1: expected value"),
    (Json, "a:\n  burst: 1\n", "limits:1: expected value"),
];

const TOML: &[Refusal] = &[
    (Toml, "[a\n", "limits:1: unclosed table, expected `]`"),
    (Toml, "\n[a]\n[a]\n", "limits:3: duplicate key"),
    (
        Toml,
        "[a]\nburst = 1\nburst = 2\n",
        "limits:3: duplicate key",
    ),
    (
        Toml,
        "[a]\nburst\n",
        "limits:2: key with no value, expected `=`",
    ),
    (
        Toml,
        "[a]\nburst = \n",
        "limits:2: string values must be quoted, expected literal string",
    ),
    (
        Toml,
        "[a]\nburst = 01\n",
        "limits:2: unexpected leading zero, expected nothing",
    ),
    (
        Toml,
        "[a]\nperiod = 1s\n",
        "limits:2: string values must be quoted, expected literal string",
    ),
    (
        Toml,
        "[a]\nperiod = 'x\n",
        "limits:2: invalid literal string, expected `'`",
    ),
    (
        Toml,
        "[a]\nperiod = \"\\q\"\n",
        "limits:2: missing escaped value, expected `b`, `e`, `f`, `n`, `r`, `\\`, `\"`, `x`, `u`, `U`",
    ),
    (
        Toml,
        "[a]\nids = [1\n",
        "limits:2: unclosed array, expected `]`",
    ),
    (
        Toml,
        "[a] b\n",
        "limits:1: unexpected key or value, expected newline, `#`",
    ),
    (
        Toml,
        "[]\n",
        "limits:1: unquoted keys cannot be empty, expected letters, numbers, `-`, `_`",
    ),
    (
        Toml,
        "[a]\nid: regId\n",
        "limits:2: key with no value, expected `=`",
    ),
    (Toml, "a = 1\n[a]\n", "limits:2: duplicate key"),
    (Toml, "{}", "limits:1: invalid key-value pair, expected key"),
];

#[test]
fn line_and_cause_are_told() {
    for refusals in [YAML, JSON, TOML] {
        refused(defaults, refusals);
        refused(overrides, refusals);
    }
}

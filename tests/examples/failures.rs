//! The output of examples that fail to start.

use crate::programs::run_in;

/// The error that an example prints, which must exit with code 1.
fn error_of(name: &str, variables: &[(&str, &str)]) -> String {
    let output = run_in(name, variables);
    let message = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(1), "{name}: {message}");
    let error = message.trim_end().strip_prefix("Error: ");
    error.expect(&message).to_owned()
}

#[test]
fn errors_are_sentences() {
    let range = error_of("acme", &[("PROXIES", "10.0.0.0/x")]);
    assert!(
        range.starts_with("`10.0.0.0/x` is not an address or a range: write it as `10.1.2.3`"),
        "{range}"
    );
    let file = error_of("observability", &[("OVERRIDES", "no-such-file.yml")]);
    assert_eq!(
        file, "no-such-file.yml: cannot read it: No such file or directory (os error 2)",
        "the cause is there once"
    );
    for name in [
        "acme",
        "custom_extractor",
        "hyper",
        "llm_gateway",
        "login_failures",
        "plans",
        "quickstart",
        "tonic",
    ] {
        let error = error_of(name, &[("ADDR", "nowhere")]);
        assert!(error.contains("invalid socket address"), "{name}: {error}");
        assert!(!error.contains(['{', '"']), "{name}: {error}");
    }
}

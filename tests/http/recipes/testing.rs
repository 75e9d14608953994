include!("pages/testing.rs");

#[test]
fn page_shows_this_code() {
    super::expect_shown(
        include_str!("../../../docs/recipes/testing.md"),
        include_str!("pages/testing.rs"),
    );
}

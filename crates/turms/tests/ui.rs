//! What the compiler says when the attributes are misused.
//!
//! The expected words are those of the stable compiler; after a change, `TRYBUILD=overwrite` writes them anew.

#[test]
fn misuse_is_explained() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}

//! Compiler errors for misuse of the attributes.
//!
//! The expected output is that of the stable compiler; after a change, `TRYBUILD=overwrite` updates it.

#[test]
fn misuse_has_the_expected_compiler_errors() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}

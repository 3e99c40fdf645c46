//! Sealing of traits that only this crate implements.

/// The parameter of a hidden method of each sealed trait. Other crates cannot name it, so they cannot implement the
/// trait.
#[derive(Debug)]
#[expect(unnameable_types, reason = "it seals traits because it has no name elsewhere")]
pub struct Seal(());

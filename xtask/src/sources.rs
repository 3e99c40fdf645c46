//! The source files of all crates, for checks of their text.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The Rust files in the folder `src` of each crate.
pub(crate) fn of_crates() -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for package in fs::read_dir(root().join("crates"))? {
        add_sources(&package?.path().join("src"), &mut files)?;
    }
    files.sort();
    Ok(files)
}

fn add_sources(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            add_sources(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

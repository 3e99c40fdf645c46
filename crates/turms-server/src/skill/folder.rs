//! Skills in a directory.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use turms_proto::types::Skill;

use super::SkillError;
use super::index::SkillFiles;

/// Maximum depth of nested directories.
const MAX_DEPTH: usize = 32;

/// Maximum number of files in the whole directory.
const MAX_FILES: usize = 100_000;

/// Reads all skills in a directory. Executes nothing in it, and reads nothing outside it.
pub(super) fn read(folder: &Path) -> Result<Vec<SkillFiles>, SkillError> {
    let real = fs::canonicalize(folder).map_err(|error| SkillError::new(folder.display(), error))?;
    if !real.is_dir() {
        return Err(SkillError::new(folder.display(), "it is not a directory"));
    }
    let mut walk = DirectoryWalk { root: real.clone(), found: BTreeMap::new(), above: vec![real.clone()] };
    walk.enter(folder, &mut Vec::new())?;
    let found = walk.found;
    let homes = found.keys().filter(|path| path.last().is_some_and(|name| name == "SKILL.md"));
    let homes: Vec<Vec<String>> = homes.map(|path| path[..path.len() - 1].to_vec()).collect();
    let mut read = BTreeMap::new();
    homes.into_iter().map(|home| skill(&home, folder, &real, &found, &mut read)).collect()
}

/// The contents of files that were read. A file may belong to a skill and to a nested one, and is read once.
type Contents = BTreeMap<PathBuf, Arc<[u8]>>;

fn skill(
    home: &[String],
    folder: &Path,
    real: &Path,
    found: &BTreeMap<Vec<String>, PathBuf>,
    read: &mut Contents,
) -> Result<SkillFiles, SkillError> {
    let directory = home.iter().fold(folder.to_owned(), |path, part| path.join(part));
    let own: Vec<_> = found.range(home.to_vec()..).take_while(|(path, _)| path.starts_with(home)).collect();
    if own.len() > Skill::MAX_FILES {
        let problem = format!("the skill has {} files; {} are allowed", own.len(), Skill::MAX_FILES);
        return Err(SkillError::new(directory.display(), problem));
    }
    let mut left = Skill::MAX_SIZE;
    let mut files = BTreeMap::new();
    for (path, file) in own {
        let contents = match read.get(file) {
            Some(contents) => contents.clone(),
            None => contents_of(file, left)?,
        };
        let size = contents.len() as u64;
        left = left.checked_sub(size).ok_or_else(|| {
            let problem =
                format!("the files of the skill have more than the {} bytes that are allowed", Skill::MAX_SIZE);
            SkillError::new(directory.display(), problem)
        })?;
        read.insert(file.clone(), contents.clone());
        files.insert(path[home.len()..].to_vec(), contents);
    }
    let mut path = Vec::new();
    if found.contains_key(["SKILL.md"].map(str::to_owned).as_slice()) {
        // The directory itself is a skill with its name; other skills in it are nested.
        path.extend(real.file_name().and_then(|name| name.to_str()).map(str::to_owned));
    }
    path.extend_from_slice(home);
    Ok(SkillFiles { place: directory.join("SKILL.md").display().to_string(), path, files })
}

/// Reads a file, up to one byte more than the limit.
fn contents_of(file: &Path, limit: u64) -> Result<Arc<[u8]>, SkillError> {
    let failed = |error| SkillError::new(file.display(), error);
    let mut contents = Vec::new();
    fs::File::open(file).map_err(failed)?.take(limit.saturating_add(1)).read_to_end(&mut contents).map_err(failed)?;
    Ok(contents.into())
}

/// A recursive directory walk.
struct DirectoryWalk {
    root: PathBuf,
    /// Files, by the path from the root.
    found: BTreeMap<Vec<String>, PathBuf>,
    /// The directories above the current one.
    above: Vec<PathBuf>,
}

impl DirectoryWalk {
    fn enter(&mut self, directory: &Path, path: &mut Vec<String>) -> Result<(), SkillError> {
        if path.len() > MAX_DEPTH {
            return Err(SkillError::new(
                directory.display(),
                format_args!("it is more than {MAX_DEPTH} directories deep"),
            ));
        }
        let failed = |error| SkillError::new(directory.display(), error);
        for entry in fs::read_dir(directory).map_err(failed)? {
            let place = entry.map_err(failed)?.path();
            let Some(name) = place.file_name().and_then(|name| name.to_str()) else {
                return Err(SkillError::new(place.display(), "its name is not UTF-8"));
            };
            if name.starts_with('.') {
                continue;
            }
            path.push(name.to_owned());
            self.visit(&place, path)?;
            path.pop();
        }
        Ok(())
    }

    fn visit(&mut self, place: &Path, path: &mut Vec<String>) -> Result<(), SkillError> {
        let refused = |problem: &str| Err(SkillError::new(place.display(), problem));
        let real = fs::canonicalize(place).map_err(|error| SkillError::new(place.display(), error))?;
        if !real.starts_with(&self.root) {
            return refused("the link points outside the directory of skills");
        }
        let kind = fs::metadata(&real).map_err(|error| SkillError::new(place.display(), error))?.file_type();
        if kind.is_dir() {
            if self.above.contains(&real) {
                return refused("the link points to one of its parent directories");
            }
            self.above.push(real);
            self.enter(place, path)?;
            self.above.pop();
            return Ok(());
        }
        if !kind.is_file() {
            return refused("it is neither a file nor a directory");
        }
        if self.found.len() >= MAX_FILES {
            return refused("there are too many files");
        }
        // The resolved path is read, even if the link changes later.
        self.found.insert(path.clone(), real);
        Ok(())
    }
}

//! A directory for files that only this user may read.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::StoreError;

/// Maximum size of a file, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// A directory with permissions for its owner only. Files are replaced as a whole, and symbolic links are not followed.
///
/// On Windows the permissions are those of the directory above.
#[derive(Debug, Clone)]
pub(super) struct Directory {
    path: PathBuf,
}

/// An exclusive lock on a file. Dropping it releases the lock, as does the end of the process.
#[derive(Debug)]
pub(super) struct FileLock {
    _file: File,
}

impl Directory {
    pub(super) fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    pub(super) fn as_path(&self) -> &Path {
        &self.path
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Creates the directory if it does not exist, and narrows its permissions.
    pub(super) fn create(&self) -> Result<(), StoreError> {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.path).map_err(StoreError::file("create the directory", &self.path))?;
        self.check().map(|_| ())
    }

    /// Returns the content of a file. `None` if there is none, or no directory.
    pub(super) fn read(&self, name: &str) -> Result<Option<Zeroizing<Vec<u8>>>, StoreError> {
        if !self.check()? {
            return Ok(None);
        }
        let path = self.path(name);
        let file = match options().read(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(open_error("read", &path, error)),
        };
        let size = check_file(&file, &path)?;
        if size > MAX_FILE_BYTES {
            return Err(StoreError::Unsafe { path, reason: "file is too large for a login; remove it" });
        }
        // Room for everything at once: a growing buffer leaves copies of its content behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(usize::try_from(size).unwrap_or_default() + 1));
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(StoreError::file("read", &path))?;
        Ok(Some(bytes))
    }

    /// Replaces a file. The caller holds a lock for it. After a crash the file has the old or the new content.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.create()?;
        let path = self.path(name);
        let temporary = self.path(&format!("{name}.tmp"));
        let written = write_temporary(&temporary, bytes).and_then(|()| {
            step("synced");
            fs::rename(&temporary, &path)
        });
        if let Err(error) = written {
            // The first error is the one that matters.
            let _ = fs::remove_file(&temporary);
            return Err(StoreError::file("write", &path)(error));
        }
        step("renamed");
        self.sync()
    }

    /// Removes a file, if it exists.
    pub(super) fn remove(&self, name: &str) -> Result<(), StoreError> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Ok(()) => self.sync(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(StoreError::file("remove", &path)(error)),
        }
    }

    /// Renames a file, if it exists. A file with the new name is replaced.
    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), StoreError> {
        let path = self.path(from);
        match fs::rename(&path, self.path(to)) {
            Ok(()) => self.sync(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(StoreError::file("rename", &path)(error)),
        }
    }

    /// Returns the names of all files that end in `suffix`, without it.
    pub(super) fn names(&self, suffix: &str) -> Result<Vec<String>, StoreError> {
        if !self.check()? {
            return Ok(Vec::new());
        }
        let list = || {
            let names = fs::read_dir(&self.path)?.map(|entry| entry.map(|entry| entry.file_name()));
            names.collect::<io::Result<Vec<_>>>()
        };
        let names = list().map_err(StoreError::file("list", &self.path))?;
        Ok(names.iter().filter_map(|name| name.to_str()?.strip_suffix(suffix)).map(str::to_owned).collect())
    }

    /// Locks a file without waiting. `None` if it is locked. The file stays, as other processes may be about to lock it.
    pub(super) fn try_lock(&self, name: &str) -> Result<Option<FileLock>, StoreError> {
        self.create()?;
        let path = self.path(name);
        let file = match lock_options().read(true).write(true).create(true).truncate(false).open(&path) {
            Ok(file) => file,
            Err(error) if is_shared(&error) => return Ok(None),
            Err(error) => return Err(open_error("open", &path, error)),
        };
        check_file(&file, &path)?;
        let is_locked = try_lock_file(&file).map_err(StoreError::file("lock", &path))?;
        Ok(is_locked.then_some(FileLock { _file: file }))
    }

    /// Checks owner and type of the directory, and narrows its permissions. `false` if there is none.
    fn check(&self) -> Result<bool, StoreError> {
        let metadata = match fs::symlink_metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(StoreError::file("read", &self.path)(error)),
        };
        if !metadata.is_dir() {
            let reason = "not a directory, or a symbolic link to one; use the directory itself";
            return Err(StoreError::Unsafe { path: self.path.clone(), reason });
        }
        #[cfg(unix)]
        unix::check(&metadata, &self.path, 0o700, |permissions| fs::set_permissions(&self.path, permissions))?;
        Ok(true)
    }

    /// Waits until the entries of the directory are on the disk.
    fn sync(&self) -> Result<(), StoreError> {
        // Windows cannot open a directory for that.
        #[cfg(unix)]
        File::open(&self.path)
            .and_then(|directory| directory.sync_all())
            .map_err(StoreError::file("write", &self.path))?;
        Ok(())
    }
}

fn write_temporary(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A process that was killed has left one behind.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = options().write(true).create_new(true).open(path)?;
    step("created");
    let (first, second) = bytes.split_at(bytes.len() / 2);
    file.write_all(first)?;
    step("half-written");
    file.write_all(second)?;
    step("written");
    file.sync_all()
}

/// Checks owner and type of a file, and narrows its permissions. Returns its size.
fn check_file(file: &File, path: &Path) -> Result<u64, StoreError> {
    let metadata = file.metadata().map_err(StoreError::file("read", path))?;
    if !metadata.is_file() {
        return Err(StoreError::Unsafe { path: path.to_owned(), reason: "not a regular file; remove it" });
    }
    #[cfg(unix)]
    unix::check(&metadata, path, 0o600, |permissions| file.set_permissions(permissions))?;
    Ok(metadata.len())
}

fn open_error(operation: &'static str, path: &Path, error: io::Error) -> StoreError {
    // The error for symbolic links differs between systems.
    if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink()) {
        return StoreError::Unsafe {
            path: path.to_owned(),
            reason: "a symbolic link, which is not followed; remove it",
        };
    }
    StoreError::file(operation, path)(error)
}

#[cfg(unix)]
use unix::{is_shared, lock_options, options, try_lock_file};
#[cfg(not(unix))]
use windows::{is_shared, lock_options, options, try_lock_file};

#[cfg(unix)]
mod unix {
    use std::fs::{File, Metadata, OpenOptions, Permissions};
    use std::io;
    use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
    use std::path::Path;

    use rustix::fs::{FlockOperation, OFlags, flock};
    use rustix::io::Errno;

    use super::StoreError;

    /// Options for a file that is not a symbolic link. Opening a named pipe does not wait for its other end.
    pub(super) fn options() -> OpenOptions {
        let mut options = OpenOptions::new();
        options.mode(0o600).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
        options
    }

    pub(super) fn lock_options() -> OpenOptions {
        options()
    }

    pub(super) fn is_shared(_: &io::Error) -> bool {
        false
    }

    /// Locks the open file. `false` if another one has the lock, in this process or another.
    pub(super) fn try_lock_file(file: &File) -> io::Result<bool> {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Checks the owner, and removes permissions of others.
    pub(super) fn check(
        metadata: &Metadata,
        path: &Path,
        mode: u32,
        narrow: impl FnOnce(Permissions) -> io::Result<()>,
    ) -> Result<(), StoreError> {
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(StoreError::Unsafe {
                path: path.to_owned(),
                reason: "belongs to another user; use a directory of your own",
            });
        }
        if metadata.mode() & 0o077 != 0 {
            tracing::warn!(path = %path.display(), "other users had access to a file of the login store; removing their access");
            narrow(Permissions::from_mode(mode)).map_err(StoreError::file("narrow the permissions of", path))?;
        }
        Ok(())
    }
}

#[cfg(not(unix))]
mod windows {
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::os::windows::fs::OpenOptionsExt as _;

    /// `FILE_FLAG_OPEN_REPARSE_POINT`: opens a symbolic link itself.
    const OPEN_REPARSE_POINT: u32 = 0x0020_0000;

    /// `ERROR_SHARING_VIOLATION`: another process has the file open.
    const SHARING_VIOLATION: i32 = 32;

    pub(super) fn options() -> OpenOptions {
        let mut options = OpenOptions::new();
        options.custom_flags(OPEN_REPARSE_POINT);
        options
    }

    /// Options for a file that is open only once: that is the lock.
    pub(super) fn lock_options() -> OpenOptions {
        let mut options = options();
        options.share_mode(0);
        options
    }

    pub(super) fn is_shared(error: &io::Error) -> bool {
        error.raw_os_error() == Some(SHARING_VIOLATION)
    }

    pub(super) fn try_lock_file(_: &File) -> io::Result<bool> {
        Ok(true)
    }
}

/// A step of a write, at which tests end the process.
#[cfg(not(test))]
fn step(_: &str) {}

#[cfg(test)]
use super::file::tests::step;

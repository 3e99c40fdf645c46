use std::fs;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::UNIX_EPOCH;

use super::*;
use crate::store::contract;

/// Environment variable with the step at which [`step`] aborts the process.
const ABORT_AT: &str = "TURMS_TEST_ABORT_AT";

/// Environment variable with the directory of [`a_process_that_is_aborted_while_it_saves`].
const DIRECTORY: &str = "TURMS_TEST_DIRECTORY";

/// Aborts the process at a step of a write, if a test has asked for it.
pub(in crate::store) fn step(name: &str) {
    if std::env::var_os(ABORT_AT).is_some_and(|step| step == name) {
        std::process::abort();
    }
}

/// A directory that is removed with everything in it.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("turms-oauth-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self) -> PathBuf {
        self.0.join("logins")
    }

    /// Opens a store with a key of its own, as each process does.
    fn store(&self) -> FileStore {
        FileStore::at(self.path()).key([7; 32])
    }

    /// Returns the path of the file of a login.
    fn login_path(&self, key: &LoginKey) -> PathBuf {
        self.path().join(format!("{}{LOGIN}", key.id()))
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn key(profile: &str) -> LoginKey {
    LoginKey::new(&"https://mcp.example.com/secret-path".parse().unwrap(), profile)
}

fn login(token: &str) -> StoredLogin {
    let client = StoredClient::new("https://auth.example.com", "agent");
    StoredLogin::new(token, UNIX_EPOCH + Duration::from_secs(1), "https://auth.example.com/token", client)
}

async fn save(store: &FileStore, key: &LoginKey, token: &str) {
    store.lock(key).await.unwrap().save(&login(token)).await.unwrap();
}

async fn token(store: &FileStore, key: &LoginKey) -> Option<String> {
    store.load(key).await.unwrap().map(|login| login.access_token.expose().to_owned())
}

#[tokio::test]
async fn the_contract_is_kept() {
    let directory = TestDirectory::new();
    contract::check(&directory.store()).await;
    contract::check_shared(&directory.store(), &directory.store()).await;
    contract::check_lock_timeout(&directory.store().lock_timeout(Duration::from_millis(20))).await;
    // Also with the key in the directory, which the handles have to share.
    let keyless = TestDirectory::new();
    contract::check_shared(&FileStore::at(keyless.path()), &FileStore::at(keyless.path())).await;
}

#[tokio::test]
async fn a_store_that_is_only_read_creates_nothing() {
    let directory = TestDirectory::new();
    assert_eq!(token(&directory.store(), &key("")).await, None);
    assert!(directory.store().list().await.unwrap().is_empty());
    assert!(!directory.path().exists());
}

#[tokio::test]
async fn files_show_neither_tokens_nor_servers() {
    let directory = TestDirectory::new();
    let store = FileStore::at(directory.path());
    save(&store, &key("profile-1"), "token-1").await;
    let mut client = StoredClient::new("https://auth.example.com", "client-1");
    client.client_secret = Some("secret-1".into());
    store.save_client("profile-1", &client).await.unwrap();
    for name in directory.names() {
        let content = fs::read(directory.path().join(&name)).unwrap();
        let shown = format!("{name} {}", String::from_utf8_lossy(&content));
        for secret in ["token-1", "example.com", "secret-path", "profile-1", "client-1", "secret-1"] {
            assert!(!shown.contains(secret), "{name} shows {secret}");
        }
    }
    let files = format!("{:?} {:?}", directory.store(), store);
    assert!(!files.contains("7, 7"), "{files}");
}

#[tokio::test]
async fn equal_logins_have_different_files() {
    let directory = TestDirectory::new();
    let (store, path) = (directory.store(), directory.login_path(&key("")));
    save(&store, &key(""), "same").await;
    let first = fs::read(&path).unwrap();
    save(&store, &key(""), "same").await;
    assert_ne!(fs::read(&path).unwrap(), first, "a nonce is used twice");
}

#[tokio::test]
async fn a_damaged_file_counts_as_logged_out_and_is_kept() {
    let directory = TestDirectory::new();
    let (store, path) = (directory.store(), directory.login_path(&key("")));
    save(&store, &key(""), "token").await;
    let intact = fs::read(&path).unwrap();
    let mut damaged: Vec<Vec<u8>> = (0..intact.len()).step_by(7).map(|length| intact[..length].to_vec()).collect();
    damaged.extend((0..intact.len()).map(|at| {
        let mut bytes = intact.clone();
        bytes[at] ^= 1;
        bytes
    }));
    damaged.push([&intact[..], b"x"].concat());
    for bytes in damaged {
        fs::write(&path, &bytes).unwrap();
        assert_eq!(token(&store, &key("")).await, None);
        assert!(store.list().await.unwrap().is_empty());
        assert_eq!(fs::read(&path).unwrap(), bytes, "a damaged file is changed by reading it");
    }
    save(&store, &key(""), "next").await;
    assert_eq!(token(&store, &key("")).await.as_deref(), Some("next"));
    let kept = fs::read(path.with_extension("login.damaged")).unwrap();
    assert_eq!(kept, [&intact[..], b"x"].concat(), "the damaged file is lost");
    store.lock(&key("")).await.unwrap().clear().await.unwrap();
    assert!(directory.names().iter().all(|name| name.ends_with(".lock")), "{:?}", directory.names());
}

#[tokio::test]
async fn a_file_of_another_login_key_or_version_is_not_read() {
    let directory = TestDirectory::new();
    let store = directory.store();
    save(&store, &key(""), "mine").await;
    let mine = fs::read(directory.login_path(&key(""))).unwrap();

    fs::write(directory.login_path(&key("other")), &mine).unwrap();
    assert_eq!(token(&store, &key("other")).await, None, "the file of another login is read");
    let client = directory.path().join(format!("{}{CLIENT}", key("").id()));
    fs::write(client, &mine).unwrap();

    let stranger = FileStore::at(directory.path()).key([8; 32]);
    assert_eq!(token(&stranger, &key("")).await, None, "a file is read with another key");
    assert_eq!(token(&store, &key("")).await.as_deref(), Some("mine"), "reading with another key has lost the login");

    let mut next = mine.clone();
    next[MAGIC.len() - 1] += 1;
    fs::write(directory.login_path(&key("")), &next).unwrap();
    assert_eq!(token(&store, &key("")).await, None, "a file of another version is read");
}

#[tokio::test]
async fn a_damaged_key_is_an_error_and_is_not_replaced() {
    let directory = TestDirectory::new();
    save(&FileStore::at(directory.path()), &key(""), "token").await;
    let path = directory.path().join("key");
    fs::write(&path, "damaged").unwrap();
    let store = FileStore::at(directory.path());
    let error = store.load(&key("")).await.unwrap_err().to_string();
    assert!(error.contains("key is damaged; restore it, or remove it and log in again"), "{error}");
    let mut lock = store.lock(&key("")).await.unwrap();
    assert!(lock.save(&login("other")).await.is_err());
    assert_eq!(fs::read(&path).unwrap(), b"damaged");
    // Without the key, the login cannot be read any more; another one can be saved.
    fs::remove_file(&path).unwrap();
    assert!(lock.load().await.unwrap().is_none());
    lock.save(&login("other")).await.unwrap();
    drop(lock);
    assert_eq!(token(&FileStore::at(directory.path()), &key("")).await.as_deref(), Some("other"));
}

#[tokio::test]
async fn a_file_that_is_too_large_is_an_error() {
    let directory = TestDirectory::new();
    save(&directory.store(), &key(""), "token").await;
    let file = fs::File::options().write(true).open(directory.login_path(&key(""))).unwrap();
    file.set_len(64 * 1024 * 1024).unwrap();
    let error = directory.store().load(&key("")).await.unwrap_err().to_string();
    assert!(error.contains("file is too large for a login; remove it"), "{error}");
}

#[tokio::test]
async fn a_save_whose_future_is_dropped_ends_before_the_lock_is_free() {
    let directory = TestDirectory::new();
    let store = directory.store();
    let mut lock = store.lock(&key("")).await.unwrap();
    {
        let login = login("token");
        let mut save = std::pin::pin!(lock.save(&login));
        std::future::poll_fn(|cx| {
            let _ = save.as_mut().poll(cx);
            std::task::Poll::Ready(())
        })
        .await;
    }
    drop(lock);
    let found = store.lock(&key("")).await.unwrap().load().await.unwrap();
    assert_eq!(found, Some(login("token")));
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[tokio::test]
    async fn only_the_owner_has_access() {
        let directory = TestDirectory::new();
        let store = FileStore::at(directory.path());
        save(&store, &key(""), "token").await;
        store.save_client("", &StoredClient::new("https://auth.example.com", "agent")).await.unwrap();
        assert_eq!(mode(&directory.path()), 0o700);
        assert!(directory.names().len() >= 5, "{:?}", directory.names());
        for name in directory.names() {
            assert_eq!(mode(&directory.path().join(&name)), 0o600, "{name}");
        }
    }

    #[tokio::test]
    async fn wider_permissions_are_narrowed_before_reading() {
        let directory = TestDirectory::new();
        save(&FileStore::at(directory.path()), &key(""), "token").await;
        let files = [directory.path().join("key"), directory.login_path(&key(""))];
        set_mode(&directory.path(), 0o777);
        files.iter().for_each(|path| set_mode(path, 0o644));
        assert_eq!(token(&FileStore::at(directory.path()), &key("")).await.as_deref(), Some("token"));
        assert_eq!(mode(&directory.path()), 0o700);
        for path in files {
            assert_eq!(mode(&path), 0o600, "{path:?}");
        }
    }

    #[tokio::test]
    async fn a_directory_of_another_user_is_refused() {
        let directory = TestDirectory::new();
        save(&directory.store(), &key(""), "token").await;
        // Root can give its directory away; others have none of root to begin with.
        let path = match std::os::unix::fs::chown(directory.path(), Some(12345), None) {
            Ok(()) => directory.path(),
            Err(_) => PathBuf::from("/"),
        };
        let store = FileStore::at(path).key([7; 32]);
        let error = store.load(&key("")).await.unwrap_err().to_string();
        assert!(error.ends_with("belongs to another user; use a directory of your own"), "{error}");
        assert!(matches!(store.lock(&key("")).await.map(|_| ()), Err(StoreError::Unsafe { .. })));
    }

    #[tokio::test]
    async fn symbolic_links_are_not_followed() {
        let directory = TestDirectory::new();
        save(&directory.store(), &key(""), "token").await;
        let link = directory.0.join("link");
        symlink(directory.path(), &link).unwrap();
        let error = FileStore::at(&link).key([7; 32]).load(&key("")).await.unwrap_err().to_string();
        assert!(error.ends_with("use the directory itself"), "{error}");

        let (path, target) = (directory.login_path(&key("")), directory.0.join("target"));
        fs::rename(&path, &target).unwrap();
        symlink(&target, &path).unwrap();
        let error = directory.store().load(&key("")).await.unwrap_err().to_string();
        assert!(error.ends_with("a symbolic link, which is not followed; remove it"), "{error}");
        let before = fs::read(&target).unwrap();
        let saved = directory.store().lock(&key("")).await.unwrap().save(&login("other")).await;
        assert!(saved.is_err());
        assert_eq!(fs::read(&target).unwrap(), before, "the target of a link is overwritten");

        let lock = directory.path().join(format!("{}{LOCK}", key("").id()));
        fs::remove_file(&lock).unwrap();
        symlink(&target, &lock).unwrap();
        assert!(matches!(directory.store().lock(&key("")).await.map(|_| ()), Err(StoreError::Unsafe { .. })));
    }

    #[tokio::test]
    async fn a_named_pipe_is_refused_without_waiting_for_its_other_end() {
        let directory = TestDirectory::new();
        save(&directory.store(), &key(""), "token").await;
        let path = directory.login_path(&key(""));
        fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let error = directory.store().load(&key("")).await.unwrap_err().to_string();
        assert!(error.ends_with("not a regular file; remove it"), "{error}");
    }
}

#[tokio::test]
async fn only_one_login_is_locked_and_a_timeout_names_the_reason() {
    let directory = TestDirectory::new();
    let store = directory.store();
    save(&store, &key(""), "before").await;
    let lock = store.lock(&key("")).await.unwrap();
    let other = directory.store().lock_timeout(Duration::from_millis(30));
    let error = other.lock(&key("")).await.map(|_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot lock the login: another task or process has held the lock for 30 ms; try again when it has finished"
    );
    assert_eq!(token(&other, &key("")).await.as_deref(), Some("before"), "a locked login cannot be read");
    save(&other, &key("other"), "token").await;
    drop(lock);
    save(&other, &key(""), "after").await;
}

/// Saves a login in another process, which ends as the environment says. Does nothing without it.
#[tokio::test]
async fn a_process_that_is_aborted_while_it_saves() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    save(&FileStore::at(directory), &key(""), "second").await;
}

/// Runs [`a_process_that_is_aborted_while_it_saves`].
fn abort_at(step: &str, directory: &TestDirectory) -> ExitStatus {
    let test = "store::file::tests::a_process_that_is_aborted_while_it_saves";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test]).env(ABORT_AT, step).env(DIRECTORY, directory.path());
    command.output().unwrap().status
}

const STEPS: [&str; 6] = ["created", "half-written", "written", "synced", "renamed", "none"];

#[tokio::test]
async fn a_process_that_dies_while_it_saves_leaves_the_old_or_the_new_login() {
    for at in STEPS {
        let directory = TestDirectory::new();
        save(&FileStore::at(directory.path()), &key(""), "first").await;
        save(&FileStore::at(directory.path()), &key("other"), "untouched").await;
        assert_eq!(abort_at(at, &directory).success(), at == "none", "{at}");
        let store = FileStore::at(directory.path()).lock_timeout(Duration::from_secs(1));
        let expected = if matches!(at, "renamed" | "none") { "second" } else { "first" };
        assert_eq!(token(&store, &key("")).await.as_deref(), Some(expected), "{at}");
        assert_eq!(token(&store, &key("other")).await.as_deref(), Some("untouched"), "{at}");
        assert_eq!(store.list().await.unwrap().len(), 2, "{at}");
        // The lock has ended with the process.
        save(&store, &key(""), "third").await;
        assert_eq!(token(&store, &key("")).await.as_deref(), Some("third"), "{at}");
        assert!(!directory.names().iter().any(|name| name.ends_with(".tmp")), "{at}: {:?}", directory.names());
    }
}

#[tokio::test]
async fn a_process_that_dies_while_it_creates_the_store_leaves_a_store_that_works() {
    for at in STEPS {
        let directory = TestDirectory::new();
        assert_eq!(abort_at(at, &directory).success(), at == "none", "{at}");
        let store = FileStore::at(directory.path()).lock_timeout(Duration::from_secs(1));
        let found = token(&store, &key("")).await;
        assert_eq!(found.as_deref(), (at == "none").then_some("second"), "{at}");
        save(&store, &key(""), "third").await;
        assert_eq!(token(&FileStore::at(directory.path()), &key("")).await.as_deref(), Some("third"), "{at}");
    }
}

#[test]
fn the_directory_is_that_of_the_user() {
    let directory = |variables: &[(&str, &str)]| {
        default_directory(|name| variables.iter().find(|(own, _)| *own == name).map(|(_, value)| value.into()))
    };
    if cfg!(all(unix, not(target_os = "macos"))) {
        let home = ("HOME", "/home/ann");
        let found = |variables: &[(&str, &str)]| directory(variables).unwrap();
        assert_eq!(found(&[home]), Path::new("/home/ann/.local/share/turms/logins"));
        assert_eq!(found(&[home, ("XDG_DATA_HOME", "/data")]), Path::new("/data/turms/logins"));
        // The specification of XDG demands that relative paths are ignored.
        assert_eq!(found(&[home, ("XDG_DATA_HOME", "data")]), Path::new("/home/ann/.local/share/turms/logins"));
    }
    let error = directory(&[]).unwrap_err().to_string();
    assert!(error.ends_with("is not set; set it, or use FileStore::at"), "{error}");
}

/// There is no service for the keyring at this address. With another address, the entries of the user would be changed.
#[cfg(all(feature = "keyring", target_os = "linux"))]
#[tokio::test]
async fn a_machine_without_a_keyring_gets_an_error_that_says_what_to_do() {
    const MARK: &str = "TURMS_TEST_KEYRING";
    if std::env::var_os(MARK).is_none() {
        // The address of the service is read once in a process.
        let test = "store::file::tests::a_machine_without_a_keyring_gets_an_error_that_says_what_to_do";
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test]).env(MARK, "1").env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/none/bus");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let directory = TestDirectory::new();
    let store = FileStore::at(directory.path()).keyring();
    let error = store.lock(&key("")).await.unwrap().save(&login("token")).await.unwrap_err().to_string();
    assert!(error.contains("the keyring of the system cannot be used: "), "{error}");
    assert!(error.ends_with("FileStore::key, or the environment variable TURMS_KEY"), "{error}");
    assert!(directory.names().iter().all(|name| name.ends_with(".lock")), "{:?}", directory.names());
}

#[test]
fn defaults_are_as_documented() {
    use turms_defaults::{assert_documented, time, when};

    let store = FileStore::at("/logins");
    let code = [
        (
            "FileStore::key",
            when(
                matches!(store.files.source, KeySource::Environment),
                "the environment variable `TURMS_KEY`, otherwise the file `key` in the directory",
            ),
        ),
        ("FileStore::lock_timeout", time(store.lock_timeout)),
    ];
    assert_documented(include_str!("../file.rs"), &code);
}

#[cfg(unix)]
#[tokio::test]
async fn nothing_of_a_new_store_is_open_to_others_for_a_moment() {
    let (log, _recording) = turms_testkit::TraceEvents::record_all();
    let directory = TestDirectory::new();
    let files = Directory::new(directory.path());
    files.write("one.login", b"secret").unwrap();
    drop(files.try_lock("one.lock").unwrap());
    assert!(files.read("one.login").unwrap().is_some());
    // A directory or a file that others could open is closed to them, with a warning.
    let warnings: Vec<_> = log.take().into_iter().map(|event| format!("{:?}", event.fields)).collect();
    assert!(warnings.is_empty(), "{warnings:?}");
}

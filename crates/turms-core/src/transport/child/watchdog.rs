//! Who ends a group in our place when we are killed.
//!
//! No process can act on its own SIGKILL, and what the system offers instead (`PR_SET_PDEATHSIG`) is Linux only, is bound to
//! the thread that started the child, and needs `unsafe`. So a small shell waits at the end of a pipe of which only we hold
//! the other end. We never write to it: when the shell reads anything, it is the end of the pipe, and so of us.

pub(super) use self::platform::Watchdog;

#[cfg(unix)]
mod platform {
    use std::io;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command, Stdio};
    use std::sync::Once;
    use std::time::Duration;

    /// The same steps as ours, for the group `$1`: the end of its input, which has come with our own end; after `$2` tenths
    /// of a second SIGTERM, after `$3` more SIGKILL. A group that is gone is never sent anything: by then its number may be
    /// another's.
    ///
    /// Not every shell takes a `--` before the number of a group, and not every `sleep` knows fractions.
    const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
leaves() {
    tenths=$1
    while [ "$tenths" -gt 0 ]; do
        kill -0 "-$group" || exit 0
        sleep 0.1 || sleep 1
        tenths=$((tenths - 1))
    done
}
group=$1
read -r _
leaves "$2"
kill -TERM "-$group" || exit 0
leaves "$3"
kill -KILL "-$group"
"#;

    /// A shell that ends a group when we are gone.
    #[derive(Debug)]
    pub(in super::super) struct Watchdog {
        /// Holds our end of the pipe, too.
        shell: Child,
    }

    impl Watchdog {
        /// Has the group watched, if that is possible. A child is worth having even if it is not.
        pub(in super::super) fn start(group: u32, exit_timeout: Duration, term_timeout: Duration) -> Option<Self> {
            static WARNED: Once = Once::new();
            Self::spawn(group, exit_timeout, term_timeout)
                .inspect_err(|error| {
                    WARNED.call_once(|| {
                        tracing::warn!(
                            target: "turms::child",
                            %error,
                            "cannot start /bin/sh to watch over child processes: they may outlive this one if it is killed",
                        );
                    });
                })
                .ok()
        }

        fn spawn(group: u32, exit_timeout: Duration, term_timeout: Duration) -> io::Result<Self> {
            let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
            // In a group of its own and at the root: what befalls our terminal or our directory does not concern it.
            let shell = Command::new("/bin/sh")
                .args(["-c", SCRIPT, "turms-watchdog"])
                .args([group.to_string(), tenths(exit_timeout), tenths(term_timeout)])
                .env_clear()
                .env("PATH", path)
                .current_dir("/")
                .process_group(0)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?;
            Ok(Self { shell })
        }

        /// Sends it away. True once it is gone and reaped; until then, ask again.
        pub(in super::super) fn leave(&mut self) -> bool {
            // The signal comes before the end of the pipe, which the shell would take for our end.
            let killed = self.shell.kill();
            killed.is_err() || !matches!(self.shell.try_wait(), Ok(None))
        }

        /// Sends it away and waits, which is a matter of a moment.
        pub(in super::super) fn leave_now(mut self) {
            if !self.leave() {
                let _ = self.shell.wait();
            }
        }
    }

    /// At most an hour, so that every shell can count it.
    fn tenths(timeout: Duration) -> String {
        timeout.as_millis().div_ceil(100).min(36_000).to_string()
    }
}

#[cfg(not(unix))]
mod platform {
    use std::time::Duration;

    /// There is none.
    #[derive(Debug)]
    pub(in super::super) enum Watchdog {}

    impl Watchdog {
        pub(in super::super) fn start(_: u32, _: Duration, _: Duration) -> Option<Self> {
            None
        }

        pub(in super::super) fn leave(&mut self) -> bool {
            match *self {}
        }

        pub(in super::super) fn leave_now(self) {
            match self {}
        }
    }
}

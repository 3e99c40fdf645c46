//! Ends a process group when this process is killed.
//!
//! No process can handle its own SIGKILL, and `PR_SET_PDEATHSIG` is Linux only, is bound to the thread that started the child, and needs
//! `unsafe`. So a small shell reads from a pipe that only this process can write to. Nothing is ever written: when the read returns, this
//! process has exited.

pub(super) use self::platform::Watchdog;

#[cfg(unix)]
mod platform {
    use std::io;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command, Stdio};
    use std::sync::Once;
    use std::time::Duration;

    /// The same steps as those of the supervisor, for the group `$1`. Its input is closed with this process; after `$2` tenths of a second it
    /// receives SIGTERM, after `$3` more SIGKILL. A group that has exited is not signalled, because its id may be reused.
    ///
    /// Not every shell accepts a `--` before the id of a group, and not every `sleep` supports fractions.
    const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
wait_for_exit() {
    tenths=$1
    while [ "$tenths" -gt 0 ]; do
        kill -0 "-$group" || exit 0
        sleep 0.1 || sleep 1
        tenths=$((tenths - 1))
    done
}
group=$1
read -r _
wait_for_exit "$2"
kill -TERM "-$group" || exit 0
wait_for_exit "$3"
kill -KILL "-$group"
"#;

    /// A shell that ends a process group after this process has exited.
    #[derive(Debug)]
    pub(in super::super) struct Watchdog {
        /// It holds the write end of the pipe.
        shell: Child,
    }

    impl Watchdog {
        /// Starts a watchdog, if possible. Failure is logged once; the child runs without it.
        pub(in super::super) fn start(group: u32, exit_timeout: Duration, kill_timeout: Duration) -> Option<Self> {
            static WARNED: Once = Once::new();
            Self::spawn(group, exit_timeout, kill_timeout)
                .inspect_err(|error| {
                    WARNED.call_once(|| {
                        tracing::warn!(
                            target: "turms::child",
                            %error,
                            "cannot start /bin/sh as a watchdog: child processes may outlive this one if it is killed",
                        );
                    });
                })
                .ok()
        }

        fn spawn(group: u32, exit_timeout: Duration, kill_timeout: Duration) -> io::Result<Self> {
            let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
            // In its own group and at the root, so that it depends neither on the terminal nor on the directory.
            let shell = Command::new("/bin/sh")
                .args(["-c", SCRIPT, "turms-watchdog"])
                .args([group.to_string(), tenths(exit_timeout), tenths(kill_timeout)])
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

        /// Stops the shell. Returns `true` once it is reaped; until then, call it again.
        pub(in super::super) fn stop(&mut self) -> bool {
            // Killed before the pipe is closed, because the shell would act on that.
            let killed = self.shell.kill();
            killed.is_err() || !matches!(self.shell.try_wait(), Ok(None))
        }

        /// Stops the shell and waits until it has exited.
        pub(in super::super) fn stop_and_wait(mut self) {
            if !self.stop() {
                let _ = self.shell.wait();
            }
        }
    }

    /// The timeout in tenths of a second, at most an hour.
    fn tenths(timeout: Duration) -> String {
        timeout.as_millis().div_ceil(100).min(36_000).to_string()
    }
}

#[cfg(not(unix))]
mod platform {
    use std::time::Duration;

    /// Not supported.
    #[derive(Debug)]
    pub(in super::super) enum Watchdog {}

    impl Watchdog {
        pub(in super::super) fn start(_: u32, _: Duration, _: Duration) -> Option<Self> {
            None
        }

        pub(in super::super) fn stop(&mut self) -> bool {
            match *self {}
        }

        pub(in super::super) fn stop_and_wait(self) {
            match self {}
        }
    }
}

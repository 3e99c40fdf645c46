//! Tells process groups with running members from groups of zombies only.
//!
//! A process that has exited is a member of its group until its parent has reaped it. The parent of an orphan is the init process, and in
//! a container that is often a program that reaps late or never. Signal 0 does not tell such a group from a running one; the process
//! table does.

pub(super) use self::platform::ProcessTable;

#[cfg(target_os = "linux")]
mod platform {
    use std::fs;

    /// Looks up processes in `/proc`.
    #[derive(Debug, Default)]
    pub(in super::super) struct ProcessTable {
        /// A member that was running at the last search. As long as it runs, no other process needs to be read.
        running: Option<i32>,
    }

    impl ProcessTable {
        /// Returns `true` if the group has members and all are zombies; `false` if that is not known.
        pub(in super::super) fn has_only_zombies(&mut self, group: i32) -> bool {
            if self.running.and_then(ProcessStat::of).is_some_and(|process| process.runs_in(group)) {
                return false;
            }
            let (mut has_zombies, mut running) = (false, None);
            for id in ids() {
                match ProcessStat::of(id) {
                    Some(process) if process.runs_in(group) => running = Some(id),
                    Some(process) => has_zombies |= process.group == group,
                    None => {}
                }
            }
            self.running = running;
            has_zombies && running.is_none()
        }
    }

    fn ids() -> impl Iterator<Item = i32> {
        let names = fs::read_dir("/proc").into_iter().flatten().flatten();
        names.filter_map(|name| name.file_name().to_str()?.parse().ok())
    }

    #[derive(Debug, PartialEq, Eq)]
    struct ProcessStat {
        state: u8,
        group: i32,
    }

    impl ProcessStat {
        fn of(id: i32) -> Option<Self> {
            Self::parse(&fs::read(format!("/proc/{id}/stat")).ok()?)
        }

        /// Parses `1 (name) S 0 1 …`: id, name, state, parent, group. The name may contain brackets and spaces.
        fn parse(stat: &[u8]) -> Option<Self> {
            let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
            let mut fields = str::from_utf8(&stat[name_ends + 1..]).ok()?.split_ascii_whitespace();
            let state = *fields.next()?.as_bytes().first()?;
            let group = fields.nth(1)?.parse().ok()?;
            Some(Self { state, group })
        }

        fn runs_in(&self, group: i32) -> bool {
            self.group == group && !matches!(self.state, b'Z' | b'X')
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_process_is_parsed_whatever_its_name() {
            let process = Some(ProcessStat { state: b'Z', group: 42 });
            assert_eq!(ProcessStat::parse(b"7 (sh) Z 1 42 42 0 -1"), process);
            assert_eq!(ProcessStat::parse(b"7 (a) S 1 2 (\xff) Z 1 42 42 0 -1\n"), process);
            assert_eq!(ProcessStat::parse(b"7 (sh"), None);
            assert_eq!(ProcessStat::parse(b"7 (sh) Z 1"), None);
        }

        #[test]
        fn this_process_runs_and_an_unused_group_is_empty() {
            let own = ProcessStat::of(std::process::id().try_into().unwrap()).unwrap();
            let mut table = ProcessTable::default();

            assert!(own.runs_in(own.group));
            assert!(!table.has_only_zombies(own.group));
            assert!(table.running.is_some());
            assert!(!table.has_only_zombies(i32::MAX));
            assert_eq!(table.running, None);
        }
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
mod platform {
    /// Other systems have no process table that can be read without `unsafe`.
    #[derive(Debug, Default)]
    pub(in super::super) struct ProcessTable {}

    impl ProcessTable {
        pub(in super::super) fn has_only_zombies(&mut self, _: i32) -> bool {
            false
        }
    }
}

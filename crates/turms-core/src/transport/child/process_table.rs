//! Who of a group lives.
//!
//! A process that has ended counts as a member of its group until its parent has reaped it. Once orphaned, that is the first
//! process of the system, and in a container that is often a program which reaps late or never. The system does not tell
//! such a group from one that lives, but its table of processes does.

pub(super) use self::platform::Census;

#[cfg(target_os = "linux")]
mod platform {
    use std::fs;

    /// Looks through the table of processes.
    #[derive(Debug, Default)]
    pub(in super::super) struct Census {
        /// Somebody who lived when we last looked: as long as that one does, the rest need not be asked.
        living: Option<i32>,
    }

    impl Census {
        /// Whether there are members, and none of them lives. False if there is no telling.
        pub(in super::super) fn finds_only_dead(&mut self, group: i32) -> bool {
            if self.living.and_then(Entry::of).is_some_and(|entry| entry.lives_in(group)) {
                return false;
            }
            let (mut dead, mut living) = (false, None);
            for id in ids() {
                match Entry::of(id) {
                    Some(entry) if entry.lives_in(group) => living = Some(id),
                    Some(entry) => dead |= entry.group == group,
                    None => {}
                }
            }
            self.living = living;
            dead && living.is_none()
        }
    }

    fn ids() -> impl Iterator<Item = i32> {
        let names = fs::read_dir("/proc").into_iter().flatten().flatten();
        names.filter_map(|name| name.file_name().to_str()?.parse().ok())
    }

    #[derive(Debug, PartialEq, Eq)]
    struct Entry {
        state: u8,
        group: i32,
    }

    impl Entry {
        fn of(id: i32) -> Option<Self> {
            Self::parse(&fs::read(format!("/proc/{id}/stat")).ok()?)
        }

        /// `1 (name) S 0 1 …`: id, name, state, parent, group. The name may hold anything, brackets and spaces included.
        fn parse(stat: &[u8]) -> Option<Self> {
            let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
            let mut fields = str::from_utf8(&stat[name_ends + 1..]).ok()?.split_ascii_whitespace();
            let state = *fields.next()?.as_bytes().first()?;
            let group = fields.nth(1)?.parse().ok()?;
            Some(Self { state, group })
        }

        fn lives_in(&self, group: i32) -> bool {
            self.group == group && !matches!(self.state, b'Z' | b'X')
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn an_entry_is_read_whatever_the_name() {
            let entry = Some(Entry { state: b'Z', group: 42 });
            assert_eq!(Entry::parse(b"7 (sh) Z 1 42 42 0 -1"), entry);
            assert_eq!(Entry::parse(b"7 (a) S 1 2 (\xff) Z 1 42 42 0 -1\n"), entry);
            assert_eq!(Entry::parse(b"7 (sh"), None);
            assert_eq!(Entry::parse(b"7 (sh) Z 1"), None);
        }

        #[test]
        fn we_live_and_nobody_is_in_a_group_that_is_none() {
            let us = Entry::of(std::process::id().try_into().unwrap()).unwrap();
            let mut census = Census::default();

            assert!(us.lives_in(us.group));
            assert!(!census.finds_only_dead(us.group));
            assert!(census.living.is_some());
            assert!(!census.finds_only_dead(i32::MAX));
            assert_eq!(census.living, None);
        }
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
mod platform {
    /// There is no table that could be read without `unsafe`.
    #[derive(Debug, Default)]
    pub(in super::super) struct Census {}

    impl Census {
        pub(in super::super) fn finds_only_dead(&mut self, _: i32) -> bool {
            false
        }
    }
}

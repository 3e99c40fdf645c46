/// The strategy of a [`Pool`](crate::Pool) for choosing the member of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum PoolStrategy {
    /// The members take turns.
    #[default]
    RoundRobin,
    /// A random member.
    Random,
    /// The member with the fewest calls in flight. An [acquired](crate::Pool::acquire) client counts as one call.
    /// Members with equal load take turns.
    LeastLoaded,
}

impl PoolStrategy {
    /// Returns the index of the chosen candidate. `busy` is the load of each candidate, `turn` the position of the
    /// round robin.
    pub(super) fn choose(self, busy: &[usize], turn: &mut usize) -> Option<usize> {
        if self == Self::Random {
            return (!busy.is_empty()).then(|| fastrand::usize(..busy.len()));
        }
        let least = busy.iter().min()?;
        let equal = |busy: &usize| self == Self::RoundRobin || busy == least;
        let count = busy.iter().filter(|busy| equal(busy)).count();
        let chosen = *turn % count;
        *turn = turn.wrapping_add(1);
        busy.iter().enumerate().filter(|(_, busy)| equal(busy)).map(|(index, _)| index).nth(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(strategy: PoolStrategy, busy: &[usize], times: usize) -> Vec<usize> {
        let mut turn = 0;
        (0..times).map(|_| strategy.choose(busy, &mut turn).unwrap()).collect()
    }

    #[test]
    fn round_robin_ignores_the_load() {
        assert_eq!(chosen(PoolStrategy::RoundRobin, &[9, 0, 5], 5), [0, 1, 2, 0, 1]);
    }

    #[test]
    fn the_least_loaded_is_chosen_and_equals_take_turns() {
        assert_eq!(chosen(PoolStrategy::LeastLoaded, &[2, 1, 3], 3), [1, 1, 1]);
        assert_eq!(chosen(PoolStrategy::LeastLoaded, &[0, 1, 0], 4), [0, 2, 0, 2]);
    }

    #[test]
    fn random_reaches_every_member() {
        let mut seen = chosen(PoolStrategy::Random, &[0, 0, 0], 200);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [0, 1, 2]);
    }

    #[test]
    fn without_members_none_is_chosen() {
        for strategy in [PoolStrategy::RoundRobin, PoolStrategy::Random, PoolStrategy::LeastLoaded] {
            assert_eq!(strategy.choose(&[], &mut 0), None);
        }
    }
}

//! Measured figures, and ratios within a round.

use std::collections::BTreeMap;

use super::cell::{Candidate, Cell};

/// Figures of one run, by name.
pub(super) type Figures = BTreeMap<String, f64>;

/// Figures of all candidates under all loads, in all rounds.
#[derive(Default)]
pub(super) struct Measured(BTreeMap<&'static str, Vec<BTreeMap<Candidate, Figures>>>);

/// One figure of one candidate under one load.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) cell: &'a Cell,
    pub(super) who: Candidate,
    pub(super) figure: &'static str,
}

impl Measured {
    pub(super) fn add(&mut self, cell: &'static Cell, round: BTreeMap<Candidate, Figures>) {
        self.0.entry(cell.name).or_default().push(round);
    }

    /// Returns the figure of every round.
    fn values(&self, place: Place<'_>) -> Vec<Option<f64>> {
        let rounds = self.0.get(place.cell.name).map(Vec::as_slice).unwrap_or_default();
        rounds.iter().map(|round| round.get(&place.who)?.get(place.figure).copied()).collect()
    }

    pub(super) fn median(&self, place: Place<'_>) -> Option<f64> {
        median(self.values(place).into_iter().flatten().collect())
    }

    /// Returns the median of the ratios of two figures within a round.
    pub(super) fn ratio(&self, one: Place<'_>, other: Place<'_>) -> Option<f64> {
        let pairs = self.values(one).into_iter().zip(self.values(other));
        median(pairs.filter_map(|(one, other)| Some(one? / other?.max(1.0))).collect())
    }
}

/// Reads `name=value` words.
pub(super) fn read(line: &str) -> Figures {
    let figure = |word: &str| {
        let (name, value) = word.split_once('=')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    line.split_whitespace().filter_map(figure).collect()
}

pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::super::cell::STATELESS;
    use super::*;

    #[test]
    fn figures_are_read_by_name() {
        assert_eq!(read("cpu_ns=12 nothing x=y"), Figures::from([("cpu_ns".to_owned(), 12.0)]));
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let mut measured = Measured::default();
        for (ours, theirs) in [(10.0, 30.0), (100.0, 400.0), (10.0, 50.0)] {
            let of = |value| BTreeMap::from([("cpu_ns".to_owned(), value)]);
            measured.add(&STATELESS, BTreeMap::from([(Candidate::Turms, of(ours)), (Candidate::Rmcp, of(theirs))]));
        }
        let place = |who| Place { cell: &STATELESS, who, figure: "cpu_ns" };
        assert_eq!(measured.ratio(place(Candidate::Rmcp), place(Candidate::Turms)), Some(4.0));
        assert_eq!(measured.ratio(place(Candidate::Limit), place(Candidate::Turms)), None);
    }
}

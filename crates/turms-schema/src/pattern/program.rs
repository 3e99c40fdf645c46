//! Patterns as a machine of states, all of which are followed at once.

use std::sync::Arc;

use super::class::{Item, is_word};
use super::parse::{Expression, Negated};
use crate::budget::Budget;

#[derive(Debug)]
pub(super) struct Program {
    steps: Box<[Step]>,
    /// Whether it can only match at the beginning.
    anchored: bool,
}

#[derive(Debug)]
enum Step {
    One(char),
    Class(Arc<[Item]>, Negated),
    Start,
    End,
    WordBoundary(Negated),
    /// To two places at once.
    Split(u32, u32),
    Jump(u32),
    Match,
}

/// Larger programs are not made: nobody writes them, and each step costs time for each character.
const LARGEST: usize = 5000;

/// Steps for each state that is followed by one character.
const STATE_STEPS: u64 = 3;

impl Program {
    /// Nothing if it would be too large.
    pub(super) fn new(expression: &Expression) -> Option<Self> {
        let mut builder = Builder(Vec::new());
        builder.add(expression)?;
        builder.push(Step::Match)?;
        let anchored = match expression {
            Expression::Sequence(sequence) => sequence.first() == Some(&Expression::Start),
            whole => *whole == Expression::Start,
        };
        Some(Self { steps: builder.0.into(), anchored })
    }

    pub(super) fn matches(&self, text: &str, budget: &mut Budget) -> bool {
        if !budget.charge(8 + self.steps.len() as u64 / 16) {
            return false;
        }
        let mut now = States::new(self.steps.len());
        let mut next = States::new(self.steps.len());
        let mut before = None;
        let mut characters = text.chars();
        loop {
            let after = characters.as_str().chars().next();
            if (before.is_none() || !self.anchored) && self.follow(0, &mut now, before, after) {
                return true;
            }
            let Some(character) = characters.next() else { return false };
            if !budget.charge_each(1 + now.touched.len(), STATE_STEPS) || now.list.is_empty() && self.anchored {
                return false;
            }
            let following = characters.as_str().chars().next();
            for &state in &now.list {
                let takes = match &self.steps[state as usize] {
                    Step::One(one) => *one == character,
                    Step::Class(items, negated) => {
                        budget.charge(items.len() as u64) && items.iter().any(|item| item.has(character)) != *negated
                    }
                    _ => false,
                };
                if takes && self.follow(state + 1, &mut next, Some(character), following) {
                    return true;
                }
            }
            std::mem::swap(&mut now, &mut next);
            next.clear();
            before = Some(character);
        }
    }

    /// Adds the states that are reached without a character; true if the end is among them.
    fn follow(&self, state: u32, states: &mut States, before: Option<char>, after: Option<char>) -> bool {
        states.open.push(state);
        while let Some(state) = states.open.pop() {
            if std::mem::replace(&mut states.seen[state as usize], true) {
                continue;
            }
            states.touched.push(state);
            match &self.steps[state as usize] {
                Step::One(_) | Step::Class(..) => states.list.push(state),
                Step::Start if before.is_none() => states.open.push(state + 1),
                Step::End if after.is_none() => states.open.push(state + 1),
                Step::WordBoundary(negated)
                    if (before.is_some_and(is_word) != after.is_some_and(is_word)) != *negated =>
                {
                    states.open.push(state + 1);
                }
                Step::Start | Step::End | Step::WordBoundary(_) => {}
                Step::Split(one, other) => states.open.extend([*one, *other]),
                Step::Jump(to) => states.open.push(*to),
                Step::Match => {
                    states.open.clear();
                    return true;
                }
            }
        }
        false
    }
}

/// Some states of a program.
struct States {
    /// Those that wait for a character.
    list: Vec<u32>,
    seen: Vec<bool>,
    /// Those that are seen.
    touched: Vec<u32>,
    /// Those that are to be followed yet.
    open: Vec<u32>,
}

impl States {
    fn new(size: usize) -> Self {
        Self { list: Vec::new(), seen: vec![false; size], touched: Vec::new(), open: Vec::new() }
    }

    fn clear(&mut self) {
        self.list.clear();
        for state in self.touched.drain(..) {
            self.seen[state as usize] = false;
        }
    }
}

struct Builder(Vec<Step>);

impl Builder {
    fn add(&mut self, expression: &Expression) -> Option<()> {
        match expression {
            Expression::Empty => {}
            Expression::Class(items, negated) => {
                let step = match (&**items, negated) {
                    ([Item::Range(first, last)], false) if first == last => Step::One(*first),
                    _ => Step::Class(Arc::clone(items), *negated),
                };
                self.push(step)?;
            }
            Expression::Start => self.push(Step::Start).map(drop)?,
            Expression::End => self.push(Step::End).map(drop)?,
            Expression::WordBoundary(negated) => self.push(Step::WordBoundary(*negated)).map(drop)?,
            Expression::Sequence(sequence) => sequence.iter().try_for_each(|part| self.add(part))?,
            Expression::Choice(choices) => self.add_choice(choices)?,
            Expression::Repeat(part, least, most) => self.add_repeat(part, *least, *most)?,
        }
        Some(())
    }

    fn add_choice(&mut self, choices: &[Expression]) -> Option<()> {
        let mut ends = Vec::new();
        for (index, choice) in choices.iter().enumerate() {
            if index + 1 == choices.len() {
                self.add(choice)?;
                break;
            }
            let split = self.push(Step::Split(0, 0))?;
            self.add(choice)?;
            ends.push(self.push(Step::Jump(0))?);
            self.0[split] = Step::Split(place(split + 1), self.here());
        }
        for end in ends {
            self.0[end] = Step::Jump(self.here());
        }
        Some(())
    }

    fn add_repeat(&mut self, part: &Expression, least: u32, most: Option<u32>) -> Option<()> {
        for _ in 0..least {
            let before = self.0.len();
            self.add(part)?;
            if self.0.len() == before {
                // What is nothing once is nothing many times.
                return Some(());
            }
        }
        match most {
            None => {
                let split = self.push(Step::Split(0, 0))?;
                self.add(part)?;
                self.push(Step::Jump(place(split)))?;
                self.0[split] = Step::Split(place(split + 1), self.here());
            }
            Some(most) => {
                let mut splits = Vec::new();
                for _ in least..most {
                    splits.push(self.push(Step::Split(0, 0))?);
                    self.add(part)?;
                }
                for split in splits {
                    self.0[split] = Step::Split(place(split + 1), self.here());
                }
            }
        }
        Some(())
    }

    fn push(&mut self, step: Step) -> Option<usize> {
        let at = self.0.len();
        (at < LARGEST).then(|| self.0.push(step)).map(|()| at)
    }

    fn here(&self) -> u32 {
        place(self.0.len())
    }
}

/// Programs have fewer than [`LARGEST`] steps.
fn place(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

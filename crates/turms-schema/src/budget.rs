//! The budget of one validation, in steps.

/// Maximum number of steps of one validation, unless told otherwise. A step stands for at most 4 ns of an ordinary machine, so a
/// validation never keeps its thread busy for much longer than a tenth of a second.
pub const DEFAULT_MAX_VALIDATION_STEPS: u64 = 25_000_000;

/// The steps that are left for a validation. Reading the value, following the schema, patterns, formats and comparisons all
/// charge it for what they are about to do, so it bounds time and memory whatever the size of the value.
#[derive(Debug)]
pub(crate) struct Budget {
    left: u64,
}

impl Budget {
    pub(crate) fn new(steps: u64) -> Self {
        Self { left: steps }
    }

    /// Takes some steps; false if there were not as many. Then none are left, and everything is refused from there on.
    pub(crate) fn charge(&mut self, steps: u64) -> bool {
        match self.left.checked_sub(steps) {
            Some(left) if left > 0 => {
                self.left = left;
                true
            }
            _ => {
                self.left = 0;
                false
            }
        }
    }

    /// As [`Budget::charge`], for a text or list of this length at so many steps for each byte or item.
    pub(crate) fn charge_each(&mut self, count: usize, steps: u64) -> bool {
        self.charge((count as u64).saturating_mul(steps))
    }

    /// As [`Budget::charge`], for bytes of which so many are one step.
    pub(crate) fn charge_bytes(&mut self, bytes: usize, in_a_step: u64) -> bool {
        self.charge(bytes as u64 / in_a_step)
    }

    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        self.left == 0
    }
}

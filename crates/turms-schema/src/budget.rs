//! The budget of one validation, in steps.

/// Default maximum number of steps of one validation. A step takes at most 4 ns on an ordinary machine, so a
/// validation does not occupy its thread for much longer than 100 ms.
pub const DEFAULT_MAX_VALIDATION_STEPS: u64 = 25_000_000;

/// The remaining steps of a validation. Reading the value, following the schema, patterns, formats and comparisons
/// charge it in advance, so it bounds time and memory for values of any size.
#[derive(Debug)]
pub(crate) struct Budget {
    left: u64,
}

impl Budget {
    pub(crate) fn new(steps: u64) -> Self {
        Self { left: steps }
    }

    /// Takes steps. Returns `true` if at least one is left afterwards. Otherwise the budget is exhausted, and all further
    /// charges fail.
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

    /// Charges `steps` for each of `count` bytes or items.
    pub(crate) fn charge_each(&mut self, count: usize, steps: u64) -> bool {
        self.charge((count as u64).saturating_mul(steps))
    }

    /// Charges one step for every `bytes_per_step` bytes, rounded down.
    pub(crate) fn charge_bytes(&mut self, bytes: usize, bytes_per_step: u64) -> bool {
        self.charge(bytes as u64 / bytes_per_step)
    }

    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        self.left == 0
    }
}

//! Some things of which there is mostly one.

/// A list whose first element needs no allocation.
#[derive(Debug)]
pub(super) struct Few<T> {
    first: Option<T>,
    rest: Vec<T>,
}

impl<T> Few<T> {
    pub(super) fn new() -> Self {
        Self { first: None, rest: Vec::new() }
    }

    pub(super) fn push(&mut self, value: T) {
        match &self.first {
            None => self.first = Some(value),
            Some(_) => self.rest.push(value),
        }
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }
}

impl<T> Extend<T> for Few<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        values.into_iter().for_each(|value| self.push(value));
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut few = Self::new();
        few.extend(values);
        few
    }
}

impl<T> IntoIterator for Few<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<std::option::IntoIter<T>, std::vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_come_out_in_the_order_in_which_they_went_in() {
        let mut few: Few<u8> = (1..=2).collect();
        few.push(3);
        assert_eq!(few.len(), 3);
        assert_eq!(few.into_iter().collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(Few::<u8>::new().into_iter().next(), None);
    }
}

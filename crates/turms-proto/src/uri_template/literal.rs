//! The text of a template between its expressions.

use super::atom::Atom;
use super::position::Positions;

/// Text that a URI must contain as it is.
#[derive(Clone)]
pub(super) struct Literal {
    atoms: Vec<Atom>,
    /// For each beginning of the literal, the length of its longest proper prefix that is also its end (Knuth, Morris
    /// and Pratt): looking for it in a URI takes linear time, however it repeats itself.
    borders: Vec<usize>,
}

impl Literal {
    /// `atoms` must not be empty.
    pub(super) fn new(atoms: Vec<Atom>) -> Self {
        let mut borders = vec![0; atoms.len()];
        let mut border = 0;
        for i in 1..atoms.len() {
            while border > 0 && atoms[border] != atoms[i] {
                border = borders[border - 1];
            }
            border += usize::from(atoms[border] == atoms[i]);
            borders[i] = border;
        }
        Self { atoms, borders }
    }

    pub(super) const fn len(&self) -> usize {
        self.atoms.len()
    }

    /// The text up to the first percent-encoded character.
    pub(super) fn plain_prefix(&self) -> String {
        let plain = self.atoms.iter().map_while(|&atom| match atom {
            Atom::Plain(byte) => Some(char::from(byte)),
            Atom::Encoded(_) | Atom::Byte(_) => None,
        });
        plain.collect()
    }

    pub(super) fn expand(&self, out: &mut String) {
        for &atom in &self.atoms {
            atom.spell(out);
        }
    }

    /// Where the literal stands in `uri` and ends at one of `after`.
    pub(super) fn starts(&self, uri: &[Atom], after: &Positions) -> Positions {
        let len = self.atoms.len();
        let mut starts = Positions::new(uri.len());
        let mut matched = 0;
        for (i, atom) in uri.iter().enumerate() {
            while matched > 0 && self.atoms.get(matched) != Some(atom) {
                matched = self.borders[matched - 1];
            }
            matched += usize::from(self.atoms.get(matched) == Some(atom));
            if matched == len && after.contains(i + 1) {
                starts.insert(i + 1 - len);
            }
        }
        starts
    }
}

//! Random numbers of the operating system, for identifiers and keys that must not be guessed.

/// Returns random bytes.
///
/// # Panics
/// If the operating system provides no random numbers. Without them, session ids and sealed request state would not be safe.
#[must_use]
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system provides random numbers");
    bytes
}

/// Returns an identifier that cannot be guessed: 128 random bits in hexadecimal.
///
/// Other encodings can begin with `-`, and command-line programs take that for an option.
///
/// # Panics
/// If the operating system provides no random numbers.
#[must_use]
pub fn random_id() -> String {
    format!("{:0ID_LENGTH$x}", u128::from_ne_bytes(random_bytes()))
}

/// Returns `true` if the text can be a [`random_id`], so that it is worth looking up.
#[must_use]
pub fn is_random_id(text: &str) -> bool {
    text.len() == ID_LENGTH && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

const ID_LENGTH: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_hexadecimal_and_differs_from_the_next() {
        let id = random_id();
        assert!(is_random_id(&id), "{id}");
        assert_ne!(id, random_id());
    }

    #[test]
    fn other_texts_are_not_ids() {
        let id = random_id();
        for text in ["", &id[1..], &format!("{id}0"), &format!("-{}", &id[1..]), &format!("A{}", &id[1..])] {
            assert!(!is_random_id(text), "{text}");
        }
    }
}

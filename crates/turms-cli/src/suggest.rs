//! Suggestions for misspelled names.

/// Returns the name closest to `typed`, if one is close enough to be a typing error.
pub(crate) fn closest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // One edit for each three characters, at least one.
    let max_edits = (typed.chars().count() / 3).clamp(1, 3);
    let typed = typed.to_lowercase();
    let distance = |name: &str| {
        let name = name.to_lowercase();
        let edits = strsim::damerau_levenshtein(&typed, &name);
        // `typed` may be a part of a name: that counts as one edit.
        if typed.len() > 2 && name.contains(&typed) { edits.min(1) } else { edits }
    };
    let closest = names.into_iter().map(|name| (distance(name), name)).min_by_key(|(distance, _)| *distance)?;
    let (edits, name) = closest;
    // At least one character must be right.
    (edits <= max_edits && edits < typed.chars().count().max(1)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_is_close_and_another_word_is_not() {
        let names = ["add", "divide", "describe_image"];
        assert_eq!(closest("ad", names), Some("add"));
        assert_eq!(closest("dvide", names), Some("divide"));
        assert_eq!(closest("image", names), Some("describe_image"));
        assert_eq!(closest("weather", names), None);
        assert_eq!(closest("c", ["a", "b"]), None);
        assert_eq!(closest("A", ["a", "b"]), Some("a"));
        assert_eq!(closest("", []), None);
    }
}

//! Names that were probably meant.

/// The name that is nearest to what was typed, if any is near enough to be a slip.
pub(crate) fn nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (typed.chars().count() / 3).clamp(1, 3);
    let typed = typed.to_lowercase();
    let distance = |name: &str| {
        let name = name.to_lowercase();
        let slips = strsim::damerau_levenshtein(&typed, &name);
        // The beginning of a name, or a part of it, is as good as a slip.
        if typed.len() > 2 && name.contains(&typed) { slips.min(1) } else { slips }
    };
    let nearest = names.into_iter().map(|name| (distance(name), name)).min_by_key(|(distance, _)| *distance)?;
    // A name of which no letter is right is no slip.
    (nearest.0 <= allowed && nearest.0 < typed.chars().count().max(1)).then_some(nearest.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_near_and_a_stranger_is_not() {
        let names = ["add", "divide", "describe_image"];
        assert_eq!(nearest("ad", names), Some("add"));
        assert_eq!(nearest("dvide", names), Some("divide"));
        assert_eq!(nearest("image", names), Some("describe_image"));
        assert_eq!(nearest("weather", names), None);
        assert_eq!(nearest("c", ["a", "b"]), None);
        assert_eq!(nearest("A", ["a", "b"]), Some("a"));
        assert_eq!(nearest("", []), None);
    }
}

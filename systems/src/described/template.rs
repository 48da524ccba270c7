//! Texts with places to fill in: `--listen={address}:{port}`. A brace that is meant as one is doubled.

/// A place's name and what goes there.
pub(super) type Place<'a> = (&'a str, &'a str);

/// Fills in a text. Errors: a brace without its other half, or a name that there is no place for.
pub(super) fn fill(text: &str, places: &[Place<'_>]) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        filled.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(brace) {
            filled.push_str(brace);
            rest = after;
            continue;
        }
        let end = rest.find('}').filter(|_| brace == "{");
        let end = end.ok_or_else(|| format!("`{brace}` stands alone; `{brace}{brace}` is a brace"))?;
        let name = &rest[..end];
        let value = places.iter().find(|(known, _)| *known == name).map(|(_, value)| value);
        filled.push_str(value.ok_or_else(|| {
            let names: Vec<String> = places.iter().map(|(known, _)| format!("{{{known}}}")).collect();
            format!("`{{{name}}}` is no place; one of: {}", names.join(", "))
        })?);
        rest = &rest[end + 1..];
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_in() {
        let check = |text: &str, expect: Result<&str, &str>| {
            let filled = fill(text, &[("id", "3"), ("address", "10.0.0.3")]);
            assert_eq!(filled.as_deref().map_err(String::as_str), expect, "{text}");
        };
        check("", Ok(""));
        check("--listen={address}:9092", Ok("--listen=10.0.0.3:9092"));
        check("{id}{id}", Ok("33"));
        check("{{id}} {{{id}}}", Ok("{id} {3}"));
        check("{port}", Err("`{port}` is no place; one of: {id}, {address}"));
        check("a { b", Err("`{` stands alone; `{{` is a brace"));
        check("a } b", Err("`}` stands alone; `}}` is a brace"));
    }
}

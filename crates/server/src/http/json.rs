//! Writes JSON.

use std::fmt::Write;

/// Returns a text as a JSON string.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            character if character < ' ' => {
                write!(quoted, "\\u{:04x}", u32::from(character))
                    .expect("writing to a String never fails");
            }
            character => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns an object of texts.
pub(super) fn object<'a>(members: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let members = members.into_iter().map(|(name, text)| {
        let (name, text) = (quoted(name), quoted(&text));
        format!("{name}:{text}")
    });
    format!("{{{}}}\n", members.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped() {
        assert_eq!(quoted("a\"\\\n\u{1}ä"), r#""a\"\\\u000a\u0001ä""#);
        let members = [("a", "1".to_owned()), ("b", "x".to_owned())];
        assert_eq!(object(members), "{\"a\":\"1\",\"b\":\"x\"}\n");
    }
}

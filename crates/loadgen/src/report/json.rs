//! A JSON writer.

use std::fmt::Write;

/// An object under construction.
#[derive(Debug)]
pub(crate) struct Json {
    text: String,
    is_empty: bool,
}

impl Json {
    pub(crate) fn new() -> Self {
        Self { text: "{".to_owned(), is_empty: true }
    }

    /// Adds a member whose value is already JSON.
    pub(crate) fn raw(&mut self, name: &str, json: &str) -> &mut Self {
        if !std::mem::take(&mut self.is_empty) {
            self.text.push(',');
        }
        push_text(&mut self.text, name);
        self.text.push(':');
        self.text.push_str(json);
        self
    }

    pub(crate) fn text(&mut self, name: &str, text: &str) -> &mut Self {
        let mut json = String::new();
        push_text(&mut json, text);
        self.raw(name, &json)
    }

    pub(crate) fn count(&mut self, name: &str, count: impl Into<u64>) -> &mut Self {
        self.raw(name, &count.into().to_string())
    }

    /// Adds a number with `places` decimal places; `None` is `null`.
    pub(crate) fn number(
        &mut self,
        name: &str,
        number: impl Into<Option<f64>>,
        places: usize,
    ) -> &mut Self {
        let number: Option<f64> = number.into();
        let text = number.filter(|number| number.is_finite());
        self.raw(name, &text.map_or("null".to_owned(), |number| format!("{number:.places$}")))
    }

    /// Returns the finished object.
    pub(crate) fn end(&self) -> String {
        format!("{}}}", self.text)
    }
}

/// Returns an array of values that are already JSON.
pub(crate) fn array(members: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", members.into_iter().collect::<Vec<_>>().join(","))
}

fn push_text(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            ..' ' => write!(out, "\\u{:04x}", character as u32).expect("a string takes any text"),
            _ => out.push(character),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_holds_members_of_every_kind() {
        let mut json = Json::new();
        json.text("a\"b", "c\\d\n").count("n", 7_u32).number("x", 1.25, 1).number("y", None, 3);
        json.raw("z", &array(["1".to_owned(), "2".to_owned()]));
        let expected = r#"{"a\"b":"c\\d\u000a","n":7,"x":1.2,"y":null,"z":[1,2]}"#;
        assert_eq!(json.end(), expected);
    }

    #[test]
    fn a_parser_reads_the_text_that_was_written() {
        let odd = "\u{0}\u{1f}\"\\/ \u{7f}\u{2028}größe";
        let text = Json::new().text(odd, odd).number("x", f64::NAN, 1).end();
        let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(parsed[odd], odd);
        assert!(parsed["x"].is_null(), "JSON has no NaN: {text}");
        assert_eq!((Json::new().end(), array([])), ("{}".to_owned(), "[]".to_owned()));
    }
}

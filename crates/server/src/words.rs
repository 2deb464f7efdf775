//! Helpers for the text of messages.

use std::fmt;

use larder_protocol::base64;
use serde_json::{Map, Value};

/// A number with its noun: `1 item`, `2 items`.
pub(crate) struct CountedNoun<N>(pub(crate) N, pub(crate) &'static str);

impl<N: fmt::Display + PartialEq + From<u8>> fmt::Display for CountedNoun<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ending = if self.0 == N::from(1) { "" } else { "s" };
        write!(f, "{} {}{ending}", self.0, self.1)
    }
}

/// Adds bytes as the member `name`, or in base64 as `name_base64` if they are not valid UTF-8.
pub(crate) fn insert_bytes(members: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match str::from_utf8(bytes) {
        Ok(text) => members.insert(name.to_owned(), text.into()),
        Err(_) => {
            let mut encoded = Vec::new();
            base64::encode(&mut encoded, bytes);
            let encoded = String::from_utf8_lossy(&encoded);
            members.insert(format!("{name}_base64"), encoded.into())
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_in_base64() {
        let mut members = Map::new();
        insert_bytes(&mut members, "key", "ü\"\n".as_bytes());
        insert_bytes(&mut members, "prefix", b"\xff\0");
        let shown = Value::Object(members).to_string();
        assert_eq!(shown, r#"{"key":"ü\"\n","prefix_base64":"/wA="}"#);
    }

    #[test]
    fn one_is_no_plural() {
        let words = [0_u64, 1, 2].map(|number| CountedNoun(number, "item").to_string());
        assert_eq!(words, ["0 items", "1 item", "2 items"]);
    }
}

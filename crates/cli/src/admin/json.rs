//! Members of the documents that the admin listener sends.

use anyhow::{Context, Result};
use larder_protocol::base64;
use serde_json::Value;

use crate::transfer::escaped;

/// Returns the key of a row, with bytes outside 0x21 to 0x7e escaped.
pub(crate) fn shown_key(row: &Value) -> Result<String> {
    if let Some(key) = row["key"].as_str() {
        return Ok(escaped(key.as_bytes()));
    }
    let encoded = row["key_base64"].as_str().unwrap_or_default();
    // Decoding never makes the text longer.
    let mut key = vec![0; encoded.len()];
    match base64::decode(encoded.as_bytes(), &mut key) {
        Some(key) if !key.is_empty() => Ok(escaped(key)),
        _ => Err(anyhow::anyhow!("the server sent a row without a key")),
    }
}

/// Returns the body of a request with this prefix: as text, or in base64 if it is not UTF-8.
pub(crate) fn prefix_body(prefix: &[u8]) -> Value {
    match str::from_utf8(prefix) {
        Ok(text) => serde_json::json!({ "prefix": text }),
        Err(_) => {
            let mut encoded = Vec::new();
            base64::encode(&mut encoded, prefix);
            serde_json::json!({ "prefix_base64": String::from_utf8_lossy(&encoded) })
        }
    }
}

/// Returns a number.
pub(crate) fn number(document: &Value, name: &str) -> Result<f64> {
    document[name].as_f64().with_context(|| format!("the server's response has no number {name}"))
}

/// Returns a whole number.
pub(crate) fn whole(document: &Value, name: &str) -> Result<u64> {
    document[name].as_u64().with_context(|| format!("the server's response has no number {name}"))
}

/// Returns a string.
pub(crate) fn text<'a>(document: &'a Value, name: &str) -> Result<&'a str> {
    document[name].as_str().with_context(|| format!("the server's response has no text {name}"))
}

/// Returns the rows of a list.
pub(crate) fn rows<'a>(document: &'a Value, name: &str) -> Result<&'a [Value]> {
    let rows = document[name].as_array().map(Vec::as_slice);
    rows.with_context(|| format!("the server's response has no list {name}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_shown_without_control_bytes() {
        let shown = |row: Value| shown_key(&row).ok();
        assert_eq!(
            shown(json!({"key": "a\u{1b}]0;x\u{7}\nü"})).as_deref(),
            Some(r"a\x1b]0;x\x07\x0a\xc3\xbc")
        );
        assert_eq!(shown(json!({"key_base64": "/wA="})).as_deref(), Some(r"\xff\x00"));
        for bad in [json!({}), json!({"key": 7}), json!({"key_base64": "/"}), json!(null)] {
            assert_eq!(shown(bad.clone()), None, "{bad}");
        }
    }

    #[test]
    fn a_prefix_of_any_bytes_can_be_sent() {
        assert_eq!(prefix_body(b"a\n"), json!({"prefix": "a\n"}));
        assert_eq!(prefix_body(b"\xff\0"), json!({"prefix_base64": "/wA="}));
    }
}

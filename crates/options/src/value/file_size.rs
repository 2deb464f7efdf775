//! A file and a size: `-o ext_path`.

pub(crate) const FILE_SIZE_EXPECTED: &str =
    "a file and a size, with k, m, g or t after the number: FILE:10g";

/// Parses the path and the size of `-o ext_path`; `None` if it has another form.
pub(crate) fn file_size(text: &str) -> Option<(&str, u64)> {
    let (file, size) = text.rsplit_once(':').filter(|(file, _)| !file.is_empty())?;
    let unit = match size.bytes().last()?.to_ascii_lowercase() {
        b'k' => 10,
        b'm' => 20,
        b'g' => 30,
        b't' => 40,
        _ => return None,
    };
    let number: u64 = size[..size.len() - 1].parse().ok()?;
    Some((file, number.checked_mul(1 << unit)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_its_size_are_parted_by_the_last_colon() {
        for (text, parsed) in [
            ("/f:10g", Some(("/f", 10 << 30))),
            ("/f:512M", Some(("/f", 512 << 20))),
            ("/a:b:1t", Some(("/a:b", 1 << 40))),
            ("/f:1", None),
            ("/f:g", None),
            ("/f:-1g", None),
            ("/f:99999999999999999t", None),
            ("/f", None),
            (":1g", None),
            ("/f:1\u{e9}", None),
            ("", None),
        ] {
            assert_eq!(file_size(text), parsed, "{text}");
        }
    }
}

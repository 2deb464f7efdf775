//! The forms of a value that allows only a few words.
//!
//! A form is a word such as `off`, or a word with a placeholder in capitals after `:` or `=`, such
//! as `group:NAME`. Parsing, help and docs/options.md use the same lists of forms, so they cannot
//! contradict each other.

/// Finds the form of a text. Returns the form and the text in place of the placeholder.
pub(crate) fn form_of<'a>(
    forms: &[&'static str],
    text: &'a str,
) -> Option<(&'static str, &'a str)> {
    forms.iter().find_map(|form| match beginning(form) {
        Some(beginning) => text.strip_prefix(beginning).map(|rest| (*form, rest)),
        None => (text == *form).then_some((*form, "")),
    })
}

/// Returns the part of a form before its placeholder; `None` if it does not have a placeholder.
pub(crate) fn beginning(form: &str) -> Option<&str> {
    let at = form.find([':', '='])?;
    Some(&form[..=at])
}

/// Returns the forms as help and errors show them.
pub(crate) fn one_of(forms: &[&str]) -> String {
    format!("one of {}", forms.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_the_form_of_a_whole_word_or_of_its_beginning() {
        let forms = ["off", "group:NAME", "interval=MS"];
        for (text, form) in [
            ("off", Some(("off", ""))),
            ("group:www", Some(("group:NAME", "www"))),
            ("group:", Some(("group:NAME", ""))),
            ("interval=5=6", Some(("interval=MS", "5=6"))),
            ("offf", None),
            ("group", None),
            ("", None),
        ] {
            assert_eq!(form_of(&forms, text), form, "{text}");
        }
        assert_eq!(one_of(&forms), "one of off, group:NAME, interval=MS");
    }
}

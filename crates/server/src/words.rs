//! Helpers for the text of messages.

use std::fmt;

/// A number with its noun: `1 item`, `2 items`.
pub(crate) struct Counted<N>(pub(crate) N, pub(crate) &'static str);

impl<N: fmt::Display + PartialEq + From<u8>> fmt::Display for Counted<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ending = if self.0 == N::from(1) { "" } else { "s" };
        write!(f, "{} {}{ending}", self.0, self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        let words = [0_u64, 1, 2].map(|number| Counted(number, "item").to_string());
        assert_eq!(words, ["0 items", "1 item", "2 items"]);
    }
}

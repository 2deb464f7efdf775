//! The words of a line.

/// The words of a line, separated by any number of spaces. A tab is part of a word.
///
/// Yields only the first [`Words::COUNT_MAX`] words of a line. The keys of a get have no such limit
/// and are not read with this type.
#[derive(Clone, Debug)]
pub(crate) struct Words<'a> {
    rest: &'a [u8],
    last: &'a [u8],
    left_count: u8,
}

impl<'a> Words<'a> {
    /// memcached's maximum number of tokens per line. It ignores the rest.
    pub(crate) const COUNT_MAX: u8 = 23;

    /// Creates the iterator for a line without its end.
    pub(crate) fn new(line: &'a [u8]) -> Self {
        Self { rest: line, last: b"", left_count: Self::COUNT_MAX }
    }

    /// Creates the iterator for a line, beginning after its first word.
    #[inline]
    pub(crate) fn begun(rest: &'a [u8]) -> Self {
        Self { rest, last: b"", left_count: Self::COUNT_MAX - 1 }
    }

    /// Returns the part of the line that begins with the next word.
    pub(crate) fn rest(&self) -> &'a [u8] {
        trim_spaces(self.rest)
    }

    /// Returns the number of words yielded.
    pub(crate) fn taken_count(&self) -> u8 {
        Self::COUNT_MAX - self.left_count
    }

    /// Skips to the line's last word and returns it, even if it was already yielded.
    pub(crate) fn skip_to_last(&mut self) -> &'a [u8] {
        while self.next().is_some() {}
        self.last
    }

    /// Skips to the line's last word; true if it is `noreply`, even if it was already yielded.
    pub(crate) fn end_in_noreply(&mut self) -> bool {
        self.skip_to_last() == b"noreply"
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = trim_spaces(self.rest);
        if rest.is_empty() || self.left_count == 0 {
            return None;
        }
        let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        (self.last, self.rest) = rest.split_at(end);
        self.left_count -= 1;
        Some(self.last)
    }
}

/// Strips leading spaces.
#[inline]
pub(crate) fn trim_spaces(bytes: &[u8]) -> &[u8] {
    let spaces = bytes.iter().take_while(|byte| **byte == b' ').count();
    bytes.get(spaces..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_spaces_separates_words() {
        let words: Vec<_> = Words::new(b"  set  k\t 0 ").collect();
        assert_eq!(words, [&b"set"[..], b"k\t", b"0"]);
    }

    #[test]
    fn the_last_word_is_the_twenty_third_at_most() {
        let mut line = b"a ".repeat(22);
        line.extend_from_slice(b"noreply");
        assert!(Words::new(&line).end_in_noreply());
        assert!(Words::new(&[&line[..], b" more"].concat()).end_in_noreply());
        assert!(!Words::new(&[b"a ", &line[..]].concat()).end_in_noreply());
    }
}

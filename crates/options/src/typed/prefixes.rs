//! Options of the statistics by key prefix.

use crate::given::values::Values;
use crate::table::Id;

/// How `stats prefixes` and the metrics show key prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefixes {
    /// `--prefix-delimiter`: the byte that ends the prefix of a key. The default is the one of
    /// `-D`.
    pub delimiter: u8,
    /// `--prefix-metrics`: metrics have labels with prefixes.
    pub metrics: bool,
}

impl Prefixes {
    pub(crate) fn of(values: &Values) -> Self {
        let given = values.character(Id::PrefixDelimiter).or(values.character(Id::StatPrefix));
        Self { delimiter: given.unwrap_or(b':'), metrics: values.switch(Id::PrefixMetrics) }
    }
}

#[cfg(test)]
mod tests {
    use crate::Options;

    #[test]
    fn the_delimiter_is_the_one_of_stats_detail_unless_it_is_given() {
        let delimiter = |given: &[(&str, &str)]| {
            let (options, _) = Options::from_map(given.iter().copied()).unwrap();
            char::from(options.prefixes.delimiter)
        };
        assert_eq!(delimiter(&[]), ':');
        assert_eq!(delimiter(&[("stat_prefix_delimiter", "/")]), '/');
        let both = [("stat_prefix_delimiter", "/"), ("prefix_delimiter", "-")];
        assert_eq!(delimiter(&both), '-');
    }
}

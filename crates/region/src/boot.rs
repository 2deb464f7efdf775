//! Which boot of the machine this is.

/// The number that Linux gave this boot. What a region on a tmpfs or a clock says of an earlier boot means nothing now;
/// none where the system does not tell (no `/proc`).
pub fn boot() -> Option<u128> {
    parse(&std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?)
}

fn parse(text: &str) -> Option<u128> {
    let digits: String = text.trim_end().chars().filter(|c| *c != '-').collect();
    (digits.len() == 32).then(|| u128::from_str_radix(&digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_boot_is_read_as_it_is_written() {
        let boot = parse("01234567-89ab-cdef-0123-456789abcdef\n");
        assert_eq!(boot, Some(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef));
        assert_eq!(parse(""), None);
        assert_eq!(parse("01234567-89ab-cdef-0123-456789abcde"), None);
        assert_eq!(parse("x1234567-89ab-cdef-0123-456789abcdef"), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri reads no /proc")]
    fn a_boot_stays_the_same() {
        assert_eq!(boot(), boot());
    }
}

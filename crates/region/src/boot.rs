//! The id of the machine's current boot.

use std::sync::OnceLock;

/// Returns Linux's id of the current boot; `None` if the system does not report it (no `/proc`).
/// State that was recorded in an earlier boot, such as a region on a tmpfs or the time of a clock,
/// is meaningless now.
///
/// A process keeps the id once it has read it, so that it and its children can use the id even in a
/// root directory without `/proc`.
pub fn boot() -> Option<u128> {
    static BOOT: OnceLock<u128> = OnceLock::new();
    if let Some(boot) = BOOT.get() {
        return Some(*boot);
    }
    let read = parse(&std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?)?;
    Some(*BOOT.get_or_init(|| read))
}

fn parse(text: &str) -> Option<u128> {
    let digits: String = text.trim_end().chars().filter(|c| *c != '-').collect();
    (digits.len() == 32).then(|| u128::from_str_radix(&digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_id_is_parsed_as_linux_formats_it() {
        let boot = parse("01234567-89ab-cdef-0123-456789abcdef\n");
        assert_eq!(boot, Some(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef));
        assert_eq!(parse(""), None);
        assert_eq!(parse("01234567-89ab-cdef-0123-456789abcde"), None);
        assert_eq!(parse("x1234567-89ab-cdef-0123-456789abcdef"), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri reads no /proc")]
    fn the_boot_id_is_constant() {
        assert_eq!(boot(), boot());
    }
}

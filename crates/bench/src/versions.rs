//! The versions of the measured crates.

/// Returns the name and the version of a package of this workspace, or of one that it depends on,
/// as Cargo.lock has them: `moka 0.12.16`. Tables begin with them.
///
/// # Panics
/// Cargo.lock has no such package.
pub fn package(name: &str) -> String {
    let line = format!("name = \"{name}\"");
    let mut lines = LOCK.lines().skip_while(|of| *of != line).skip(1);
    let version = lines.next().and_then(|of| of.strip_prefix("version = "));
    let version = version.unwrap_or_else(|| panic!("Cargo.lock has no package {name}"));
    format!("{name} {}", version.trim_matches('"'))
}

const LOCK: &str = include_str!("../../../Cargo.lock");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_has_the_version_of_the_lock_file() {
        assert_eq!(package("larder-bench"), concat!("larder-bench ", env!("CARGO_PKG_VERSION")));
        assert!(package("moka").starts_with("moka 0."), "{}", package("moka"));
    }

    #[test]
    #[should_panic(expected = "no package nothing")]
    fn an_unknown_package_has_none() {
        package("nothing");
    }
}

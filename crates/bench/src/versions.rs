//! The versions of the measured crates.

/// Returns the name and the version of a package in Cargo.lock, for example `moka 0.12.16`. Tables
/// begin with this text.
///
/// # Panics
/// Cargo.lock does not contain the package.
pub fn package(name: &str) -> String {
    let version = version(name).unwrap_or_else(|| panic!("Cargo.lock has no package {name}"));
    format!("{name} {version}")
}

fn version(name: &str) -> Option<&'static str> {
    let line = format!("name = \"{name}\"");
    let mut lines = LOCK.lines().skip_while(|of| *of != line).skip(1);
    Some(lines.next()?.strip_prefix("version = ")?.trim_matches('"'))
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
    fn an_unknown_package_has_no_version() {
        assert_eq!(version("nothing"), None);
    }
}

//! The directories to watch for changes of a file.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// The directories that lead to some files. Each has the names in it whose changes matter: the
/// files, the symbolic links on the way, and the first name that does not exist. A directory
/// without such names matters only if it is itself moved or removed.
pub(super) type Places = BTreeMap<PathBuf, BTreeSet<OsString>>;

/// Returns the places of absolute paths. Follows symbolic links in every component, because
/// programs replace files by replacing a link. One example is the link `..data` of kubelet.
pub(super) fn places<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Places {
    let mut places = Places::new();
    for path in paths {
        add(path, &mut places);
    }
    places
}

/// Returns the Unix time in seconds at which an absolute path began to lead to its current file and
/// the file got its current contents. Programs cannot set this time, unlike the time of the last
/// modification, so it is not earlier for a file that replaces another one. 0 if the path leads
/// nowhere.
pub(crate) fn changed_secs(path: &Path) -> u64 {
    let places = places([&path.to_owned()]);
    let paths = places.iter().flat_map(|(at, names)| names.iter().map(|name| at.join(name)));
    let changed = paths.filter_map(|path| fs::symlink_metadata(path).ok()).map(|of| of.ctime());
    changed.max().and_then(|secs| u64::try_from(secs).ok()).unwrap_or(0)
}

fn add(path: &Path, places: &mut Places) {
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    let mut rest = names(path);
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            at.pop();
            continue;
        }
        let names_here = places.entry(at.clone()).or_default();
        let here = at.join(&name);
        match fs::symlink_metadata(&here) {
            Ok(found) if found.is_symlink() => {
                names_here.insert(name);
                links += 1;
                let Ok(target) = fs::read_link(&here) else { return };
                if links > LINKS_MAX {
                    return;
                }
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                let mut target = names(&target);
                target.append(&mut rest);
                rest = target;
            }
            Ok(_) if !rest.is_empty() => at = here,
            // The file itself, or the name that is missing on the way to it.
            Ok(_) | Err(_) => {
                names_here.insert(name);
                return;
            }
        }
    }
}

/// Returns the names of a path, with `..` but without the root and without `.`.
fn names(path: &Path) -> VecDeque<OsString> {
    let is_name = |of: &Component<'_>| matches!(of, Component::Normal(_) | Component::ParentDir);
    path.components().filter(is_name).map(|of| of.as_os_str().to_owned()).collect()
}

/// Linux follows no more links in a path.
const LINKS_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_and_the_first_missing_name_are_watched_where_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir_all(root.join("certs/..v1")).unwrap();
        fs::write(root.join("certs/..v1/key"), "").unwrap();
        symlink("..v1", root.join("certs/..data")).unwrap();
        symlink("..data/key", root.join("certs/key")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let of = |path: &str| -> Vec<(String, Vec<String>)> {
            let places = places(&[root.join(path)]);
            let here = places.iter().filter(|(_, names)| !names.is_empty());
            here.map(|(at, names)| {
                let at = at.strip_prefix(&root).unwrap().display().to_string();
                (at, names.iter().map(|name| name.display().to_string()).collect())
            })
            .collect()
        };
        let place = |at: &str, names: &[&str]| {
            (at.to_owned(), names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(
            of("certs/key"),
            [place("certs", &["..data", "key"]), place("certs/..v1", &["key"])]
        );
        assert_eq!(of("certs/../certs/none"), [place("certs", &["none"])]);
        assert_eq!(of("none/such/file"), [place("", &["none"])]);
        assert_eq!(of("loop"), [place("", &["loop"])]);
        // The directories on the way are watched as well, but not for the names in them.
        assert!(places(&[root.join("certs/key")]).contains_key(Path::new("/")));
    }
}

//! Finds the memory cgroups of this process, from /proc/self/cgroup and /proc/self/mountinfo.

use std::path::{Component, Path, PathBuf};

/// A version of the kernel's interface for cgroups. The files have different names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V2,
}

/// The folder of a cgroup, as an absolute path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) version: Version,
    pub(super) folder: PathBuf,
}

/// Returns the memory cgroups of a process and all cgroups above them, from the contents of its
/// `cgroup` and `mountinfo`. Ignores lines that it does not understand. Empty if no hierarchy that
/// counts memory is mounted.
///
/// A process can be in two hierarchies: a container runtime may limit memory in version 1 and mount
/// version 2 as well.
pub(super) fn groups(cgroup: &str, mountinfo: &str) -> Vec<Group> {
    let mut groups = Vec::new();
    for (version, path) in cgroup.lines().filter_map(membership) {
        let mounts = mountinfo.lines().filter_map(mount);
        let Some(mount) = mounts.into_iter().find(|mount| mount.version == version) else {
            continue;
        };
        // A container may see only its own part of the hierarchy, mounted as if it were the root.
        // If the path of the process is outside of it, the mount point is the nearest that exists.
        let below = Path::new(path).strip_prefix(&mount.root).unwrap_or(Path::new(""));
        let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)));
        let below = if is_plain { below } else { Path::new("") };
        let folder: PathBuf = mount.point.iter().chain(below).collect();
        for folder in folder.ancestors().take(DEPTH_MAX) {
            groups.push(Group { version, folder: folder.to_owned() });
            if folder == mount.point {
                break;
            }
        }
    }
    groups
}

/// Returns the hierarchy and the path of a line of /proc/self/cgroup, if the hierarchy may count
/// memory. Examples: `0::/a/b`, and `4:memory:/a/b`.
fn membership(line: &str) -> Option<(Version, &str)> {
    let mut fields = line.splitn(3, ':');
    let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    if number == "0" && controllers.is_empty() {
        return Some((Version::V2, path));
    }
    controllers.split(',').any(|name| name == "memory").then_some((Version::V1, path))
}

/// A mounted hierarchy that may count memory.
struct Mount {
    version: Version,
    /// The cgroup that is mounted.
    root: PathBuf,
    point: PathBuf,
}

/// Returns the mount in a line of /proc/self/mountinfo:
/// `31 23 0:28 /root /mount/point rw,relatime shared:1 - cgroup2 cgroup rw`. The number of fields
/// before the dash varies.
fn mount(line: &str) -> Option<Mount> {
    let (place, kind) = line.split_once(" - ")?;
    let mut kind = kind.split(' ');
    let version = match (kind.next()?, kind.nth(1)?) {
        ("cgroup2", _) => Version::V2,
        ("cgroup", options) if options.split(',').any(|name| name == "memory") => Version::V1,
        _ => return None,
    };
    let mut place = place.split(' ').skip(3);
    Some(Mount { version, root: unescaped(place.next()?), point: unescaped(place.next()?) })
}

/// Returns a path of mountinfo, where the kernel writes a space as `\040`.
fn unescaped(text: &str) -> PathBuf {
    let mut path = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        path.push_str(&rest[..at]);
        let octal = rest.get(at + 1..at + 4).and_then(|of| u8::from_str_radix(of, 8).ok());
        let (character, length) = octal.map_or(('\\', 1), |of| (char::from(of), 4));
        path.push(character);
        rest = &rest[at + length..];
    }
    PathBuf::from(path + rest)
}

/// Upper limit for the number of cgroups above each other.
const DEPTH_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(cgroup: &str, mountinfo: &str) -> Vec<String> {
        let groups = groups(cgroup, mountinfo).into_iter();
        groups.map(|of| format!("{:?} {}", of.version, of.folder.display())).collect()
    }

    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";

    #[test]
    fn a_process_has_its_cgroup_and_all_above_it() {
        assert_eq!(
            folders("0::/a.slice/b.service\n", V2),
            [
                "V2 /sys/fs/cgroup/a.slice/b.service",
                "V2 /sys/fs/cgroup/a.slice",
                "V2 /sys/fs/cgroup"
            ]
        );
        assert_eq!(folders("0::/\n", V2), ["V2 /sys/fs/cgroup"]);
    }

    #[test]
    fn version_1_is_the_hierarchy_of_the_memory_controller() {
        let mounts = "32 31 0:29 / /c/cpu rw - cgroup cgroup rw,cpu\n\
                      35 31 0:32 / /c/memory rw - cgroup cgroup rw,memory\n\
                      41 31 0:38 / /c/unified rw - cgroup2 cgroup2 rw\n";
        assert_eq!(
            folders("4:memory:/a\n1:cpu:/b\n0::/\n", mounts),
            ["V1 /c/memory/a", "V1 /c/memory", "V2 /c/unified"]
        );
        assert_eq!(folders("4:cpu,memory:/\n", mounts), ["V1 /c/memory"]);
    }

    #[test]
    fn a_container_sees_its_cgroup_as_the_root() {
        let own = "35 31 0:32 /docker/1 /c/memory rw - cgroup cgroup rw,memory\n";
        assert_eq!(folders("4:memory:/docker/1\n", own), ["V1 /c/memory"]);
        assert_eq!(folders("4:memory:/docker/1/x\n", own), ["V1 /c/memory/x", "V1 /c/memory"]);
        assert_eq!(folders("4:memory:/docker/12\n", own), ["V1 /c/memory"]);
        assert_eq!(folders("0::/../../etc\n", V2), ["V2 /sys/fs/cgroup"]);
    }

    #[test]
    fn foreign_lines_are_ignored() {
        for cgroup in ["", "x", "0:", "0::", ":::::", "1:name=systemd:/", "\0", "0::/a\u{fffd}"] {
            for mounts in ["", " - ", " - cgroup2", "1 2 3 - cgroup2 x y", "- - - -", V2] {
                folders(cgroup, mounts);
            }
        }
        let deep = format!("0::{}\n", "/a".repeat(10_000));
        assert_eq!(folders(&deep, V2).len(), DEPTH_MAX);
        let spaces = "30 23 0:26 / /a\\040b\\134\\x\\04 rw - cgroup2 cgroup2 rw\n";
        assert_eq!(folders("0::/\n", spaces), ["V2 /a b\\\\x\\04"]);
    }
}

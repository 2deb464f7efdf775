//! The file of `--cluster-file`.
//!
//! ```text
//! # The version of the list.
//! version=7
//! cache-1.internal:11211
//! cache-2.internal|10.0.0.2|11211
//! 10.0.0.3
//! [fd00::4]:11212
//! ```

use std::fs::{self, File};
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use larder_options::ClusterName;

use super::list::{Node, Nodes, Stamp, VERSION_MAX};
use crate::watched;

/// Reads the file.
///
/// # Errors
/// Returns the reason why it cannot be read or used, and the expected form.
pub(super) fn read(path: &Path) -> Result<(Nodes, Stamp), String> {
    let unreadable = |error: io::Error| format!("{error}; {EXPECTED}");
    // Opening a pipe would wait for a writer.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(format!("it is not a regular file; {EXPECTED}"));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("it has more than {FILE_BYTES_MAX} bytes; {EXPECTED}"));
    }
    let (nodes, version) = parse(&bytes)?;
    // After the file was read, so that a change since then receives a higher version.
    let stamp = version.map_or_else(|| Stamp::Time(watched::changed_secs(path)), Stamp::Given);
    Ok((nodes, stamp))
}

/// Parses the contents of a file. Returns the servers and the stated version.
///
/// # Errors
/// Returns the first wrong line, and the expected form.
fn parse(bytes: &[u8]) -> Result<(Nodes, Option<u64>), String> {
    let text = str::from_utf8(bytes)
        .map_err(|error| format!("byte {} is not UTF-8; {EXPECTED}", error.valid_up_to()))?;
    if !text.is_empty() && !text.ends_with('\n') {
        // The number of a port may lack its last digits.
        return Err("its last line has no end, so a program may still write it; end it with a \
                    newline"
            .to_owned());
    }
    let (mut nodes, mut version) = (Vec::new(), None);
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let wrong = || {
            let shown: String = line.chars().take(SHOWN_CHARS).collect();
            format!("line {}: {shown:?} is not a server; {EXPECTED}", number + 1)
        };
        match line.strip_prefix("version=") {
            Some(_) if version.is_some() => {
                return Err(format!("line {}: the version is given twice", number + 1));
            }
            Some(given) => {
                let digits = given.bytes().all(|byte| byte.is_ascii_digit());
                let given = digits.then(|| given.parse().ok()).flatten();
                let given = given.filter(|given| (1..=VERSION_MAX).contains(given));
                version = Some(given.ok_or_else(|| {
                    format!(
                        "line {}: the version is not a number from 1 to {VERSION_MAX}",
                        number + 1
                    )
                })?);
            }
            None => nodes.push(node(line).ok_or_else(wrong)?),
        }
    }
    let nodes = Nodes::of(&nodes).map_err(|error| format!("{error}; {EXPECTED}"))?;
    Ok((nodes, version))
}

/// Parses a server; `None` if the line has another form.
fn node(line: &str) -> Option<Node> {
    if let Some((host, rest)) = line.split_once('|') {
        let (ip, port) = rest.split_once('|')?;
        let port = ClusterName::parse_port(port)?;
        let ip = if ip.is_empty() { None } else { Some(ip.parse().ok()?) };
        return match host.parse::<Ipv6Addr>() {
            Ok(host) => Some(Node { host: host.to_string(), ip, port }),
            Err(_) => ClusterName::is_host(host).then(|| Node { host: host.to_owned(), ip, port }),
        };
    }
    if let Some(rest) = line.strip_prefix('[') {
        let (ip, rest) = rest.split_once(']')?;
        let port = match rest.strip_prefix(':') {
            Some(port) => ClusterName::parse_port(port)?,
            None if rest.is_empty() => ClusterName::PORT,
            None => return None,
        };
        return Some(Node::of(IpAddr::V6(ip.parse().ok()?), port));
    }
    let ClusterName { host, port } = ClusterName::parse(line)?;
    let ip = host.parse::<Ipv4Addr>().ok().map(IpAddr::V4);
    Some(Node { host, ip, port })
}

const EXPECTED: &str = "expected a file with a line for each server of the cluster: host:port, \
     [IPv6]:port or host|IP|port, at most 1024 lines and 64 KiB";

/// More than 1024 host names need.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// How much of a wrong line an error shows.
const SHOWN_CHARS: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::list::List;

    fn body(text: &str) -> String {
        let (nodes, version) = parse(text.as_bytes()).unwrap();
        let list = List::first(nodes, Stamp::Given(version.unwrap_or(1)));
        String::from_utf8(list.body().to_vec()).unwrap()
    }

    #[test]
    fn each_line_is_a_server() {
        let text = "# the cluster\r\nversion=7\n\n a.internal:11212 # first\nb_1\n10.0.0.1\n\
                    [fd00::0:2]\n[::1]:3\nc|10.0.0.3|4\nd||5\n::1|::1|6\n";
        let expected = "7\na.internal||11212 b_1||11211 10.0.0.1|10.0.0.1|11211 \
                        fd00::2|fd00::2|11211 ::1|::1|3 c|10.0.0.3|4 d||5 ::1|::1|6\n";
        assert_eq!(body(text), expected);
    }

    #[test]
    fn anything_else_is_refused() {
        for (text, error) in [
            ("", "it names no server"),
            ("\n# a:1\n", "it names no server"),
            ("version=1\n", "it names no server"),
            ("a:1", "its last line has no end"),
            ("a:1\na:1\n", "it names a||1 twice"),
            ("a\nA:11211\n", "it names A||11211 twice"),
            ("a:0\n", "line 1: \"a:0\" is not a server"),
            ("a:1\nb:x\n", "line 2: \"b:x\" is not a server"),
            ("a:1 b:1\n", "line 1: \"a:1 b:1\" is not a server"),
            ("a|b|1\n", "line 1: \"a|b|1\" is not a server"),
            ("|10.0.0.1|1\n", "line 1: "),
            ("a|10.0.0.1\n", "line 1: "),
            ("a|10.0.0.1|1|2\n", "line 1: "),
            ("::1:1\n", "line 1: "),
            ("[::1\n", "line 1: "),
            ("[10.0.0.1]:1\n", "line 1: "),
            ("10.0.0\n", "line 1: "),
            ("a\0b:1\n", "line 1: "),
            ("version=x\na:1\n", "line 1: the version is not a number"),
            ("version=0\na:1\n", "line 1: the version is not a number"),
            ("version=9223372036854775808\na:1\n", "line 1: the version is not a number"),
            ("version=1\nversion=2\na:1\n", "line 2: the version is given twice"),
        ] {
            let refused = parse(text.as_bytes()).unwrap_err();
            assert!(refused.starts_with(error), "{text:?}: {refused}");
        }
        assert!(parse(b"a\xff:1\n").unwrap_err().starts_with("byte 1 is not UTF-8"));
        let many = |count| (0..count).map(|port| format!("a:{}\n", port + 1)).collect::<String>();
        assert!(parse(many(1024).as_bytes()).is_ok());
        let refused = parse(many(1025).as_bytes()).unwrap_err();
        assert!(refused.starts_with("it names more than 1024 servers"), "{refused}");
    }
}

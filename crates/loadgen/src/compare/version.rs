//! Queries the version of a server for the first lines of a comparison.

use std::io::{Read, Write};

use anyhow::{Context, Result, ensure};

use crate::connect::dialer::Dialer;

/// Returns the version of a running server: its response to `version`, or for Larder the version
/// and commit from its statistics, because its response to `version` names memcached's version.
///
/// # Errors
/// The connection fails, or the server closes it before its responses are complete.
pub(crate) fn ask(dialer: &Dialer) -> Result<String> {
    let mut stream = dialer.open()?;
    stream.write_all(b"version\r\nstats\r\n")?;
    stream.flush()?;
    let mut answer = Vec::new();
    while !is_complete(&answer) {
        let mut part = [0; 4096];
        let received = stream.read(&mut part).context("asking for the version")?;
        ensure!(received > 0, "the server closed the connection before it sent its version");
        ensure!(answer.len() < ANSWER_BYTES_MAX, "the response to `version` is too long");
        answer.extend_from_slice(&part[..received]);
    }
    Ok(version_of(&String::from_utf8_lossy(&answer)))
}

/// True if the responses to `version` and `stats` have been received: each is one line, or for
/// `stats` many lines up to `END`.
fn is_complete(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((_, statistics)) = text.split_once("\r\n") else { return false };
    match statistics.starts_with("STAT ") || "STAT ".starts_with(statistics) {
        true => statistics.ends_with("\r\nEND\r\n"),
        false => statistics.ends_with("\r\n"),
    }
}

fn version_of(answer: &str) -> String {
    let statistic = |name: &str| {
        let mut lines = answer.lines().filter_map(|line| line.strip_prefix("STAT "));
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
    };
    if let (Some(version), Some(commit)) = (statistic("larder_version"), statistic("larder_commit"))
    {
        return format!("larder {version} ({commit})");
    }
    let line = answer.lines().next().and_then(|line| line.strip_prefix("VERSION "));
    line.map_or_else(|| "no answer to `version`".to_owned(), str::to_owned)
}

const ANSWER_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_ends_with_the_statistics_or_with_an_error() {
        for part in ["", "VERSION 1", "VERSION 1\r\n", "VERSION 1\r\nSTA", "VERSION 1\r\nERR"] {
            assert!(!is_complete(part.as_bytes()), "{part:?}");
        }
        assert!(!is_complete(b"VERSION 1\r\nSTAT pid 1\r\n"));
        assert!(is_complete(b"VERSION 1\r\nSTAT pid 1\r\nEND\r\n"));
        assert!(is_complete(b"VERSION 1\r\nEND\r\n"));
        assert!(is_complete(b"ERROR\r\nERROR\r\n"));
    }

    #[test]
    fn larder_is_named_by_its_own_version() {
        let answer = "VERSION 1.6.45\r\nSTAT version 1.6.45\r\nSTAT larder_version 0.1.0\r\n\
                      STAT larder_commit 12345e6\r\nEND\r\n";
        assert_eq!(version_of(answer), "larder 0.1.0 (12345e6)");
        assert_eq!(version_of("VERSION 1.6.45\r\nSTAT pid 1\r\nEND\r\n"), "1.6.45");
        assert_eq!(version_of("ERROR\r\nERROR\r\n"), "no answer to `version`");
    }

    fn asked(answer: &'static [u8]) -> Result<String> {
        use crate::fixtures::serve;
        let address = serve(move |_, mut stream| {
            let mut request = [0; 64];
            let received = stream.read(&mut request).unwrap();
            assert_eq!(&request[..received], b"version\r\nstats\r\n");
            // Sends the response in pieces, all of which must be read.
            answer.chunks(7).for_each(|piece| stream.write_all(piece).unwrap());
        });
        ask(&Dialer::new(address, None, None))
    }

    #[test]
    fn a_server_is_asked_over_a_connection() {
        let version = asked(b"VERSION 1.6.45\r\nSTAT pid 1\r\nSTAT x END\r\nEND\r\n").unwrap();
        assert_eq!(version, "1.6.45");
        let ended = asked(b"VERSION 1.6.45\r\nSTAT pid 1\r\n").unwrap_err().to_string();
        assert_eq!(ended, "the server closed the connection before it sent its version");
    }
}

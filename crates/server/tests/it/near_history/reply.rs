//! Connections of clients, and the replies of a server. They parse without the server's codec.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::time::Duration;

use larder_testkit::{Address, Stream};

/// An item in a reply.
#[derive(Debug)]
pub(super) struct Item {
    /// The key; empty in replies to meta commands.
    pub(super) key: String,
    pub(super) value: Vec<u8>,
    pub(super) cas: Option<u64>,
}

/// A complete reply.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) items: Vec<Item>,
    /// The last line, without its end. For `VA`, the only line.
    pub(super) line: String,
}

impl Reply {
    /// True if the server could not execute the command, or cannot tell whether it did.
    pub(super) fn is_error(&self) -> bool {
        self.line.starts_with("SERVER_ERROR")
    }
}

#[derive(Debug)]
pub(super) struct Connection(BufReader<Stream>);

impl Connection {
    pub(super) fn open(address: &Address, patience: Duration) -> io::Result<Self> {
        let stream = Stream::connect(address)?;
        stream.set_timeout(patience)?;
        Ok(Self(BufReader::new(stream)))
    }

    pub(super) fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.0.get_mut().write_all(request)
    }

    /// Sends a command and reads the reply.
    pub(super) fn ask(&mut self, request: &[u8]) -> io::Result<Reply> {
        self.send(request)?;
        let mut items = Vec::new();
        loop {
            let line = self.line()?;
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["VALUE", key, _, bytes, ref cas @ ..] => {
                    let cas = cas.first().and_then(|cas| cas.parse().ok());
                    items.push(Item { key: key.to_owned(), value: self.value(bytes)?, cas });
                }
                ["VA", bytes, ref flags @ ..] => {
                    let (key, cas) = (String::new(), token(flags));
                    items.push(Item { key, value: self.value(bytes)?, cas });
                    return Ok(Reply { items, line });
                }
                _ => return Ok(Reply { items, line }),
            }
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        self.0.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)?;
        match line.strip_suffix(b"\r\n") {
            Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
            None => Err(ErrorKind::UnexpectedEof.into()),
        }
    }

    fn value(&mut self, bytes: &str) -> io::Result<Vec<u8>> {
        let bytes = bytes.parse::<u64>().ok().filter(|bytes| *bytes <= VALUE_MAX);
        let bytes = bytes.ok_or_else(|| io::Error::other("the length of a value is wrong"))?;
        let mut value = vec![0; bytes as usize + 2];
        self.0.read_exact(&mut value)?;
        match value.strip_suffix(b"\r\n") {
            Some(value) => Ok(value.to_vec()),
            None => Err(io::Error::other("a value does not end with a line end")),
        }
    }
}

/// Returns the cas token among the flags of a meta reply.
pub(super) fn token(flags: &[&str]) -> Option<u64> {
    flags.iter().find_map(|flag| flag.strip_prefix('c')?.parse().ok())
}

const LINE_MAX: u64 = 4096;
const VALUE_MAX: u64 = 4 << 20;

//! Request traces: parses text into requests, or draws requests at random.
//!
//! A trace is lines of `key[,size[,ttl[,op]]]`, compressed by zstd. Keys are numbered in the order
//! of their first appearance. The size covers key and value. A line contains it at the first
//! appearance of the key and at every set. It is valid until a later line contains another size.
//! For a trace without sizes, [`Sizes`] supplies them. The TTL, in seconds, applies only to its own
//! line; without a TTL, or with 0, the item never expires. An op of 1 is a set. A line without an
//! op is a look-aside get: a get, and a set if it misses.

mod drawn;
mod sizes;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::argument::Quoted;

pub use drawn::Drawing;
pub use sizes::Sizes;

/// A trace in memory.
#[derive(Debug, Default)]
pub struct Trace {
    requests: Vec<Request>,
    key_count: u32,
    has_ttls: bool,
}

/// A request, with the size of its item even if its line omits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The key's number.
    pub id: u32,
    /// The operation.
    pub operation: Operation,
    /// Bytes of key and value, multiplied by the scale.
    pub item_bytes: u32,
    /// The TTL of a set, in seconds; 0 means that the item never expires.
    pub ttl_secs: u32,
}

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A get, and a set if it misses.
    LookAside,
    /// A set.
    Set,
}

impl Trace {
    /// Reads a trace and multiplies its sizes by `scale`. A trace without sizes takes them from the
    /// file `sizes`, or from [`Sizes::FILE_NAME`] in the trace's folder.
    ///
    /// # Errors
    /// Names the file and the line that cannot be read.
    pub fn read(path: &Path, sizes: Option<&Path>, scale: u32) -> Result<Self> {
        let sizes = match sizes {
            Some(sizes) => sizes.to_owned(),
            None => path.with_file_name(Sizes::FILE_NAME),
        };
        let reading = || format!("cannot read the trace {}", path.display());
        let file = File::open(path).with_context(reading)?;
        let text = zstd::Decoder::new(file).with_context(reading)?;
        let mut reader = Reader::new(scale, || Sizes::read(&sizes));
        reader.read_lines(BufReader::new(text)).with_context(reading)?;
        Ok(reader.trace)
    }

    /// Parses an uncompressed trace with sizes, for tests.
    pub fn of_lines(lines: &str) -> Result<Self> {
        let mut reader = Reader::new(1, || bail!("no sizes"));
        reader.read_lines(lines.as_bytes())?;
        Ok(reader.trace)
    }

    /// Returns the number of requests.
    pub fn request_count(&self) -> usize {
        self.requests.len()
    }

    /// Returns the request with this index.
    pub fn request(&self, index: usize) -> &Request {
        &self.requests[index]
    }

    /// Returns the number of keys.
    pub fn key_count(&self) -> u32 {
        self.key_count
    }

    /// True if any item has a TTL.
    pub fn has_ttls(&self) -> bool {
        self.has_ttls
    }

    /// Returns the requests, each with its second. A trace with TTLs spans a day in equal steps.
    /// Other traces have 1,000 requests per second.
    pub fn requests(&self) -> impl Iterator<Item = (u32, &Request)> {
        let second_of = |index: usize| {
            let second = if self.has_ttls {
                index as u64 * DAY_SECS / self.requests.len() as u64
            } else {
                index as u64 / REQUESTS_PER_SECOND
            };
            u32::try_from(second).unwrap_or(u32::MAX)
        };
        self.requests.iter().enumerate().map(move |(index, request)| (second_of(index), request))
    }
}

/// Parses lines into requests.
struct Reader<F> {
    scale: u32,
    /// Reads the sizes when the first one is needed.
    read_sizes: F,
    sizes: Option<Sizes>,
    /// The last size of each key's item, multiplied by the scale.
    known: Vec<u32>,
    trace: Trace,
}

impl<F: Fn() -> Result<Sizes>> Reader<F> {
    fn new(scale: u32, read_sizes: F) -> Self {
        Self { scale, read_sizes, sizes: None, known: Vec::new(), trace: Trace::default() }
    }

    fn read_lines(&mut self, mut text: impl BufRead) -> Result<()> {
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            if (&mut text).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            self.read_line(line.trim_ascii_end()).with_context(|| format!("line {number}"))?;
        }
        ensure!(!self.trace.requests.is_empty(), "the trace has no requests");
        self.trace.key_count = u32::try_from(self.known.len())?;
        Ok(())
    }

    fn read_line(&mut self, line: &[u8]) -> Result<()> {
        let mut words = line.split(|byte| *byte == b',');
        let mut number = |name| words.next().map(|word| number(word, name)).transpose();
        let id = number("key")?.context("the line is empty, expected key[,size[,ttl[,op]]]")?;
        let size = number("size")?;
        let ttl_secs = number("ttl")?.unwrap_or(0);
        let operation = match number("op")? {
            None | Some(0) => Operation::LookAside,
            Some(1) => Operation::Set,
            Some(other) => bail!("the op is {other}, expected 1 for a set or none for a get"),
        };
        ensure!(words.next().is_none(), "more than four fields, expected key[,size[,ttl[,op]]]");
        let item_bytes = self.item_bytes(id, size)?;
        self.trace.has_ttls |= ttl_secs != 0;
        self.trace.requests.push(Request { id, operation, item_bytes, ttl_secs });
        Ok(())
    }

    /// Returns the size of the item from this line or an earlier one.
    fn item_bytes(&mut self, id: u32, size: Option<u32>) -> Result<u32> {
        let first_time = id as usize == self.known.len();
        let size = match size {
            None if first_time => Some(self.size_without(id)?),
            size => size,
        };
        let Some(size) = size else {
            let known = self.known.get(id as usize);
            return known.copied().ok_or_else(|| out_of_order(id, self.known.len()));
        };
        let item_bytes = size
            .checked_mul(self.scale)
            .with_context(|| format!("{size} bytes times {} exceed the limit", self.scale))?;
        match self.known.get_mut(id as usize) {
            Some(known) => *known = item_bytes,
            None if first_time => self.known.push(item_bytes),
            None => return Err(out_of_order(id, self.known.len())),
        }
        Ok(item_bytes)
    }

    /// Returns the size of an item whose lines do not contain a size.
    fn size_without(&mut self, id: u32) -> Result<u32> {
        let sizes = match self.sizes.take() {
            Some(sizes) => sizes,
            None => (self.read_sizes)()?,
        };
        let item_bytes = sizes.item_bytes(id);
        self.sizes = Some(sizes);
        Ok(item_bytes)
    }
}

fn number(word: &[u8], name: &str) -> Result<u32> {
    let number = str::from_utf8(word).ok().and_then(|text| text.parse().ok());
    number.with_context(|| format!("the {name} is {}, expected a number", Quoted(word)))
}

/// Keys must be dense, so that the number of lines bounds the memory. Otherwise a large number on a
/// single line could use all memory.
fn out_of_order(id: u32, key_count: usize) -> anyhow::Error {
    anyhow!("key {id} appears before key {key_count}: keys are numbered as they appear")
}

const DAY_SECS: u64 = 86_400;
const REQUESTS_PER_SECOND: u64 = 1000;
const LINE_BYTES_MAX: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, scale: u32) -> Result<Trace> {
        let mut reader = Reader::new(scale, || bail!("no sizes here"));
        reader.read_lines(text.as_bytes())?;
        Ok(reader.trace)
    }

    #[test]
    fn a_size_holds_until_it_is_given_again_and_a_ttl_for_its_line() {
        let trace = read("0,10\n1,20,5\n0\n1\n1,30,7,1\n1\n1,40,0,1", 2).unwrap();
        let get = |id, item_bytes, ttl_secs| Request {
            id,
            operation: Operation::LookAside,
            item_bytes,
            ttl_secs,
        };
        let set = |request| Request { operation: Operation::Set, ..request };
        let expected = [
            get(0, 20, 0),
            get(1, 40, 5),
            get(0, 20, 0),
            get(1, 40, 0),
            set(get(1, 60, 7)),
            get(1, 60, 0),
            set(get(1, 80, 0)),
        ];
        assert_eq!(trace.requests, expected);
        assert_eq!(trace.key_count(), 2);
    }

    #[test]
    fn a_trace_with_ttls_spans_a_day_and_others_a_second_per_thousand_requests() {
        let seconds =
            |trace: &Trace| trace.requests().map(|(second, _)| second).collect::<Vec<_>>();
        assert_eq!(seconds(&read("0,1,9\n0\n0\n0\n", 1).unwrap()), [0, 21_600, 43_200, 64_800]);
        let many = "0,1\n".repeat(2001);
        let seconds = seconds(&read(&many, 1).unwrap());
        assert_eq!((seconds[999], seconds[1000], seconds[2000]), (0, 1, 2));
    }

    #[test]
    fn a_bad_line_is_named_with_what_was_expected() {
        for (text, expected) in [
            ("", "the trace has no requests"),
            ("0,1\n\n", "line 2: the key is \"\", expected a number"),
            ("0,x\n", "line 1: the size is \"x\", expected a number"),
            ("0,1,-1\n", "line 1: the ttl is \"-1\", expected a number"),
            ("0,1,0,2\n", "line 1: the op is 2, expected 1 for a set or none for a get"),
            ("0,1,0,1,1\n", "line 1: more than four fields, expected key[,size[,ttl[,op]]]"),
            (
                "0,1\n4000000000,1\n",
                "line 2: key 4000000000 appears before key 1: keys are numbered as they appear",
            ),
            ("0,1\n2\n", "line 2: key 2 appears before key 1: keys are numbered as they appear"),
            ("0,4294967295\n", "line 1: 4294967295 bytes times 3 exceed the limit"),
            ("0\n", "line 1: no sizes here"),
        ] {
            assert_eq!(format!("{:#}", read(text, 3).unwrap_err()), expected, "{text:?}");
        }
        assert!(read(&"7".repeat(1000), 1).is_err());
    }

    /// Writes files into a folder: a compressed trace, and optionally sizes of 1000 bytes.
    fn folder(lines: &str, with_sizes: bool) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.csv.zst");
        std::fs::write(&path, zstd::encode_all(lines.as_bytes(), 1).unwrap()).unwrap();
        if with_sizes {
            let sizes = folder.path().join(Sizes::FILE_NAME);
            std::fs::write(sizes, "1000\n".repeat(1024)).unwrap();
        }
        (folder, path)
    }

    #[test]
    fn a_compressed_trace_is_read_with_the_sizes_of_its_folder() {
        let (_folder, path) = folder("0\n1,50\n0\n", true);
        let trace = Trace::read(&path, None, 2).unwrap();
        assert_eq!((trace.request_count(), trace.key_count()), (3, 2));
        let sizes: Vec<_> = trace.requests().map(|(_, request)| request.item_bytes).collect();
        assert!((2032..=2126).contains(&sizes[0]), "a size of the file, times 2: {sizes:?}");
        assert_eq!((sizes[1], sizes[2]), (100, sizes[0]), "{sizes:?}");
        assert!(!trace.has_ttls());
    }

    #[test]
    fn sizes_are_needed_only_by_a_trace_without_any() {
        let (_folder, path) = folder("0,50\n0\n", false);
        Trace::read(&path, None, 1).unwrap();
        let (_folder, path) = folder("0,50\n1\n", false);
        let words = format!("{:#}", Trace::read(&path, None, 1).unwrap_err());
        for part in ["cannot read the trace ", "line 2: the trace has no sizes, and those of "] {
            assert!(words.contains(part), "{words:?} lacks {part:?}");
        }
    }

    #[test]
    fn a_file_that_is_no_trace_is_named() {
        let (folder, path) = folder("0,50\n", false);
        let error = |path: &Path| format!("{:#}", Trace::read(path, None, 1).unwrap_err());
        let missing = error(&folder.path().join("missing"));
        assert!(missing.contains("missing: No such file"), "{missing}");
        std::fs::write(&path, "0,50\n").unwrap();
        let plain = error(&path);
        assert!(
            plain.starts_with(&format!("cannot read the trace {}: ", path.display())),
            "{plain}"
        );
        let compressed = zstd::encode_all(&b"0,50\n".repeat(1000)[..], 1).unwrap();
        std::fs::write(&path, &compressed[..compressed.len() - 4]).unwrap();
        let cut_off = error(&path);
        assert!(cut_off.starts_with("cannot read the trace "), "{cut_off}");
    }
}

//! Transfers that the system interrupts or shortens.
//!
//! Direct I/O accepts only whole pages. After a transfer that ends within a page, the next one
//! therefore begins at the start of that page.

use std::io;

use rustix::io::Errno;

use crate::disk::PAGE_BYTES;

/// The number of consecutive transfers that may end within their first page.
const STALLS_MAX: u32 = 16;

/// The completed part of a transfer, in whole pages.
struct Progress {
    done: usize,
    stalls: u32,
}

impl Progress {
    /// Counts transferred bytes. Fails with this kind of error after [`STALLS_MAX`] transfers
    /// without progress.
    fn advance(&mut self, bytes: usize, kind: io::ErrorKind) -> io::Result<()> {
        let whole = bytes - bytes % PAGE_BYTES;
        self.done += whole;
        self.stalls = if whole == 0 { self.stalls + 1 } else { 0 };
        if self.stalls == STALLS_MAX {
            let text = format!("{STALLS_MAX} transfers in a row ended within one page");
            return Err(io::Error::new(kind, text));
        }
        Ok(())
    }
}

/// Writes whole pages. `write` is called with an offset and the remaining bytes, and returns the
/// number of bytes that it wrote.
pub(super) fn write_fully(
    bytes: &[u8],
    mut write: impl FnMut(u64, &[u8]) -> Result<usize, Errno>,
) -> io::Result<()> {
    let mut progress = Progress { done: 0, stalls: 0 };
    while progress.done < bytes.len() {
        match write(progress.done as u64, &bytes[progress.done..]) {
            Ok(written) => progress.advance(written, io::ErrorKind::WriteZero)?,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Reads whole pages. `read` is called with an offset and the buffer for the remaining bytes, and
/// returns the number of bytes that it read. `available` returns the length of the file from offset
/// 0. In the last page of the file, the bytes after the end are set to zero.
pub(super) fn read_fully(
    bytes: &mut [u8],
    available: impl Fn() -> Result<u64, Errno>,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<usize, Errno>,
) -> io::Result<()> {
    let mut progress = Progress { done: 0, stalls: 0 };
    while progress.done < bytes.len() {
        let from = progress.done;
        let part = match read(from as u64, &mut bytes[from..]) {
            Ok(part) => part,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        };
        let end = from + part;
        let is_last_page = bytes.len() - from - part < PAGE_BYTES;
        if part == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if part % PAGE_BYTES != 0 && is_last_page && available()? == end as u64 {
            bytes[end..].fill(0);
            return Ok(());
        }
        progress.advance(part, io::ErrorKind::UnexpectedEof)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lengths that the scripted system transfers, one per call. `None` is an interrupt.
    type Script<'script> = std::slice::Iter<'script, Option<usize>>;

    fn next(script: &mut Script<'_>) -> Result<usize, Errno> {
        let step = script.next().unwrap_or_else(|| panic!("the transfer continues after its end"));
        step.ok_or(Errno::INTR)
    }

    fn written(source: &[u8], script: &[Option<usize>]) -> Vec<u8> {
        let mut file = vec![0; source.len()];
        let mut script = script.iter();
        write_fully(source, |from, bytes| {
            let from = usize::try_from(from).unwrap();
            assert_eq!(from % PAGE_BYTES, 0, "a direct write begins within a page");
            let part = next(&mut script)?;
            file[from..from + part].copy_from_slice(&bytes[..part]);
            Ok(part)
        })
        .unwrap();
        assert_eq!(script.len(), 0, "the write ends early");
        file
    }

    fn source(pages: usize) -> Vec<u8> {
        (0..pages * PAGE_BYTES).map(|at| (at % 251) as u8).collect()
    }

    #[test]
    fn interrupted_and_short_writes_are_continued_at_a_page() {
        let source = source(3);
        let script = [None, Some(5000), None, Some(100), Some(4096), Some(4096)];
        assert!(written(&source, &script) == source, "the file differs from what was written");
    }

    #[test]
    fn a_write_without_progress_fails() {
        let mut calls = 0;
        let error = write_fully(&source(1), |_, _| {
            calls += 1;
            Ok(0)
        });
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::WriteZero);
        assert_eq!(calls, STALLS_MAX);
    }

    #[test]
    fn errors_of_the_system_end_a_transfer() {
        let error = write_fully(&source(1), |_, _| Err(Errno::NOSPC)).unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::NOSPC));
        let mut bytes = source(1);
        let error = read_fully(&mut bytes, || Ok(4096), |_, _| Err(Errno::IO)).unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::IO));
    }

    /// Reads `wanted` bytes of a file, in the steps of the script, into a buffer filled with ones.
    fn read(file: &[u8], wanted: usize, script: &[Option<usize>]) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0xff; wanted];
        let mut script = script.iter();
        let available = || Ok(file.len() as u64);
        read_fully(&mut bytes, available, |from, bytes| {
            let from = usize::try_from(from).unwrap();
            assert_eq!(from % PAGE_BYTES, 0, "a direct read begins within a page");
            let part = next(&mut script)?.min(file.len().saturating_sub(from));
            bytes[..part].copy_from_slice(&file[from..from + part]);
            Ok(part)
        })?;
        assert_eq!(script.len(), 0, "the read ends early");
        Ok(bytes)
    }

    #[test]
    fn interrupted_and_short_reads_are_continued_at_a_page() {
        let file = source(3);
        let script = [None, Some(5000), None, Some(100), Some(4096), Some(4096)];
        assert!(read(&file, file.len(), &script).unwrap() == file, "a read differs from the file");
    }

    #[test]
    fn the_last_page_of_a_file_is_filled_with_zeros() {
        let file = &source(2)[..5000];
        let bytes = read(file, 2 * PAGE_BYTES, &[Some(8192)]).unwrap();
        assert!(bytes[..5000] == *file, "the bytes before the end differ from the file");
        assert!(bytes[5000..].iter().all(|byte| *byte == 0), "bytes after the end are not zero");
    }

    #[test]
    fn pages_behind_the_end_are_an_error() {
        for (len, script) in [(8192, &[Some(8192), Some(0)][..]), (0, &[Some(0)])] {
            let error = read(&source(2)[..len], 3 * PAGE_BYTES, script).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "a file of {len} bytes");
        }
        let endless = vec![Some(4096); 2].into_iter().chain(vec![Some(904); 20]);
        let script: Vec<_> = endless.collect();
        let error = read(&source(3)[..9096], 5 * PAGE_BYTES, &script).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "the file ends in page 2 of 5");
    }
}

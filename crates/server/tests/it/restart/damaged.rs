//! A memory file with a damaged word: the server begins with an empty cache and logs which field is
//! damaged.

use std::fs::File;
use std::os::unix::fs::FileExt;

use anyhow::{Result, ensure};
use larder_testkit::server::Signal;

use super::{Place, get, set};

/// Offset of a word according to docs/region-format.md, the damaged contents, and the name in the
/// log.
const DAMAGES: [(u64, u64, &str); 4] = [
    (400, 0, "number of groups"),
    (400, 1 << 40, "number of groups"),
    (776, u64::MAX, "number of overflow groups"),
    (1024, 999, "evictor place is held by thread slot 999"),
];

#[test]
fn a_damaged_file_is_replaced_by_an_empty_cache() -> Result<()> {
    for (at, value, name) in DAMAGES {
        let place = Place::new()?;
        let (server, mut stream) = place.start(&[])?;
        set(&mut stream, "k", 0, b"v")?;
        server.stop(Signal::KILL)?;
        let file = File::options().write(true).open(place.path())?;
        file.write_all_at(&value.to_le_bytes(), at)?;
        let (server, mut stream) = place.start(&[])?;
        let log = server.log();
        ensure!(log.contains("damaged"), "{name}: {log}");
        ensure!(log.contains(name), "{name}: {log}");
        ensure!(get(&mut stream, "k")?.is_none(), "{name}: the cache is empty");
        set(&mut stream, "k", 0, b"new")?;
        server.stop(Signal::KILL)?;
        let (_server, mut stream) = place.start(&[])?;
        ensure!(
            get(&mut stream, "k")?.as_deref() == Some(b"new"),
            "{name}: the next start attaches"
        );
    }
    Ok(())
}

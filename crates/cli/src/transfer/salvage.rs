//! The items of a damaged directory of a disk tier.

use std::cell::{Cell, RefCell};
use std::io::Write;

use anyhow::Result;
use larder::{TierDamage, TierInspection, TierSalvaged, TierTrust};
use larder_dump::Writer;
use larder_loadgen::argument::{agree, counted};

use super::directory::write;
use super::fetch::{Counts, now_unix_secs};
use super::progress::{Part, Progress};

/// Which items of a damaged directory are exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Past {
    /// Only items that are certainly the newest of their keys
    Current,
    /// All readable items, of which some may be out of date
    Readable,
}

/// The progress of reading a directory: the part that is done, and the items found.
#[derive(Debug)]
pub(crate) struct DirectoryProgress<'a> {
    progress: RefCell<&'a mut Progress>,
    part: Cell<Part>,
    items: Cell<u64>,
    bytes: Cell<u64>,
}

impl<'a> DirectoryProgress<'a> {
    pub(crate) fn new(progress: &'a mut Progress) -> Self {
        let (part, items, bytes) = Default::default();
        Self { progress: RefCell::new(progress), part, items, bytes }
    }

    /// Reports that `done` of `total` segments are read.
    pub(crate) fn note_part(&self, done: usize, total: usize) {
        self.part.set(Part { done, total });
        self.show();
    }

    /// Counts an item that was found.
    pub(crate) fn note_item(&self, bytes: usize) {
        self.items.set(self.items.get() + 1);
        self.bytes.set(self.bytes.get() + bytes as u64);
        self.show();
    }

    fn show(&self) {
        let (items, bytes) = (self.items.get(), self.bytes.get());
        self.progress.borrow_mut().show_part(self.part.get(), items, bytes);
    }
}

/// Writes the items of a damaged directory whose keys begin with `prefix`. Reports on stderr what
/// is damaged and the possible consequences.
pub(super) fn export<W: Write>(
    directory: &TierInspection,
    prefix: &[u8],
    past: Past,
    writer: &mut Writer<W>,
    progress: &mut Progress,
) -> Result<(Counts, TierSalvaged)> {
    let mut counts = Counts::default();
    let mut outcome = Ok(());
    let shown = DirectoryProgress::new(progress);
    let salvaged = directory.salvage(
        now_unix_secs(),
        |done, total| shown.note_part(done, total),
        report,
        |item, trust| {
            let is_wanted = past == Past::Readable || trust == TierTrust::Current;
            if outcome.is_err() || !is_wanted || !item.key.starts_with(prefix) {
                return;
            }
            if item.stale {
                counts.stale += 1;
                return;
            }
            outcome = write(item, writer);
            counts.bytes += (item.key.len() + item.value.len()) as u64;
            shown.note_item(item.key.len() + item.value.len());
        },
    )?;
    outcome?;
    eprint!("{}", summary(&salvaged));
    if salvaged.doubtful > 0 {
        let which = match past {
            Past::Current => "they are left out; --past-damage readable writes them",
            Past::Readable => "they are in the dump; --past-damage current leaves them out",
        };
        eprintln!("larder: {which}");
    }
    Ok((counts, salvaged))
}

/// Reports a damaged place on stderr.
pub(crate) fn report(damage: &TierDamage) {
    eprintln!("larder: damaged: {damage}");
}

/// Returns the consequences of damage, as lines for stderr.
pub(crate) fn summary(salvaged: &TierSalvaged) -> String {
    let TierSalvaged { findings, damages, lost_bytes, doubtful, withheld } = salvaged;
    let mut text = format!(
        "larder: {} {} damaged, {lost_bytes} bytes are lost; {} can be read\n",
        counted(*damages, "place"),
        agree(*damages, "is", "are"),
        counted(findings.items, "item")
    );
    if *doubtful > 0 {
        text += &format!(
            "larder: {doubtful} of them precede a damaged place, where a newer value, a delete or \
             a flush may be lost\n"
        );
    }
    if *withheld > 0 {
        text += &format!(
            "larder: {withheld} more keys have only an older value: the newest one is damaged\n"
        );
    }
    text
}

//! Reports of items, without their values.

use larder_item::{Meta, Second};

use crate::engine::Engine;
use crate::index::cursor::Cursor;
use crate::index::find::Found;
use crate::inspect::dump::DumpFilter;
use crate::process::thread_slot::ThreadSlot;
use crate::process::wait::Wait;
use crate::segment::header::begun;
use crate::segment::record::PIECE_HEAD_BYTES;

/// A report of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemReport {
    /// The length of its key in bytes.
    pub key_bytes: usize,
    /// Its metadata.
    pub meta: Meta,
    /// The memory of its records in bytes, without its slot in the index.
    pub memory_bytes: usize,
    /// The second in which it was stored or last changed.
    pub stored: Second,
    /// True if `stored` is only approximate, because the item was read since it was stored. Then
    /// `stored` is the second in which the use of the item's segment started. It is too early by at
    /// most the time in which the segment was filled, and too late if eviction has moved the item.
    pub is_stored_about: bool,
    /// How often the item was recently read, as counted for eviction: 0 to 3.
    pub reads: u32,
}

/// The items of one step of a walk.
#[derive(Clone, Debug, Default)]
pub struct ItemReports {
    /// The reports.
    pub items: Vec<ItemReport>,
    /// The keys of the items, concatenated in the same order.
    pub keys: Vec<u8>,
}

impl ItemReports {
    /// Removes all reports and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.items.clear();
        self.keys.clear();
    }
}

impl Engine {
    /// Appends reports of the items in one group that match `filter` to `out`, and moves the cursor
    /// to the next group. Returns false at the end of the walk. See [`Engine::dump_group`].
    pub fn report_group(
        &self,
        thread: &ThreadSlot,
        cursor: &mut Cursor,
        filter: &DumpFilter<'_>,
        now: Second,
        out: &mut ItemReports,
    ) -> bool {
        self.visit_group(thread, cursor, filter, now, |found| {
            out.items.push(self.report_of(found, now));
            let key_at = found.record_at + found.header.key_at();
            self.region().memory().read(key_at, found.header.key_bytes(), &mut out.keys);
        })
    }

    /// Returns the report of the key's item, or `None` if the key has no item. Does not count a
    /// read.
    ///
    /// Cost: same as a read, without the copy of the value.
    pub fn report_item(&self, key: &[u8], now: Second) -> Option<ItemReport> {
        self.segments().flush_if_due(now);
        let hash = self.index().hash(key);
        let mut wait = Wait::default();
        loop {
            let found = self.index().find(hash, key)?;
            if self.index().death(&found, now).is_some() && self.index().is_still_there(&found) {
                return None;
            }
            if let Some(report) = self.look_at(&found, now, |engine| engine.report_of(&found, now))
            {
                return Some(report);
            }
            self.wait_for_peers(&mut wait).ok()?;
        }
    }

    fn report_of(&self, found: &Found, now: Second) -> ItemReport {
        let meta = self.index().meta(found, self.index().value_bytes(found), now);
        let pieces_bytes = match found.header.is_large() {
            true => {
                let heads = self.index().table(found).count() * PIECE_HEAD_BYTES;
                meta.value_bytes.saturating_add(heads).next_multiple_of(8)
            }
            false => 0,
        };
        ItemReport {
            key_bytes: found.header.key_bytes(),
            meta,
            memory_bytes: found.header.record_bytes() + pieces_bytes,
            stored: if meta.fetched { begun(found.sequence).min(meta.seen) } else { meta.seen },
            is_stored_about: meta.fetched,
            reads: found.slot.freq() as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use larder_item::{Deadline, StoreMode};

    use super::*;
    use crate::fixtures::SMALL;
    use crate::ops::request::StoreRequest;
    use crate::process::operation::Operation;

    #[test]
    fn a_report_has_the_times_the_memory_and_the_reads_of_an_item() {
        let engine = Engine::create(&SMALL).unwrap();
        let thread = engine.register().unwrap();
        let request = StoreRequest {
            flags: 7,
            deadline: Deadline(500),
            ..StoreRequest::new(b"key", StoreMode::Set)
        };
        engine.store(&Operation::new(&thread, 20), &request, &[1; 100]).unwrap();
        engine
            .store(
                &Operation::new(&thread, 41),
                &StoreRequest::new(b"large", StoreMode::Set),
                &[1; 99_999],
            )
            .unwrap();
        let report = engine.report_item(b"key", 100).unwrap();
        assert_eq!((report.key_bytes, report.meta.value_bytes, report.meta.flags), (3, 100, 7));
        assert!((120..=136).contains(&report.memory_bytes), "{report:?}");
        assert_eq!((report.stored / 2, report.is_stored_about, report.reads), (10, false, 0));
        engine.read(&thread, b"key", 200, &mut Vec::new(), |_, _| ());
        let report = engine.report_item(b"key", 201).unwrap();
        assert_eq!((report.is_stored_about, report.reads, report.meta.seen / 2), (true, 1, 100));
        assert!(report.stored <= 20, "{report:?}");
        let large = engine.report_item(b"large", 100).unwrap();
        assert!((100_000..102_000).contains(&large.memory_bytes), "{large:?}");
        assert_eq!(engine.report_item(b"key", 500), None);
        assert_eq!(engine.report_item(b"other", 100), None);
    }

    #[test]
    fn a_walk_reports_each_item_with_its_key() {
        let engine = Engine::create(&SMALL).unwrap();
        let thread = engine.register().unwrap();
        for number in 0..500 {
            let key = format!("{}{number}", if number % 2 == 0 { "even:" } else { "odd:" });
            let request = StoreRequest::new(key.as_bytes(), StoreMode::Set);
            engine.store(&Operation::new(&thread, 10), &request, &vec![0; number]).unwrap();
        }
        let (mut cursor, mut out, mut shown) =
            (Cursor::default(), ItemReports::default(), std::collections::BTreeSet::new());
        let filter = DumpFilter { key_prefix: b"even:" };
        while engine.report_group(&thread, &mut cursor, &filter, 10, &mut out) {
            let mut at = 0;
            for item in &out.items {
                let key = std::str::from_utf8(&out.keys[at..][..item.key_bytes]).unwrap();
                at += item.key_bytes;
                let number: usize = key.strip_prefix("even:").unwrap().parse().unwrap();
                assert_eq!(item.meta.value_bytes, number);
                assert!(shown.insert(number), "{key} is shown twice");
            }
            out.clear();
        }
        assert_eq!(shown.len(), 250);
    }
}

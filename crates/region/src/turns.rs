//! Yield points: before every access to a region, a thread may yield to another.
//!
//! With the feature `interleavings`, a scheduler that explores the possible orders of threads is
//! called before each access, and a long copy is split, so that it can be interrupted in the
//! middle. Without the feature this code is not compiled.

/// The reason for a yield point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YieldPoint {
    /// The thread is about to access the region.
    Access,
    /// The thread waits for another thread: continuing immediately would be useless.
    Wait,
}

/// Lets the scheduler of this thread, if any, run other threads first.
#[inline]
pub fn offer(turn: YieldPoint) {
    #[cfg(feature = "interleavings")]
    if let Some(scheduler) = SCHEDULER.get() {
        scheduler(turn);
    }
    let _ = turn;
}

#[cfg(feature = "interleavings")]
thread_local! {
    static SCHEDULER: std::cell::Cell<Option<fn(YieldPoint)>> = const { std::cell::Cell::new(None) };
}

/// Passes all further yield points of the calling thread to `scheduler`; `None` stops this.
#[cfg(feature = "interleavings")]
pub fn schedule_by(scheduler: Option<fn(YieldPoint)>) {
    SCHEDULER.set(scheduler);
}

/// Returns the offset and length of the parts in which `len` bytes are copied or compared. There is
/// a yield point before each part.
#[cfg(not(feature = "interleavings"))]
#[inline]
pub(crate) fn parts(len: usize) -> impl Iterator<Item = (usize, usize)> {
    std::iter::once((0, len))
}

#[cfg(feature = "interleavings")]
pub(crate) fn parts(len: usize) -> impl Iterator<Item = (usize, usize)> {
    // A copy that can be torn in a few places is enough: more yield points only enlarge the search.
    const PARTS_MAX: usize = 4;
    const PART_BYTES_MIN: usize = 16;
    let part_bytes = len.div_ceil(PARTS_MAX).next_multiple_of(8).max(PART_BYTES_MIN);
    (0..len).step_by(part_bytes).map(move |at| {
        offer(YieldPoint::Access);
        (at, part_bytes.min(len - at))
    })
}

#[cfg(all(test, feature = "interleavings"))]
mod tests {
    use super::*;
    use crate::Memory;

    #[test]
    fn every_access_has_a_yield_point_and_a_long_copy_several() {
        thread_local!(static TURNS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) });
        let turns = |access: &mut dyn FnMut()| {
            TURNS.set(0);
            schedule_by(Some(|_| TURNS.set(TURNS.get() + 1)));
            access();
            schedule_by(None);
            TURNS.get()
        };
        let memory = Memory::private(8192).unwrap();
        assert_eq!(turns(&mut || _ = memory.word(8)), 1);
        assert_eq!(turns(&mut || _ = memory.half(8)), 1);
        assert_eq!(turns(&mut || memory.write(0, &[7; 1000])), 4);
        assert_eq!(turns(&mut || memory.copy(0, 4096, 40)), 3);
        assert_eq!(turns(&mut || memory.read(4096, 40, &mut Vec::new())), 3);
        assert_eq!(turns(&mut || assert!(memory.equals(4096, &[7; 40]))), 3);
        let mut copied = Vec::new();
        memory.read(4090, 50, &mut copied);
        assert_eq!(copied, [[0; 6].as_slice(), &[7; 40], &[0; 4]].concat());
    }
}

//! Storage for memory that the kernel works on, by number, until the operation completes.

/// Numbered storage for memory that the kernel works on.
#[derive(Debug)]
pub(super) struct Places<T> {
    places: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Places<T> {
    pub(super) fn keep(&mut self, kept: T) -> u64 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.places[number] = Some(kept);
        number as u64
    }

    pub(super) fn take(&mut self, number: u64) -> Option<T> {
        let number = usize::try_from(number).ok()?;
        let kept = self.places.get_mut(number)?.take()?;
        self.free.push(number);
        Some(kept)
    }
}

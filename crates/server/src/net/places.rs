//! Storage by number for what an operation that is under way needs at its end.

/// Numbered storage.
#[derive(Debug)]
pub(crate) struct Places<T> {
    places: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Places<T> {
    pub(crate) fn keep(&mut self, kept: T) -> u64 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.places[number] = Some(kept);
        number as u64
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.places.get_mut(usize::try_from(number).ok()?)?.as_mut()
    }

    /// True if nothing is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.places.len()
    }

    pub(crate) fn take(&mut self, number: u64) -> Option<T> {
        let number = usize::try_from(number).ok()?;
        let kept = self.places.get_mut(number)?.take()?;
        self.free.push(number);
        Some(kept)
    }
}

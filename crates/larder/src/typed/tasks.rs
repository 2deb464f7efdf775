//! Loads of typed caches in tasks of a tokio runtime.

use std::borrow::Borrow;

use super::TypedCache;
use super::codec::Codec;
use super::key::Key;
use crate::api::load::{LoadError, LoaderError};

impl<K: Key + ?Sized, V, C: Codec<V>> TypedCache<K, V, C> {
    /// Returns the value of a key; on a miss, calls `loader`, waits for its result and stores it.
    /// See [`Cache::get_or_load_async`](crate::Cache::get_or_load_async) for loads in tasks, and
    /// [`TypedCache::get_or_load`] for values.
    ///
    /// # Panics
    /// As with [`Cache::get_or_load_async`](crate::Cache::get_or_load_async).
    ///
    /// # Errors
    /// [`LoadError`]
    ///
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// # runtime.block_on(async {
    /// use larder::{Cache, TypedCache};
    ///
    /// async fn find_name(id: u64) -> Result<String, std::io::Error> {
    ///     Ok(format!("user {id}"))
    /// }
    ///
    /// let names: TypedCache<u64, String> = TypedCache::new(Cache::builder().open()?).prefix("name:");
    /// assert_eq!(names.get_or_load_async(&7, || find_name(7)).await?, "user 7");
    /// assert_eq!(names.get(&7)?.as_deref(), Some("user 7"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn get_or_load_async<Q, E, F>(
        &self,
        key: &Q,
        loader: impl FnOnce() -> F,
    ) -> Result<V, LoadError<E>>
    where
        K: Borrow<Q>,
        Q: Key + ?Sized,
        E: Send + Sync + 'static,
        F: Future<Output = Result<V, E>>,
    {
        let key = self.key(key);
        let key = key.bytes()?;
        let (mut loader, mut bytes) = (Some(loader), Vec::new());
        for is_last in [false, true] {
            let mut own = None;
            bytes.clear();
            let (unused, result) = (&mut loader, &mut own);
            let load = move || async move {
                let loader = unused.take().expect("a load that calls its loader is the last");
                let value = loader().await.map_err(LoaderError::Failed)?;
                let loaded = self.encoded(key, &value).map_err(LoaderError::Codec)?;
                *result = Some(value);
                Ok(loaded)
            };
            self.cache.load_in_task(self.wanted(key), &mut bytes, load).await?;
            let is_last = is_last || loader.is_none();
            if let Some(result) = self.landed(key, own, &bytes, is_last) {
                return result.map_err(LoadError::Codec);
            }
        }
        unreachable!("the last attempt has a result")
    }
}

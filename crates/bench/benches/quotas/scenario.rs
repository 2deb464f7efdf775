//! The requests of two tenants.

use anyhow::Result;
use larder_bench::mix;
use larder_loadgen::trace::{Request, Trace};

/// The traces of the tenants.
pub(crate) struct Scenario<'a> {
    pub(crate) others: &'a Trace,
    pub(crate) flooder: Option<&'a Trace>,
}

/// One of the tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tenant {
    Others,
    Flooder,
}

/// A cache key: the prefix of the tenant, and a hash of the number in its trace.
pub(crate) type Key = [u8; 16];

/// A request of a tenant.
pub(crate) struct TenantRequest<'a> {
    pub(crate) tenant: Tenant,
    pub(crate) key: Key,
    pub(crate) second: u32,
    pub(crate) request: &'a Request,
}

impl Scenario<'_> {
    /// Passes the requests of both tenants in turn to `play`.
    ///
    /// # Errors
    /// The first error of `play`.
    pub(crate) fn play(
        &self,
        mut play: impl FnMut(&TenantRequest<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut turn = 0;
        for (second, request) in self.others.requests() {
            let key = key_of(b'o', u64::from(request.id));
            play(&TenantRequest { tenant: Tenant::Others, key, second, request })?;
            if let Some(flooder) = self.flooder {
                let lap = (turn / flooder.request_count()) as u64;
                let request = flooder.request(turn % flooder.request_count());
                let key = key_of(b'f', lap << 32 | u64::from(request.id));
                play(&TenantRequest { tenant: Tenant::Flooder, key, second, request })?;
                turn += 1;
            }
        }
        Ok(())
    }
}

fn key_of(prefix: u8, number: u64) -> Key {
    let hash = mix(number);
    let digit = |place: usize| b"0123456789abcdef"[(hash >> (60 - 4 * place) & 15) as usize];
    std::array::from_fn(|place| match place {
        0 => prefix,
        1 => b':',
        place => digit(place - 2),
    })
}

/// Returns the tenant of a key.
pub(crate) fn tenant_of(key: &[u8]) -> Tenant {
    if key.first() == Some(&b'f') { Tenant::Flooder } else { Tenant::Others }
}

/// Returns a trace that reads and stores each key once.
pub(crate) fn scan() -> Result<Trace> {
    let lines: String = (0..SCANNED).map(|id| format!("{id},{SCANNED_BYTES}\n")).collect();
    Trace::of_lines(&lines)
}

const SCANNED: u32 = 100_000;
/// About the mean size of the other tenants' items.
const SCANNED_BYTES: u32 = 2048;

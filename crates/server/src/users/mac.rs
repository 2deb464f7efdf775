//! Remembers passwords that were verified, as HMACs under a key that only this process has. An
//! argon2 verification takes tens of milliseconds, so clients that reconnect must not repeat it.

use ring::hmac;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::secret::equal;

/// The key of the process. Without it, nothing can be learned from a [`Mac`].
pub(super) struct MacKey(hmac::Key);

/// The HMAC-SHA256 of a name and a password.
#[derive(Clone, Copy)]
pub(super) struct Mac(hmac::Tag);

impl MacKey {
    /// Creates a random key.
    ///
    /// # Errors
    /// Fails if the system has no random numbers.
    pub(super) fn new() -> rustix::io::Result<Self> {
        let mut bytes = [0; 32];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    pub(super) fn mac(&self, name: &[u8], password: &[u8]) -> Mac {
        let mut context = hmac::Context::with_key(&self.0);
        // The length separates the name from the password.
        context.update(&(name.len() as u64).to_le_bytes());
        context.update(name);
        context.update(password);
        Mac(context.sign())
    }
}

/// The bytes of a [`Mac`], as the key of a map.
pub(super) type MacBytes = [u8; 32];

impl Mac {
    /// Returns the bytes. Do not compare them with others in variable time to admit a user.
    pub(super) fn bytes(&self) -> MacBytes {
        self.0.as_ref().try_into().expect("HMAC-SHA256 has 32 bytes")
    }

    /// Compares in constant time.
    pub(super) fn is(&self, other: &Self) -> bool {
        equal(self.0.as_ref(), other.0.as_ref())
    }
}

impl std::fmt::Debug for MacKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MacKey")
    }
}

impl std::fmt::Debug for Mac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mac")
    }
}

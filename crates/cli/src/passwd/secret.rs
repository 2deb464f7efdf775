//! Hashes a password, and creates a token.

use anyhow::{Result, anyhow};
use argon2::password_hash::PasswordHasher;
use argon2::{Algorithm, Argon2, Params, Version};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

/// Returns the argon2id hash of a password, in the PHC format.
pub(super) fn hashed(password: &[u8]) -> Result<String> {
    let params =
        Params::new(MEMORY_KIB, PASSES, LANES, None).map_err(|error| anyhow!("{error}"))?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let salt = random::<16>()?;
    let hash =
        argon2.hash_password_with_salt(password, &salt).map_err(|error| anyhow!("{error}"))?;
    Ok(hash.to_string())
}

/// Prints a new token, and returns its hash.
pub(super) fn hashed_token() -> Result<String> {
    let token = hex(&random::<32>()?);
    eprintln!("larder: the token of the user, for Authorization: Bearer:\n{token}");
    Ok(format!("sha256:{}", hex(digest(&SHA256, token.as_bytes()).as_ref())))
}

fn random<const BYTES: usize>() -> Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| anyhow!("the system has no random numbers"))?;
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The parameters that OWASP recommends for argon2id (Password Storage Cheat Sheet, 2024).
const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
const LANES: u32 = 1;

//! Sessions of a web site: each expires 30 minutes after its last use, and all sessions of a user
//! end when the user changes the password.
//!
//! `cargo run --release -p larder --example session_store`

use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use larder::{Cache, Clock};

const IDLE_MAX: Duration = Duration::from_secs(30 * 60);

struct Sessions {
    cache: Cache,
    tokens: RandomState,
}

impl Sessions {
    fn open() -> Result<Self, Box<dyn Error>> {
        // The example moves the clock itself instead of waiting for half an hour.
        let cache = Cache::builder().memory_bytes(64 << 20).clock(Clock::Ticked).open()?;
        Ok(Self { cache, tokens: RandomState::new() })
    }

    /// Begins a session and returns its key. (A real site uses a cryptographic generator for the
    /// token.)
    fn begin(&self, user: u64, cart: &str) -> Result<String, larder::StoreError> {
        loop {
            let token = self.tokens.hash_one((user, self.cache.len()));
            let key = format!("session:{user}:{token:016x}");
            if self.cache.add(&key, cart, Some(IDLE_MAX))? {
                return Ok(key);
            }
        }
    }

    /// Returns the content of a session and keeps it alive.
    fn see(&self, key: &str) -> Result<Option<String>, larder::StoreError> {
        let cart = self.cache.get_and_touch(key, Some(IDLE_MAX))?;
        Ok(cart.map(|cart| String::from_utf8_lossy(&cart).into_owned()))
    }

    /// Keeps a session alive, as an open page does from time to time. Returns false if the session
    /// has ended.
    fn keep(&self, key: &str) -> Result<bool, larder::StoreError> {
        self.cache.touch(key, Some(IDLE_MAX))
    }

    /// Ends all sessions of a user.
    fn end_all(&self, user: u64) -> Result<u64, larder::StoreError> {
        self.cache.remove_prefix(format!("session:{user}:"))
    }

    fn pass(&self, minutes: u32) {
        self.cache.tick(self.cache.now() + minutes * 60);
    }
}

/// Runs the example.
pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let sessions = Sessions::open()?;
    for user in 1000..21_000 {
        sessions.begin(user, "nothing yet")?;
    }
    let (phone, laptop) = (sessions.begin(7, "3 books")?, sessions.begin(7, "a lamp")?);
    println!("{} sessions, two of user 7: {phone} and {laptop}", sessions.cache.len());

    for _ in 0..4 {
        sessions.pass(20);
        assert_eq!(sessions.see(&phone)?.as_deref(), Some("3 books"));
    }
    assert_eq!(sessions.see(&laptop)?, None);
    println!(
        "80 minutes later the phone, used every 20 minutes, still holds its books; the laptop's session expired"
    );

    let laptop = sessions.begin(7, "a chair")?;
    for _ in 0..3 {
        sessions.pass(29);
        assert!(sessions.keep(&phone)?);
        assert!(sessions.keep(&laptop)?);
    }
    println!("an open page keeps its session: the laptop holds {:?}", sessions.see(&laptop)?);

    let ended = sessions.end_all(7)?;
    assert_eq!((ended, sessions.see(&phone)?, sessions.see(&laptop)?), (2, None, None));
    println!("user 7 changes the password: {ended} sessions ended");

    let idle = sessions.cache.memory().items;
    sessions.cache.maintain();
    let left = sessions.cache.memory().items;
    println!(
        "20000 idle sessions took {} KiB until they were reclaimed; now {left} bytes",
        idle >> 10
    );
    Ok(())
}

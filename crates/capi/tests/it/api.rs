//! Runs the scenes of conformance/api through the functions of larder.h.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr;

use larder_c::{
    Entry, Handle, Item, LARDER_KEY_BYTES_MAX, LeaseToken, Options, Status, Tier, WalkCursor, flag,
    larder_add, larder_add_i64, larder_append, larder_cas_i64, larder_clear, larder_close,
    larder_compare_and_set, larder_connect, larder_decrement, larder_delete, larder_get,
    larder_get_many, larder_increment, larder_keys, larder_keys_close, larder_keys_next,
    larder_lease, larder_length, larder_open, larder_peek, larder_prepend, larder_release,
    larder_remove_prefix, larder_replace, larder_set, larder_stop, larder_touch, larder_walk,
    tier_mode,
};
use larder_testkit::api::{FrontDoor, Got, Settings, ToStore, play, play_on_server};
use larder_testkit::{Address, ServerUnderTest, Transport, larderd_of_this_build};

struct Abi {
    cache: *mut Handle,
    /// The server of a client; it ends with this value.
    _server: Option<ServerUnderTest>,
}

impl Drop for Abi {
    fn drop(&mut self) {
        // SAFETY: `open` made the handle, and `Abi` owns it.
        unsafe { larder_close(self.cache) };
    }
}

/// Returns the name of a status in the scenes: the name in the header, in lower case.
fn named(status: Status) -> String {
    let mut name = String::new();
    for letter in format!("{status:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

impl Abi {
    fn open(settings: &Settings) -> Result<Self, String> {
        let path = settings.tier.as_ref().map(|tier| tier.path.as_os_str().as_encoded_bytes());
        let path = path.map(|path| CString::new(path).unwrap());
        let tier = settings.tier.as_ref().zip(path.as_ref()).map(|(tier, path)| Tier {
            struct_bytes: size_of::<Tier>(),
            path: path.as_ptr(),
            bytes: tier.bytes,
            dirty_bytes: 64 << 20,
            mode: u32::from(tier.is_cache) * tier_mode::LARDER_MODE_CACHE,
            durability: 0,
            interval_ms: 0,
            admission: 0,
            wait_ms: 0,
            stop_ms: 0,
            progress: None,
            progress_context: ptr::null_mut(),
        });
        let options = Options {
            struct_bytes: size_of::<Options>(),
            memory_bytes: 8 << 20,
            memory_bytes_max: 0,
            item_bytes_max: 0,
            flags: if settings.cas { flag::LARDER_CAS } else { 0 },
            permissions: 0,
            path: ptr::null(),
            tier: tier.as_ref().map_or(ptr::null(), ptr::from_ref),
            processes_max: 0,
            reserved: 0,
        };
        let (mut cache, mut why) = (ptr::null_mut(), [0; 300]);
        // SAFETY: the pointers are to local variables of these types.
        let status =
            unsafe { larder_open(&raw const options, &raw mut cache, why.as_mut_ptr(), why.len()) };
        // SAFETY: `larder_open` ends the reason with a zero.
        let why = unsafe { CStr::from_ptr(why.as_ptr()) }.to_string_lossy().into_owned();
        match status {
            Status::Ok => Ok(Self { cache, _server: None }),
            Status::NotOpened => Err(why),
            other => panic!("{other:?}: {why}"),
        }
    }
}

// SAFETY, for all blocks below: the handle is open, and pointers are to local variables and slices.
#[allow(clippy::undocumented_unsafe_blocks, reason = "the comment above covers all")]
impl FrontDoor for Abi {
    fn get(&mut self, key: &[u8]) -> (String, Option<Got>) {
        let (key, key_bytes) = (key.as_ptr().cast(), key.len());
        let mut item = MaybeUninit::<Item>::uninit();
        let status = unsafe { larder_peek(self.cache, key, key_bytes, item.as_mut_ptr()) };
        let known = unsafe { item.assume_init() };
        if status != Status::Ok {
            return (named(status), None);
        }
        let mut value = vec![0; known.value_bytes as usize];
        let status = unsafe {
            larder_get(
                self.cache,
                key,
                key_bytes,
                value.as_mut_ptr().cast(),
                value.len(),
                item.as_mut_ptr(),
            )
        };
        let known = unsafe { item.assume_init() };
        let (ttl, token, flags) = (known.ttl_secs, known.cas, known.flags);
        (named(status), Some(Got { value, ttl, token, flags }))
    }

    fn store(&mut self, how: &str, key: &[u8], item: &ToStore<'_>) -> String {
        let (cache, key, key_bytes) = (self.cache, key.as_ptr().cast(), key.len());
        let (value, value_bytes) = (item.value.as_ptr().cast(), item.value.len());
        let (ttl, flags) = (item.ttl, item.flags);
        named(unsafe {
            match how {
                "set" => larder_set(cache, key, key_bytes, value, value_bytes, ttl, flags),
                "add" => larder_add(cache, key, key_bytes, value, value_bytes, ttl, flags),
                "replace" => larder_replace(cache, key, key_bytes, value, value_bytes, ttl, flags),
                "append" => larder_append(cache, key, key_bytes, value, value_bytes),
                _ => larder_prepend(cache, key, key_bytes, value, value_bytes),
            }
        })
    }

    fn swap(&mut self, key: &[u8], item: &ToStore<'_>, token: u64) -> String {
        let (key, key_bytes) = (key.as_ptr().cast(), key.len());
        let (value, value_bytes) = (item.value.as_ptr().cast(), item.value.len());
        named(unsafe {
            larder_compare_and_set(
                self.cache,
                key,
                key_bytes,
                value,
                value_bytes,
                0,
                item.flags,
                token,
                ptr::null_mut(),
            )
        })
    }

    fn delete(&mut self, key: &[u8]) -> String {
        named(unsafe { larder_delete(self.cache, key.as_ptr().cast(), key.len()) })
    }

    fn touch(&mut self, key: &[u8], ttl: u32) -> String {
        named(unsafe { larder_touch(self.cache, key.as_ptr().cast(), key.len(), ttl) })
    }

    fn count(&mut self, up: bool, key: &[u8], delta: u64) -> (String, Option<u64>) {
        let (key, key_bytes, mut number) = (key.as_ptr().cast(), key.len(), 0);
        let status = unsafe {
            match up {
                true => larder_increment(self.cache, key, key_bytes, delta, &raw mut number),
                false => larder_decrement(self.cache, key, key_bytes, delta, &raw mut number),
            }
        };
        (named(status), (status == Status::Ok).then_some(number))
    }

    fn get_many(&mut self, keys: &[Vec<u8>]) -> Vec<Option<(Vec<u8>, u32)>> {
        let lengths: Vec<u32> = keys.iter().map(|key| key.len() as u32).collect();
        let (keys, mut values) = (keys.concat(), vec![0u8; 1 << 20]);
        let mut items: Vec<MaybeUninit<Item>> = vec![MaybeUninit::uninit(); lengths.len()];
        let status = unsafe {
            larder_get_many(
                self.cache,
                keys.as_ptr().cast(),
                lengths.as_ptr(),
                lengths.len(),
                values.as_mut_ptr().cast(),
                values.len(),
                items.as_mut_ptr().cast(),
            )
        };
        assert_eq!(status, Status::Ok);
        items
            .iter()
            .map(|item| unsafe { item.assume_init() })
            .map(|item| {
                let at = item.value_at as usize;
                (item.status == Status::Ok)
                    .then(|| (values[at..][..item.value_bytes as usize].to_vec(), item.flags))
            })
            .collect()
    }

    fn keys(&mut self, prefix: &[u8]) -> Vec<Vec<u8>> {
        let (mut walk, mut found) = (ptr::null_mut(), Vec::new());
        let (mut key, mut key_bytes) = ([0u8; LARDER_KEY_BYTES_MAX], 0);
        unsafe {
            let begun =
                larder_keys(self.cache, prefix.as_ptr().cast(), prefix.len(), &raw mut walk);
            assert_eq!(begun, Status::Ok);
            while larder_keys_next(walk, key.as_mut_ptr().cast(), &raw mut key_bytes) == Status::Ok
            {
                found.push(key[..key_bytes].to_vec());
            }
            larder_keys_close(walk);
        }
        found
    }

    fn remove_prefix(&mut self, prefix: &[u8]) -> (String, Option<u64>) {
        let mut removed = 0;
        let status = unsafe {
            larder_remove_prefix(self.cache, prefix.as_ptr().cast(), prefix.len(), &raw mut removed)
        };
        (named(status), (status == Status::Ok).then_some(removed))
    }

    fn clear(&mut self) {
        assert_eq!(unsafe { larder_clear(self.cache) }, Status::Ok);
    }

    fn length(&mut self) -> u64 {
        let mut items = 0;
        assert_eq!(unsafe { larder_length(self.cache, &raw mut items) }, Status::Ok);
        items
    }

    fn add_signed(&mut self, key: &[u8], delta: i64, ttl: u32) -> (String, Option<i64>) {
        let (key, key_bytes, mut number) = (key.as_ptr().cast(), key.len(), 0);
        let status =
            unsafe { larder_add_i64(self.cache, key, key_bytes, delta, ttl, &raw mut number) };
        (named(status), (status == Status::Ok).then_some(number))
    }

    fn cas_signed(&mut self, key: &[u8], old: i64, new: i64) -> String {
        named(unsafe { larder_cas_i64(self.cache, key.as_ptr().cast(), key.len(), old, new) })
    }

    fn lease(&mut self, key: &[u8], ms: u32) -> (String, [u64; 4]) {
        let mut lease = LeaseToken { words: [0; 4] };
        let (key, key_bytes) = (key.as_ptr().cast(), key.len());
        let status = unsafe { larder_lease(self.cache, key, key_bytes, ms, &raw mut lease) };
        (named(status), lease.words)
    }

    fn release(&mut self, key: &[u8], words: [u64; 4]) -> String {
        let (key, key_bytes, lease) = (key.as_ptr().cast(), key.len(), LeaseToken { words });
        named(unsafe { larder_release(self.cache, key, key_bytes, &raw const lease) })
    }

    fn reports(&mut self, prefix: &[u8]) -> Vec<(Vec<u8>, u64)> {
        let (mut cursor, mut found) = (WalkCursor { words: [0; 4] }, Vec::new());
        let mut entries = [const { MaybeUninit::<Entry>::uninit() }; 64];
        let (mut keys, mut count) = (vec![0u8; 16 << 10], 0);
        loop {
            let status = unsafe {
                larder_walk(
                    self.cache,
                    &raw mut cursor,
                    prefix.as_ptr().cast(),
                    prefix.len(),
                    entries.as_mut_ptr().cast(),
                    entries.len(),
                    keys.as_mut_ptr().cast(),
                    keys.len(),
                    &raw mut count,
                )
            };
            if status == Status::End {
                return found;
            }
            assert_eq!(status, Status::Ok);
            for entry in &entries[..count] {
                let entry = unsafe { entry.assume_init() };
                let key = &keys[entry.key_at as usize..][..entry.key_bytes as usize];
                found.push((key.to_vec(), entry.value_bytes));
            }
        }
    }

    fn close(self) {
        let mut left = 1;
        // SAFETY: the cache is open until `larder_close`, and `left` is a local variable.
        assert_eq!(unsafe { larder_stop(self.cache, &raw mut left) }, Status::Ok);
        assert_eq!(left, 0);
    }
}

#[test]
fn the_functions_of_c_do_what_every_front_door_does() -> Result<(), anyhow::Error> {
    assert!(play(Abi::open)? >= 12);
    Ok(())
}

/// Starts a server and returns a client of it.
fn connect(larderd: &Path, args: &[&str]) -> Result<Abi, String> {
    let server = ServerUnderTest::start(larderd, Transport::Unix, args);
    let server = server.map_err(|error| error.to_string())?;
    let Address::Unix(socket) = server.address() else {
        return Err("the server listens on no unix socket".to_owned());
    };
    let socket = CString::new(socket.as_os_str().as_encoded_bytes()).unwrap();
    let mut cache = ptr::null_mut();
    // SAFETY: the text and the output are local variables, and the pointer for the reason is null.
    let status = unsafe { larder_connect(socket.as_ptr(), 0, &raw mut cache, ptr::null_mut(), 0) };
    assert_eq!(status, Status::Ok);
    Ok(Abi { cache, _server: Some(server) })
}

#[test]
fn a_client_does_what_a_cache_in_memory_does() -> Result<(), anyhow::Error> {
    let larderd = larderd_of_this_build()?;
    for args in [&["--local-readers", "same-uid"][..], &[]] {
        assert!(play_on_server(|_| connect(&larderd, args))? >= 2);
    }
    Ok(())
}

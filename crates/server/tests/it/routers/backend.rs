//! The expected replies of a backend, which is a larderd to which a router forwards requests, and
//! random requests to it.

use std::collections::HashMap;

use anyhow::{Result, bail, ensure};
use larder_testkit::mcrouter::{Reply, Request};

use crate::dice::Dice;

/// The highest lease token that does not permit a store.
pub(crate) const HOT_MISS: u64 = 1;

const KEYS: usize = 12;
const BATCH_MAX: usize = 60;

/// Returns a store of a short value.
pub(crate) fn store(word: &'static str, key: &str, token: Option<u64>, value: &[u8]) -> Request {
    Request::Store { word, key: key.into(), token, flags: 0, exptime: 0, value: value.into() }
}

#[derive(Clone, Debug)]
struct Item {
    flags: u64,
    value: Vec<u8>,
    /// The token, if a reply has contained it since the last change.
    cas: Option<u64>,
}

/// A model of a backend, which checks its replies.
#[derive(Debug, Default)]
pub(crate) struct Backend {
    items: HashMap<String, Item>,
    /// The last known tokens of items, valid or not.
    tokens: HashMap<String, u64>,
    /// The outstanding leases.
    leases: HashMap<String, u64>,
}

impl Backend {
    /// Checks a reply and records the effect of the request.
    pub(crate) fn check(&mut self, request: &Request, reply: &Reply) -> Result<()> {
        match request {
            Request::Get { key, with_cas, touch } => {
                self.check_get(key, *with_cas, *touch, reply)?
            }
            Request::LeaseGet { key } => self.check_lease(key, reply)?,
            Request::MetaGet { key } => {
                ensure!((*reply == Reply::Meta) == self.items.contains_key(key));
            }
            Request::Store { .. } => self.check_store(request, reply)?,
            Request::Delete { key, exptime: 0 } => {
                self.leases.remove(key);
                let word = if self.items.remove(key).is_some() { "DELETED" } else { "NOT_FOUND" };
                expect(word, reply)?;
            }
            Request::Delete { .. } => ensure!(matches!(reply, Reply::ClientError(_))),
            Request::Count { word, key, delta } => self.check_count(word, key, *delta, reply)?,
            Request::Touch { key, exptime } => {
                let word = if self.items.contains_key(key) { "TOUCHED" } else { "NOT_FOUND" };
                expect(word, reply)?;
                self.drop_if(*exptime == u32::MAX, key);
            }
            Request::Version => {
                ensure!(matches!(reply, Reply::Version(text) if text.len() < 24));
            }
            Request::Flush { delay } => {
                expect("OK", reply)?;
                self.leases.clear();
                if delay.is_none() {
                    self.items.clear();
                }
            }
        }
        Ok(())
    }

    fn drop_if(&mut self, is_over: bool, key: &str) {
        if is_over {
            self.items.remove(key);
        }
    }

    fn check_get(
        &mut self,
        key: &str,
        with_cas: bool,
        touch: Option<i32>,
        reply: &Reply,
    ) -> Result<()> {
        match (reply, self.items.get_mut(key)) {
            (Reply::Hit { flags, value, cas }, Some(item)) => {
                ensure!(*flags == item.flags, "expected {item:?}");
                ensure!(*value == item.value, "expected {item:?}");
                if with_cas {
                    ensure!(item.cas.is_none() || item.cas == *cas, "expected {:?}", item.cas);
                    item.cas = *cas;
                    self.tokens.extend(cas.map(|cas| (key.into(), cas)));
                }
            }
            (Reply::Miss, None) => {}
            (_, item) => bail!("expected {item:?}"),
        }
        self.drop_if(touch.is_some_and(|exptime| exptime < 0), key);
        Ok(())
    }

    fn check_lease(&mut self, key: &str, reply: &Reply) -> Result<()> {
        let Reply::Lease { token } = *reply else {
            return self.check_get(key, false, None, reply);
        };
        ensure!(!self.items.contains_key(key), "the item is there");
        if token > HOT_MISS {
            ensure!(!self.leases.contains_key(key), "two leases are out");
            self.leases.insert(key.into(), token);
        }
        Ok(())
    }

    fn check_store(&mut self, request: &Request, reply: &Reply) -> Result<()> {
        let Request::Store { word, key, token, flags, exptime, value } = request else {
            bail!("no store")
        };
        let item = self.items.get(key);
        let (word, value) = match (*word, item) {
            ("set", _) | ("add", None) | ("replace", Some(_)) => ("STORED", value.clone()),
            ("append", Some(item)) => ("STORED", [&item.value[..], value].concat()),
            ("prepend", Some(item)) => ("STORED", [&value[..], &item.value].concat()),
            ("cas", None) => ("NOT_FOUND", Vec::new()),
            ("cas", Some(item)) if item.cas.is_some() && item.cas == *token => {
                ("STORED", value.clone())
            }
            ("cas", Some(_)) => ("EXISTS", Vec::new()),
            ("lease-set", _) => {
                // An item stored in the meantime is newer. The lease ends in either case.
                let has_lease = token.is_some() && self.leases.get(key) == token.as_ref();
                if has_lease {
                    self.leases.remove(key);
                }
                let holds = has_lease && item.is_none();
                (if holds { "STORED" } else { "NOT_STORED" }, value.clone())
            }
            _ => ("NOT_STORED", Vec::new()),
        };
        expect(word, reply)?;
        if word == "STORED" {
            let extended = matches!(request, Request::Store { word: "append" | "prepend", .. });
            let flags = if extended {
                item.map_or(0, |item| item.flags)
            } else {
                // A backend stores 32 bits of them.
                *flags & u64::from(u32::MAX)
            };
            let is_over = !extended && *exptime < 0;
            self.items.insert(key.clone(), Item { flags, value, cas: None });
            self.drop_if(is_over, key);
        }
        Ok(())
    }

    fn check_count(&mut self, word: &str, key: &str, delta: u64, reply: &Reply) -> Result<()> {
        let Some(item) = self.items.get_mut(key) else { return expect("NOT_FOUND", reply) };
        let number = str::from_utf8(&item.value).ok().and_then(|text| text.trim_end().parse().ok());
        let Some(number) = number.filter(|_| !item.value.is_empty()) else {
            ensure!(matches!(reply, Reply::ClientError(_)), "{:?} is not a number", item.value);
            return Ok(());
        };
        let number: u64 = number;
        let counted = match word {
            "incr" => number.wrapping_add(delta),
            _ => number.saturating_sub(delta),
        };
        ensure!(*reply == Reply::Number(counted), "expected {counted}");
        let width = item.value.len();
        // The value does not become shorter.
        item.value = format!("{counted:<width$}").into_bytes();
        item.cas = None;
        Ok(())
    }
}

fn expect(word: &str, reply: &Reply) -> Result<()> {
    ensure!(*reply == Reply::Word(word.into()), "expected {word}");
    Ok(())
}

/// Random requests from a seed.
pub(crate) struct Conversation(Dice);

impl Conversation {
    /// Creates the conversation of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(Dice::new(seed))
    }

    /// Returns requests to send together. Their tokens are those that the backend has sent so far.
    pub(crate) fn requests(&mut self, backend: &Backend) -> Vec<Request> {
        let count = 1 + self.0.below(BATCH_MAX);
        (0..count).map(|_| self.request(backend)).collect()
    }

    fn request(&mut self, backend: &Backend) -> Request {
        let number = self.0.below(KEYS);
        // mcrouter removes the routing prefix (`/…/…/`) from a key. The hash stop (`|#|`), which
        // ends the part that selects a server, remains in it.
        let key = match number {
            0 => "k".repeat(250),
            1 => "user:17|#|name".into(),
            _ => format!("key{number}"),
        };
        match self.0.below(24) {
            0..=5 => {
                let touch = self.0.one_of(&[None, None, Some(0), Some(100), Some(-1)]);
                Request::Get { key, with_cas: self.0.below(2) == 0, touch }
            }
            6..=13 => self.store(key, backend),
            14 => Request::Delete { key, exptime: self.0.one_of(&[0, 0, 0, 10]) },
            15..=17 => {
                let delta = self.0.one_of(&[0, 1, 99, u64::MAX]);
                Request::Count { word: self.0.one_of(&["incr", "decr"]), key, delta }
            }
            18 => {
                Request::Touch { key, exptime: self.0.one_of(&[0, 100, 2_000_000_000, u32::MAX]) }
            }
            19 | 20 => Request::LeaseGet { key },
            21 => Request::MetaGet { key },
            22 => Request::Version,
            _ => Request::Flush { delay: self.0.one_of(&[Some(1000), Some(1000), None]) },
        }
    }

    fn store(&mut self, key: String, backend: &Backend) -> Request {
        const WORDS: [&str; 9] =
            ["set", "set", "set", "add", "replace", "append", "prepend", "cas", "lease-set"];
        let word = self.0.one_of(&WORDS);
        let known = match word {
            "cas" => backend.tokens.get(&key),
            "lease-set" => backend.leases.get(&key),
            _ => None,
        };
        let token = match word {
            "cas" | "lease-set" => Some(known.copied().unwrap_or(1 << 40)),
            _ => None,
        };
        let value = match self.0.below(6) {
            0..=2 => self.0.one_of(&["0", "9", "99", "18446744073709551615"]).into(),
            3 => Vec::new(),
            4 => b"END\r\nVALUE k 0 1\r\n".into(),
            _ => vec![b'v'; self.0.one_of(&[1, 300, 5000, 40_000, 300_000])],
        };
        let flags = self.0.one_of(&[0, 0, 1, u64::from(u32::MAX), 1 << 32]);
        let exptime = self.0.one_of(&[0, 0, 100, 2_592_000, 2_000_000_000, -1]);
        Request::Store { word, key, token, flags, exptime, value }
    }
}

//! Results of slow SQL queries, kept for a minute, and returned for ten more minutes while one
//! thread repeats the query.
//!
//! `cargo run --release -p larder --example sql_result_cache`

use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use larder::{Cache, Clock, LoadError, LoadOptions, Loaded};
use rusqlite::{Connection, OptionalExtension, Row};

const REPORTS: LoadOptions = LoadOptions::new()
    .ttl(Duration::from_secs(60))
    .stale(Duration::from_secs(600))
    .timeout(Duration::from_secs(5));

/// A shop's database, with a cache in front.
struct Shop {
    database: Mutex<Connection>,
    queries: AtomicU32,
    cache: Cache,
}

impl Shop {
    fn open() -> Result<Self, Box<dyn Error>> {
        let mut database = Connection::open_in_memory()?;
        database.execute_batch("create table sale (city text, customer text, cents integer)")?;
        let sales = database.transaction()?;
        {
            let mut insert = sales.prepare("insert into sale values (?1, ?2, ?3)")?;
            for sale in 0..200_000u32 {
                let city = ["Oslo", "Lima", "Kyoto", "Accra"][sale as usize % 4];
                let customer = format!("customer {}", sale % 39_989);
                insert.execute((city, customer, sale % 9_973))?;
            }
        }
        sales.commit()?;
        // The example moves the clock itself instead of waiting for a minute.
        let cache = Cache::builder().memory_bytes(16 << 20).clock(Clock::Ticked).open()?;
        Ok(Self { database: Mutex::new(database), queries: AtomicU32::new(0), cache })
    }

    /// Returns a city's number of customers and sales; an empty text if it has no sales.
    fn report(&self, city: &str) -> Result<String, LoadError<rusqlite::Error>> {
        let key = format!("report:{city}");
        let report = self.cache.get_or_load(key, &REPORTS, || self.query(city))?;
        Ok(String::from_utf8_lossy(&report).into_owned())
    }

    fn query(&self, city: &str) -> Result<Loaded, rusqlite::Error> {
        self.queries.fetch_add(1, Relaxed);
        let database = self.database.lock().expect("a query panicked");
        let sql =
            "select count(distinct customer), sum(cents) from sale where city = ?1 group by city";
        let row = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
        Ok(match database.query_row(sql, [city], row).optional()? {
            Some((customers, cents)) => {
                Loaded::new(format!("{customers} customers, {} dollars", cents / 100))
            }
            // An empty result is cached for a shorter time.
            None => Loaded::new("").ttl(Duration::from_secs(5)),
        })
    }

    fn pass(&self, secs: u32) {
        self.cache.tick(self.cache.now() + secs);
    }
}

/// Returns the reports that eight concurrent threads receive.
fn ask_at_once(shop: &Shop, city: &str) -> Vec<String> {
    let ready = Barrier::new(8);
    let ask = || {
        ready.wait();
        shop.report(city).expect("the query failed")
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread panicked")).collect()
    })
}

/// Runs the example.
pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let shop = Shop::open()?;

    let started = Instant::now();
    let reports = ask_at_once(&shop, "Lima");
    println!("8 threads request Lima's report at once: {:?} for 1 query", started.elapsed());
    assert!(reports.iter().all(|report| *report == reports[0]));
    assert_eq!(shop.queries.load(Relaxed), 1);
    let old = &reports[0];
    println!("Lima: {old}");

    let started = Instant::now();
    assert_eq!(shop.report("Lima")?, *old);
    println!("requested again: {:?}, no query", started.elapsed());

    let sale = "insert into sale values ('Lima', 'a customer', 1000000)";
    shop.database.lock().expect("a query panicked").execute(sale, ())?;
    assert_eq!(shop.report("Lima")?, *old);
    println!("a customer buys for 10000 dollars; Lima's report stays unchanged for a minute");

    shop.pass(61);
    let reports = ask_at_once(&shop, "Lima");
    let outdated = reports.iter().filter(|report| *report == old).count();
    assert_eq!(shop.queries.load(Relaxed), 2);
    println!(
        "8 threads request it afterwards: 1 query; {outdated} of them get the old report without waiting"
    );
    let new = shop.report("Lima")?;
    assert_ne!(new, *old);
    println!("Lima: {new}");

    assert_eq!(
        (shop.report("Atlantis")?, shop.report("Atlantis")?),
        (String::new(), String::new())
    );
    assert_eq!(shop.queries.load(Relaxed), 3);
    println!("Atlantis has no sales: requested twice, 1 query");
    Ok(())
}

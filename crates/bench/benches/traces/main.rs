//! Miss ratios on real and synthetic request traces. Compares the library with reference policies
//! and the crate segcache, and larderd with memcached over the wire with equal `-m`.
//!
//! Every replay, except on segcache, is one run of `larder replay`. `LARDER` and `LARDERD` name the
//! release builds and `MEMCACHED` the memcached; `make bench NAME=traces` sets all three. The
//! traces are in the folder `LARDER_TRACES`, or else in `../shared/traces`, next to the checkout.
//! `make bench NAME=traces ONLY="library web07"` replays one trace only on the library. Without
//! `--bench`, which cargo bench adds, the smallest trace only tests that everything works.
//!
//! Files in reading order: [`known`], [`replay`], [`library`], [`segcache`], [`wire`].
#![forbid(unsafe_code)]

mod known;
mod library;
mod replay;
mod segcache;
mod wire;

use anyhow::{Context, Error, Result, ensure};
use larder_bench::{binary, is_measuring, package};
use larder_testkit::server::version;
use larder_testkit::traces;

use known::TRACES;
use replay::Tool;

fn main() -> Result<()> {
    let folder = traces().context("no traces to replay")?;
    let tool = Tool { larder: binary("LARDER").map_err(Error::msg)?, folder };
    let asked = Asked::from_arguments()?;
    asked.traces.iter().try_for_each(|trace| tool.check(trace))?;
    if asked.library {
        println!("{}, {}", version(&tool.larder)?, package("segcache"));
        library::print(&tool, &asked.traces)?;
    }
    if asked.wire {
        let [larderd, memcached] = ["LARDERD", "MEMCACHED"].map(binary);
        let (larderd, memcached) = (larderd.map_err(Error::msg)?, memcached.map_err(Error::msg)?);
        println!("{}, {}", version(&memcached)?, version(&larderd)?);
        wire::print(&tool, &asked.traces, &memcached, &larderd)?;
    }
    Ok(())
}

/// The replays to run.
struct Asked {
    traces: Vec<&'static str>,
    library: bool,
    wire: bool,
}

impl Asked {
    fn from_arguments() -> Result<Self> {
        let names: Vec<String> =
            std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
        let is_named = |name: &str| names.iter().any(|named| named == name);
        let known =
            |name: &String| ["library", "wire"].contains(&&**name) || TRACES.contains(&&**name);
        let unknown: Vec<_> = names.iter().filter(|name| !known(name)).collect();
        ensure!(unknown.is_empty(), "{unknown:?}: expected library, wire or some of {TRACES:?}");
        let every_trace = !TRACES.iter().any(|name| is_named(name));
        let every_target = !is_named("library") && !is_named("wire");
        let traces = match is_measuring() || !every_trace {
            true => TRACES.into_iter().filter(|name| every_trace || is_named(name)).collect(),
            false => vec!["web07"],
        };
        Ok(Self {
            traces,
            library: every_target || is_named("library"),
            wire: every_target || is_named("wire"),
        })
    }
}

//! The workloads of a comparison.

use std::fmt;

use crate::address::Address;
use crate::argument::Quoted;
use crate::compare::Arguments;
use crate::connect::tls::TlsArguments;
use crate::options::{Dialect, LoadArguments, Mode, name};
use crate::sizes::Sizes;

/// A workload, written as `mode:bytes:pipeline`.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    kind: Kind,
    sizes: Sizes,
    pipeline: u32,
}

/// The requests of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The requests of a mode.
    Plain(Mode),
    /// Lookups, with a set of the key after each miss.
    Aside,
}

impl Kind {
    fn parse(text: &str) -> Result<Self, String> {
        if text == ASIDE {
            return Ok(Self::Aside);
        }
        let mode = <Mode as clap::ValueEnum>::from_str(text, false);
        mode.map(Self::Plain).map_err(|_| {
            format!("the mode is {}, expected get, set, mix or {ASIDE}", Quoted::text(text))
        })
    }
}

const ASIDE: &str = "aside";

impl Workload {
    /// Parses `mode:bytes:pipeline`.
    ///
    /// # Errors
    /// The text is not a workload. The message names the expected form.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let [mode, sizes, pipeline] = text.split(':').collect::<Vec<_>>()[..] else {
            return Err("expected mode:bytes:pipeline, for example get:100:1".to_owned());
        };
        let kind = Kind::parse(mode)?;
        let pipeline = pipeline.parse().ok().filter(|pipeline| (1..=1000).contains(pipeline));
        let pipeline = pipeline.ok_or("expected a pipeline of 1 to 1000")?;
        Ok(Self { kind, sizes: Sizes::parse(sizes)?, pipeline })
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Plain(mode) => write!(f, "{}", name(mode))?,
            Kind::Aside => write!(f, "{ASIDE}")?,
        }
        write!(f, ":{}:{}", self.sizes, self.pipeline)
    }
}

impl LoadArguments {
    /// Returns the options of one measurement, with one thread. Does not check the certificate,
    /// because this command has started the server itself.
    pub(crate) fn of_comparison(
        server: Address,
        workload: &Workload,
        arguments: &Arguments,
    ) -> Self {
        Self {
            mode: Some(match workload.kind {
                Kind::Plain(mode) => mode,
                Kind::Aside => Mode::Get,
            }),
            fill: workload.kind == Kind::Aside,
            rate: arguments.rate,
            seconds: arguments.seconds,
            connections: arguments.connections,
            pipeline: workload.pipeline,
            keys: Some(arguments.keys),
            skew: Some(arguments.skew),
            value_bytes: Some(workload.sizes),
            tls: TlsArguments::only(arguments.tls),
            insecure: arguments.tls,
            ..Self::closed_loop(server, Dialect::Text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_shown_as_it_was_given() {
        for text in ["get:100:1", "set:0-10240:16", "mix:1:1000", "aside:100:1"] {
            assert_eq!(Workload::parse(text).unwrap().to_string(), text);
        }
        for bad in ["", "get", "get:1", "scan:1:1", "get:x:1", "get:1:0", "get:1:1:1"] {
            assert!(Workload::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_workload_is_the_load_that_it_names() {
        let Some(crate::arguments::Verb::Compare(arguments)) =
            crate::fixtures::parsed(&["compare", "--keys=7", "--tls", "a=b @SOCK"]).unwrap().verb
        else {
            panic!("the verb is compare");
        };
        for (text, gets, fills, sizes, pipeline) in [
            ("get:100:1", 1.0, false, "100", 1),
            ("set:1-9:16", 0.0, false, "1-9", 16),
            ("mix:1:2", 0.9, false, "1", 2),
            ("aside:1:2", 1.0, true, "1", 2),
        ] {
            let workload = Workload::parse(text).unwrap();
            let load = LoadArguments::of_comparison(Address::default(), &workload, &arguments);
            load.check().unwrap();
            assert_eq!((load.gets(), load.fills()), (gets, fills), "{text}");
            assert_eq!((load.sizes().to_string(), load.pipeline), (sizes.to_owned(), pipeline));
            assert_eq!((load.key_count(), load.seconds, load.threads), (7, 3, 1), "{text}");
            assert!(load.tls.is_on() && load.insecure, "the servers are its own");
        }
    }
}

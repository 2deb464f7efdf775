//! The options of a load and their checks.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use crate::address::{Address, ServerArgument};
use crate::argument::{skew, whole};
use crate::connect::login::LoginArguments;
use crate::connect::tls::TlsArguments;
use crate::sizes::Sizes;

/// The options of a load.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LoadArguments {
    #[command(flatten)]
    pub(crate) server: ServerArgument,
    /// The protocol to speak
    #[arg(long, value_enum, default_value_t = Dialect::Text)]
    pub(crate) dialect: Dialect,
    /// Kind of requests [default: get; with --trace: the requests of the trace]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<Mode>,
    /// With --mode mix: the fraction of requests that are gets, 0 to 1 [default: 0.9]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) get_share: Option<f64>,
    /// Open loop: requests per second on a fixed schedule, even if the server is slow
    #[arg(long, value_name = "N", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Seconds to measure
    #[arg(long, value_name = "SECS", default_value_t = 5, value_parser = whole::<u64>(1..=86_400))]
    pub(crate) seconds: u64,
    /// Number of connections
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = whole::<u32>(1..=100_000))]
    pub(crate) connections: u32,
    /// Number of threads that share the connections
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u32>(1..=1024))]
    pub(crate) threads: u32,
    /// Requests sent together on a connection; with --rate: the maximum number of pending requests
    /// per connection
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u32>(1..=1000))]
    pub(crate) pipeline: u32,
    /// Keys in each get (text)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u32>(1..=1000))]
    pub(crate) multiget: u32,
    /// Number of keys [default: 10000]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=u32::MAX))]
    pub(crate) keys: Option<u32>,
    /// Skew of the keys: the exponent of a Zipf distribution; 0 is uniform [default: 0]
    #[arg(long, value_name = "S", value_parser = skew)]
    pub(crate) skew: Option<f64>,
    /// Seed of the random numbers: runs with the same options and seed request the same keys
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<u64>(0..=u64::MAX))]
    pub(crate) seed: u64,
    /// Request the keys of this trace in its order (see larder replay --help), again from the start
    /// when it ends
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Bytes of each value, or a range from which each key has its own size [default: 100]
    #[arg(long, value_name = "N|MIN-MAX", value_parser = Sizes::parse)]
    pub(crate) value_bytes: Option<Sizes>,
    /// Give values the sizes of the keys of this trace
    #[arg(long, value_name = "FILE")]
    pub(crate) sizes_of: Option<PathBuf>,
    /// TTL of stored items, in seconds; 0: never expire [default: 0; with --trace: the TTLs of the
    /// trace]
    #[arg(long, value_name = "SECS", value_parser = whole::<u32>(0..=u32::MAX))]
    pub(crate) ttl: Option<u32>,
    /// Set a key with the next request after a miss; default for --trace without --mode
    #[arg(long)]
    pub(crate) fill: bool,
    /// Do not store all keys before the measurement
    #[arg(long)]
    pub(crate) no_load: bool,
    /// Seconds without a response after which a connection counts as lost and is reopened
    #[arg(long, value_name = "SECS", default_value_t = 5, value_parser = whole::<u64>(1..=60))]
    pub(crate) timeout: u64,
    #[command(flatten)]
    pub(crate) tls: TlsArguments,
    /// With --tls: accept any certificate, instead of --tls-ca
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Use UDP for gets, with one request at a time on each connection; keys are stored over TCP
    /// first
    #[arg(long)]
    pub(crate) udp: bool,
    #[command(flatten)]
    pub(crate) login: LoginArguments,
}

/// The kind of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mode {
    Get,
    Set,
    Mix,
}

/// The protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Dialect {
    Text,
    Meta,
    Binary,
}

/// Returns the command-line name of a value.
pub(crate) fn name(value: impl clap::ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

impl LoadArguments {
    /// Returns the default options: a closed loop of lookups.
    pub(crate) fn closed_loop(server: Address, dialect: Dialect) -> Self {
        Self {
            server: ServerArgument { server },
            dialect,
            mode: None,
            get_share: None,
            rate: None,
            seconds: 5,
            connections: 50,
            threads: 1,
            pipeline: 1,
            multiget: 1,
            keys: None,
            skew: None,
            seed: 0,
            trace: None,
            value_bytes: None,
            sizes_of: None,
            ttl: None,
            fill: false,
            no_load: false,
            timeout: 5,
            tls: TlsArguments::default(),
            insecure: false,
            udp: false,
            login: LoginArguments::default(),
        }
    }

    /// Checks that the options are consistent.
    ///
    /// # Errors
    /// Names the two options that contradict each other, and the reason.
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(
            self.get_share.is_none() || self.mode == Some(Mode::Mix),
            "--get-share needs --mode mix"
        );
        self.check_keys()?;
        self.check_login()?;
        self.check_transport()
    }

    fn check_login(&self) -> Result<()> {
        self.login.check()?;
        ensure!(
            !self.udp || !self.login.is_on(),
            "--udp does not support a login: it excludes --user"
        );
        Ok(())
    }

    fn check_keys(&self) -> Result<()> {
        let with_trace = |given: bool, option: &str| match self.trace {
            Some(_) if given => bail!("{option} excludes --trace, which has its own keys"),
            _ => Ok(()),
        };
        with_trace(self.keys.is_some(), "--keys")?;
        with_trace(self.skew.is_some(), "--skew")?;
        with_trace(self.sizes_of.is_some(), "--sizes-of")?;
        ensure!(
            self.sizes_of.is_none() || self.value_bytes.is_none(),
            "--sizes-of and --value-bytes both set the sizes of values: give one of them"
        );
        if self.multiget > 1 {
            ensure!(
                self.dialect == Dialect::Text,
                "--multiget needs --dialect text: other dialects request each key separately \
                 (--pipeline)"
            );
            ensure!(
                self.mode != Some(Mode::Set),
                "--multiget needs gets, which --mode set does not send"
            );
            ensure!(
                self.trace.is_none() || self.mode.is_some(),
                "--multiget needs a --mode: a trace requests one key at a time"
            );
        }
        ensure!(
            !self.fill || self.mode != Some(Mode::Set),
            "--fill needs gets, which --mode set does not send"
        );
        ensure!(
            !self.no_load || self.stores_keys_unless_told(),
            "--no-load has no effect: with --mode set, or with a trace and without --mode, no keys \
             are stored before the measurement"
        );
        Ok(())
    }

    fn check_transport(&self) -> Result<()> {
        if self.insecure {
            ensure!(self.tls.is_on(), "--insecure needs --tls");
            ensure!(
                !self.tls.checks_server(),
                "--insecure checks no certificate: it excludes --tls-ca and --tls-name"
            );
            self.tls.check_insecure()?;
        } else {
            self.tls.check(&self.server.server)?;
        }
        if self.udp {
            let only_gets = self.gets() >= 1.0 && !self.fills() && !self.plays_trace();
            ensure!(only_gets, "--udp supports only gets: use --mode get without --fill");
            ensure!(
                self.pipeline == 1,
                "--udp sends one request at a time: it excludes --pipeline"
            );
            ensure!(!self.tls.is_on(), "--udp does not support TLS: it excludes --tls");
            ensure!(!self.is_unix(), "--udp needs a host and a port, not a Unix socket");
        }
        let each_second = f64::from(self.threads.min(self.connections));
        ensure!(
            self.rate.is_none_or(|rate| rate * self.seconds as f64 >= each_second),
            "--rate times --seconds is less than one request for each of the --threads"
        );
        Ok(())
    }

    fn is_unix(&self) -> bool {
        matches!(self.server.server, Address::Unix(_))
    }

    /// True if the load replays the requests of the trace instead of the requests of a mode.
    pub(crate) fn plays_trace(&self) -> bool {
        self.trace.is_some() && self.mode.is_none()
    }

    fn stores_keys_unless_told(&self) -> bool {
        !self.plays_trace() && self.mode != Some(Mode::Set)
    }

    /// True if the load stores all keys before it measures.
    pub(crate) fn stores_keys(&self) -> bool {
        self.stores_keys_unless_told() && !self.no_load
    }

    /// True if the load sets a key after a miss.
    pub(crate) fn fills(&self) -> bool {
        self.fill || self.plays_trace()
    }

    /// Returns the fraction of requests that are lookups, unless a trace determines it.
    pub(crate) fn gets(&self) -> f64 {
        match self.mode {
            None | Some(Mode::Get) => 1.0,
            Some(Mode::Set) => 0.0,
            Some(Mode::Mix) => self.get_share.unwrap_or(GET_SHARE),
        }
    }

    pub(crate) fn mode_name(&self) -> String {
        match self.mode {
            None if self.trace.is_some() => "trace".to_owned(),
            mode => name(mode.unwrap_or(Mode::Get)),
        }
    }

    pub(crate) fn key_count(&self) -> u32 {
        self.keys.unwrap_or(KEYS)
    }

    pub(crate) fn sizes(&self) -> Sizes {
        self.value_bytes.unwrap_or(Sizes::DEFAULT)
    }

    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.01..=1e8).contains(rate));
    rate.ok_or_else(|| "expected requests per second, 0.01 to 100000000".to_owned())
}

const GET_SHARE: f64 = 0.9;
const KEYS: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{load, parsed};

    /// Returns the reason why the options are inconsistent.
    fn refusal(args: &[&str]) -> String {
        load(args).check().map_or_else(|error| format!("{error:#}"), |()| "accepted".to_owned())
    }

    #[test]
    fn options_that_contradict_each_other_are_named() {
        for (args, words) in [
            (&["--get-share=0.5"][..], "--get-share needs --mode mix"),
            (&["--get-share=0.5", "--mode=get"], "--get-share needs --mode mix"),
            (&["--trace=t", "--keys=5"], "--keys excludes --trace"),
            (&["--trace=t", "--skew=1"], "--skew excludes --trace"),
            (&["--trace=t", "--sizes-of=s"], "--sizes-of excludes --trace"),
            (&["--sizes-of=s", "--value-bytes=5"], "--sizes-of and --value-bytes both set"),
            (&["--multiget=2", "--dialect=meta"], "--multiget needs --dialect text"),
            (&["--multiget=2", "--dialect=binary"], "--multiget needs --dialect text"),
            (&["--multiget=2", "--mode=set"], "--multiget needs gets"),
            (&["--multiget=2", "--trace=t"], "--multiget needs a --mode"),
            (&["--fill", "--mode=set"], "--fill needs gets"),
            (&["--no-load", "--mode=set"], "--no-load has no effect"),
            (&["--no-load", "--trace=t"], "--no-load has no effect"),
            (&["--insecure"], "--insecure needs --tls"),
            (&["--insecure", "--tls", "--tls-ca=f"], "it excludes --tls-ca and --tls-name"),
            (&["--insecure", "--tls", "--tls-name=n"], "it excludes --tls-ca and --tls-name"),
            (&["--insecure", "--tls", "--tls-key=k"], "belong together"),
            (&["--tls"], "--tls needs --tls-ca FILE"),
            (&["--udp", "--mode=set"], "--udp supports only gets"),
            (&["--udp", "--mode=mix"], "--udp supports only gets"),
            (&["--udp", "--fill"], "--udp supports only gets"),
            (&["--udp", "--trace=t"], "--udp supports only gets"),
            (&["--udp", "--pipeline=2"], "--udp sends one request at a time"),
            (&["--udp", "--tls", "--insecure"], "--udp does not support TLS"),
            (&["--udp", "--server=./socket"], "not a Unix socket"),
            (&["--udp", "--user=u"], "--udp does not support a login"),
            (&["--user=a b"], "expected a name without spaces"),
            (&["--password-file=f"], "--password-file needs --user"),
            (&["--rate=0.5", "--seconds=1"], "less than one request for each of the --threads"),
            (&["--rate=3", "--seconds=1", "--threads=4"], "less than one request for each"),
        ] {
            let reason = refusal(args);
            assert!(reason.contains(words), "{args:?} is {reason:?}, expected {words:?}");
        }
    }

    #[test]
    fn options_that_fit_together_are_accepted() {
        for args in [
            &[][..],
            &["--mode=mix", "--get-share=0"],
            &["--trace=t", "--mode=get", "--multiget=8"],
            &["--trace=t", "--fill"],
            &["--sizes-of=s", "--skew=1", "--keys=7"],
            &["--mode=set", "--pipeline=1000"],
            &["--tls", "--tls-ca=f"],
            &["--tls", "--tls-ca=f", "--tls-name=n", "--server=./socket"],
            &["--tls", "--insecure", "--tls-cert=c", "--tls-key=k"],
            &["--udp", "--multiget=5", "--rate=10"],
            &["--user=u", "--password-file=f"],
            // One connection has only one thread, even if more are allowed.
            &["--rate=1", "--seconds=1", "--threads=4", "--connections=1"],
        ] {
            assert_eq!(refusal(args), "accepted", "{args:?}");
        }
    }

    #[test]
    fn a_value_out_of_its_range_is_refused_with_the_range() {
        for (arg, words) in [
            ("--get-share=1.1", "from 0 to 1"),
            ("--get-share=NaN", "from 0 to 1"),
            ("--rate=0", "0.01 to 100000000"),
            ("--rate=inf", "0.01 to 100000000"),
            ("--skew=-1", "from 0 to 10"),
            ("--skew=11", "from 0 to 10"),
            ("--seconds=0", "from 1 to 86400"),
            ("--connections=100001", "from 1 to 100000"),
            ("--threads=0", "from 1 to 1024"),
            ("--pipeline=1001", "from 1 to 1000"),
            ("--multiget=0", "from 1 to 1000"),
            ("--keys=0", "from 1 to 4294967295"),
            ("--timeout=61", "from 1 to 60"),
            ("--value-bytes=9-3", "the minimum 9 exceeds the maximum 3"),
            ("--mode=scan", "possible values: get, set, mix"),
            ("--dialect=http", "possible values: text, meta, binary"),
            ("--server=::1", "brackets: [::1]"),
        ] {
            let message = parsed(&[arg]).unwrap_err();
            assert!(message.contains(words), "{arg} is refused by {message:?}, not {words:?}");
        }
    }

    #[test]
    fn a_subcommand_takes_no_option_of_a_load() {
        let message = parsed(&["--keys=5", "compare", "a=b @SOCK"]).unwrap_err();
        assert!(message.contains("cannot be used"), "{message}");
    }

    /// The defaults exist twice: as attributes for clap, and as code for a comparison.
    #[test]
    fn a_closed_loop_has_the_defaults_of_the_command_line() {
        let by_hand = LoadArguments::closed_loop(Address::default(), Dialect::Text);
        assert_eq!(format!("{by_hand:?}"), format!("{:?}", load(&[])));
    }

    #[test]
    fn the_mode_decides_about_gets_and_keys_stored_ahead() {
        for (args, gets, fills, stores, mode) in [
            (&[][..], 1.0, false, true, "get"),
            (&["--no-load"], 1.0, false, false, "get"),
            (&["--mode=get", "--fill"], 1.0, true, true, "get"),
            (&["--mode=set"], 0.0, false, false, "set"),
            (&["--mode=mix"], 0.9, false, true, "mix"),
            (&["--mode=mix", "--get-share=0.25"], 0.25, false, true, "mix"),
            (&["--trace=t"], 1.0, true, false, "trace"),
            (&["--trace=t", "--mode=mix"], 0.9, false, true, "mix"),
        ] {
            let load = load(args);
            let found = (load.gets(), load.fills(), load.stores_keys(), load.mode_name());
            assert_eq!(found, (gets, fills, stores, mode.to_owned()), "{args:?}");
        }
        assert_eq!((load(&[]).key_count(), load(&["--keys=7"]).key_count()), (10_000, 7));
        assert_eq!(load(&["--seconds=3"]).duration(), Duration::from_secs(3));
        assert_eq!(load(&["--timeout=2"]).timeout(), Duration::from_secs(2));
    }
}

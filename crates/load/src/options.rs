//! The command line of `larder bench`, and what makes no sense on it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use crate::address::{Address, ServerArgument};
use crate::compare;
use crate::request::sizes::Sizes;

/// Measure the throughput and the latency of any server that speaks memcached's protocols
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
    #[command(flatten)]
    pub(crate) load: LoadArguments,
    /// Print one JSON object: everything counted, percentiles, one row a second
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a report with plots to this file, one page without external parts
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    Compare(compare::Arguments),
}

/// What load to make.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LoadArguments {
    #[command(flatten)]
    pub(crate) server: ServerArgument,
    /// The protocol to speak
    #[arg(long, value_enum, default_value_t = Dialect::Text)]
    pub(crate) dialect: Dialect,
    /// What to send [default: get; with --trace what the trace says]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<Mode>,
    /// With --mode mix: the share of gets, 0 to 1 [default: 0.9]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) get_share: Option<f64>,
    /// Open loop: so many requests a second by a fixed schedule, whatever the server does
    #[arg(long, value_name = "N", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// How long to measure
    #[arg(long, value_name = "SECS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) seconds: u64,
    /// Connections
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) connections: u32,
    /// Threads that share the connections
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: u32,
    /// Requests sent at once on a connection; with --rate the most that wait for answers on one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) pipeline: u32,
    /// Keys that each get asks for (text)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) multiget: u32,
    /// Keys [default: 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keys: Option<u32>,
    /// How unequal the keys are: the exponent of a Zipf distribution; 0 is all alike [default: 0]
    #[arg(long, value_name = "S", value_parser = skew)]
    pub(crate) skew: Option<f64>,
    /// Ask for the keys of this trace in its order (see larder replay --help), again from the start
    /// when it ends
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Bytes of each value, or a range of which each key has its own [default: 100]
    #[arg(long, value_name = "N|MIN-MAX", value_parser = Sizes::parse)]
    pub(crate) value_bytes: Option<Sizes>,
    /// Give values the sizes that the keys of this trace have
    #[arg(long, value_name = "FILE")]
    pub(crate) sizes_of: Option<PathBuf>,
    /// TTL of what is stored, in seconds; 0 is for ever [default: 0; with --trace the trace's]
    #[arg(long, value_name = "SECS")]
    pub(crate) ttl: Option<u32>,
    /// Set what a get has missed with the next request; --trace without --mode does
    #[arg(long)]
    pub(crate) fill: bool,
    /// Do not store all keys before gets are measured
    #[arg(long)]
    pub(crate) no_load: bool,
    /// A connection that has waited so long for an answer is lost, and opened anew
    #[arg(long, value_name = "SECS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub(crate) timeout: u64,
    /// Speak TLS
    #[arg(long)]
    pub(crate) tls: bool,
    /// Certificates of the authorities that may vouch for the server, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// The name that the server's certificate has to have [default: the host of --server]
    #[arg(long, value_name = "NAME")]
    pub(crate) tls_name: Option<String>,
    /// The certificate to show to the server, with those that lead to its authority, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of --tls-cert, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// With --tls: accept any certificate
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Get by UDP, each connection one request at a time; what is stored ahead goes by TCP
    #[arg(long)]
    pub(crate) udp: bool,
    /// Log in on every connection by this name: as larderd's and memcached's -Y asks for it, or with
    /// --dialect binary by SASL PLAIN (-S)
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// The file with the password of --user, one line
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Closed loop (without --rate): every connection sends its next requests once it has read all answers
to the last. It finds the highest throughput. What a slow server delays is not sent meanwhile, so
that its stalls hardly show in the percentiles.

Open loop (--rate): requests fall due at fixed times. Latency counts from then, not from when the
request could be sent, so that a stall shows in full (no coordinated omission). A request that is
sent more than 1 ms after it was due is late: because no connection was free (the server is behind,
or --connections times --pipeline is too small), or because this generator was. What was due and
could not be sent until the end counts with the time it has waited.

By UDP a request whose answer does not come within --timeout is counted as an error and given up.

The generator measures itself: if it was busy nearly all the time, or had to wait for a processor,
the last lines say so, and the numbers are its own rather than the server's. Give it more --threads
or processors then.

Every value read is checked against what this tool stores under the key. For gets and mixes all keys
are stored first. Ctrl-C ends a run early and prints what was measured.

Examples:
  larder bench
  larder bench --mode mix --get-share 0.8 --value-bytes 1024 --connections 100 --threads 2
  larder bench --server ./larder.sock --dialect binary --pipeline 16 --json
  larder bench --rate 50000 --seconds 60 --skew 0.99 --keys 1000000 --html report.html
  larder bench --trace web07.csv.zst --rate 20000
  larder bench --multiget 20 --value-bytes 10-4096
  larder bench --server cache.example:11211 --udp --multiget 5
  larder bench --server cache.example:11211 --tls --tls-ca authority.pem
  larder bench --user bench --password-file ./password --dialect binary
  larder bench compare 'memcached=memcached -t 1 -s @SOCK' 'larderd=larderd -t 1 -s @SOCK'

A connection that is lost is opened anew, and what it was asked counts as errors. Where nothing can be
reached any more for --timeout the run ends.

Exit code: 0 all values were right and all requests were served; 1 some were not; 2 no connection was
left, or one cannot be trusted.";

/// What to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mode {
    Get,
    Set,
    Mix,
}

/// The protocol to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Dialect {
    Text,
    Meta,
    Binary,
}

/// As it is named on the command line.
pub(crate) fn name(value: impl clap::ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

impl LoadArguments {
    /// What the command line says where it says nothing.
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
            trace: None,
            value_bytes: None,
            sizes_of: None,
            ttl: None,
            fill: false,
            no_load: false,
            timeout: 5,
            tls: false,
            tls_ca: None,
            tls_name: None,
            tls_cert: None,
            tls_key: None,
            insecure: false,
            udp: false,
            user: None,
            password_file: None,
        }
    }

    /// Does this fit together?
    ///
    /// # Errors
    /// Names the two options that do not, and why.
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
        ensure!(
            self.user.is_some() == self.password_file.is_some(),
            "--user and --password-file belong together: give both"
        );
        let Some(user) = &self.user else { return Ok(()) };
        ensure!(!self.udp, "--udp knows no login: --user cannot go with it");
        let is_sound = !user.is_empty() && !user.contains(|c: char| c.is_control() || c == ' ');
        ensure!(is_sound, "--user {user:?}: expected a name without spaces");
        Ok(())
    }

    fn check_keys(&self) -> Result<()> {
        let with_trace = |given: bool, option: &str| match self.trace {
            Some(_) if given => bail!("{option} cannot go with --trace, which names its own keys"),
            _ => Ok(()),
        };
        with_trace(self.keys.is_some(), "--keys")?;
        with_trace(self.skew.is_some(), "--skew")?;
        with_trace(self.sizes_of.is_some(), "--sizes-of")?;
        ensure!(
            self.sizes_of.is_none() || self.value_bytes.is_none(),
            "--sizes-of and --value-bytes both say how large values are: give one of them"
        );
        if self.multiget > 1 {
            ensure!(
                self.dialect == Dialect::Text,
                "--multiget needs --dialect text: in the others many keys are many requests \
                 (--pipeline)"
            );
            ensure!(self.mode != Some(Mode::Set), "--multiget needs gets, not --mode set");
            ensure!(
                self.trace.is_none() || self.mode.is_some(),
                "--multiget needs a --mode: a trace asks for one key at a time"
            );
        }
        ensure!(
            !self.fill || self.mode != Some(Mode::Set),
            "--fill needs gets, and --mode set has none"
        );
        ensure!(
            !self.no_load || self.stores_keys_unless_told(),
            "--no-load has no effect: with --mode set, or a trace of its own requests, nothing is \
             stored ahead"
        );
        Ok(())
    }

    fn check_transport(&self) -> Result<()> {
        for (given, option) in [
            (self.tls_ca.is_some(), "--tls-ca"),
            (self.tls_name.is_some(), "--tls-name"),
            (self.tls_cert.is_some(), "--tls-cert"),
            (self.tls_key.is_some(), "--tls-key"),
            (self.insecure, "--insecure"),
        ] {
            ensure!(self.tls || !given, "{option} needs --tls");
        }
        ensure!(
            !self.insecure || (self.tls_ca.is_none() && self.tls_name.is_none()),
            "--insecure checks no certificate: --tls-ca and --tls-name cannot go with it"
        );
        ensure!(
            self.tls_cert.is_some() == self.tls_key.is_some(),
            "--tls-cert and --tls-key belong together: give both"
        );
        ensure!(
            !self.tls || self.insecure || self.tls_ca.is_some(),
            "--tls needs --tls-ca FILE to check the server's certificate, or --insecure"
        );
        ensure!(
            !self.tls || self.insecure || self.tls_name.is_some() || !self.is_unix(),
            "--tls over a unix socket needs --tls-name: the socket has no host name"
        );
        if self.udp {
            let only_gets = self.gets() >= 1.0 && !self.fills() && !self.plays_trace();
            ensure!(only_gets, "--udp is for gets alone: --mode get without --fill");
            ensure!(
                self.pipeline == 1,
                "--udp has one request at a time: --pipeline is for streams"
            );
            ensure!(!self.tls, "--udp knows no TLS");
            ensure!(!self.is_unix(), "--udp needs a host and a port, not a unix socket");
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

    /// The trace's own requests, instead of a mode's.
    pub(crate) fn plays_trace(&self) -> bool {
        self.trace.is_some() && self.mode.is_none()
    }

    fn stores_keys_unless_told(&self) -> bool {
        !self.plays_trace() && self.mode != Some(Mode::Set)
    }

    /// Are all keys stored before anything is measured?
    pub(crate) fn stores_keys(&self) -> bool {
        self.stores_keys_unless_told() && !self.no_load
    }

    /// Is what a get missed set next?
    pub(crate) fn fills(&self) -> bool {
        self.fill || self.plays_trace()
    }

    /// The share of gets among requests, where no trace says it.
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

fn skew(text: &str) -> Result<f64, String> {
    let skew = text.parse().ok().filter(|skew| (0.0..=10.0).contains(skew));
    skew.ok_or_else(|| "expected a number from 0 to 10".to_owned())
}

const GET_SHARE: f64 = 0.9;
const KEYS: u32 = 10_000;

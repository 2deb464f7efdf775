//! The options in effect, as types of Rust.

use std::path::PathBuf;

use crate::error::OptionError;
use crate::given::nearest;
use crate::given::values::{Origin, Values};
use crate::table::Id;
use crate::table::kind::KIBIBYTE;
use crate::typed::addresses::local_readers;
use crate::typed::check::{check, settle};
use crate::typed::discovery::Discovery;
use crate::typed::disk_tier::DiskTier;
use crate::typed::log::LogOptions;
use crate::typed::memory::{self, MemoryShare};
use crate::typed::near::Near;
use crate::typed::prefixes::Prefixes;
use crate::typed::restore::Restore;
use crate::typed::slabs::Slabs;
use crate::typed::tls::Tls;
use crate::typed::tuning::Tuning;
use crate::value::admin::AdminListen;
use crate::value::listen::{self, Listen};
use crate::value::protocol::Protocol;
use crate::value::readers::LocalReaders;

/// The options in effect. The default is memcached's.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// `-p`: TCP port; `None`: no TCP, 0: any free port.
    pub port: Option<u16>,
    /// `-U`: UDP port; `None`: no UDP, 0: any free port.
    pub udp_port: Option<u16>,
    /// `-l`: addresses to listen on; empty: every address of the machine.
    pub listen: Vec<Listen>,
    /// `-s`: path of a unix socket, which replaces the addresses of `-l`.
    pub unix_socket: Option<PathBuf>,
    /// `-a`: permissions of unix sockets without `mode=`.
    pub unix_mask: u32,
    /// `-A`: clients may stop the server.
    pub shutdown: bool,
    /// `-d`: run in the background.
    pub daemon: bool,
    /// `-r`: raise the limit for core files.
    pub core_dumps: bool,
    /// `-u`: user to run as.
    pub user: Option<String>,
    /// `-m`: memory for items and their index, in bytes.
    pub memory_bytes: u64,
    /// `-m` if it is a percentage; `memory_bytes` is then the result at the start.
    pub memory_share: Option<MemoryShare>,
    /// `-e`: file to keep the items in; `None`: they are lost when the process ends.
    pub memory_file: Option<PathBuf>,
    /// `--dump`, `--restore-ttl` and others: what a restart keeps.
    pub restore: Restore,
    /// Not `-M`: evict when memory is full.
    pub evict: bool,
    /// `-c`: maximum number of connections.
    pub connection_count_max: usize,
    /// `-k`: keep all memory out of swap.
    pub lock_memory: bool,
    /// `-L`: use huge pages that the system has set aside.
    pub huge_pages: bool,
    /// `-v`, counted.
    pub verbosity: u8,
    /// `-P`: file to write the process id to.
    pub pidfile: Option<PathBuf>,
    /// `-t`: number of workers.
    pub worker_count: usize,
    /// `-R`: maximum number of commands that a worker executes for one connection before it serves
    /// the next one.
    pub commands_per_turn_max: usize,
    /// Not `-C`: keep cas tokens.
    pub cas: bool,
    /// `-b`: length of the queue of connections to accept.
    pub backlog: u32,
    /// `-B`, `-S` and `-Y`: protocol of the clients.
    pub protocol: Protocol,
    /// `-S`: clients log in by SASL; `protocol` is then binary.
    pub sasl: bool,
    /// With `-S`, the file of users and passwords, which memcached's variable
    /// `MEMCACHED_SASL_PWDB` names.
    pub sasl_file: Option<PathBuf>,
    /// `-Y`: file of users and passwords with which clients log in; `protocol` is then ascii.
    pub auth_file: Option<PathBuf>,
    /// `--users`: file of users with rights; clients log in with either protocol.
    pub users: Option<PathBuf>,
    /// `--user-metrics`: metrics have labels with names of users.
    pub user_metrics: bool,
    /// `-I`: largest item, in bytes.
    pub item_bytes_max: u64,
    /// `-Z`: encrypt connections.
    pub tls: Option<Tls>,
    /// Not `-F`: clients may flush all items.
    pub flush_all: bool,
    /// Not `-X`: clients may list keys, by any command.
    pub dump: bool,
    /// Not `-W`: clients may use `watch`.
    pub watch: bool,
    /// `-D`: delimiter of key prefixes in `stats detail`, which is then on from the start. `None`:
    /// off until a client switches it on, with `:` as the delimiter.
    pub stat_prefix_delimiter: Option<u8>,
    /// Statistics by key prefix.
    pub prefixes: Prefixes,
    /// `-o maxconns_fast`: refuse connections above `-c` instead of letting them wait.
    pub maxconns_fast: bool,
    /// `-o idle_timeout`: seconds after which a TCP connection without commands is closed; 0:
    /// never.
    pub idle_timeout_secs: u32,
    /// `-o read_buf_mem_limit`: memory for the buffers of all connections together, in bytes; 0:
    /// Larder's own limit.
    pub buffer_bytes_max: u64,
    /// `--udp-reply-factor`: maximum length of a UDP response to another machine, as a multiple of
    /// the length of its request; 0: no such limit.
    pub udp_reply_factor: usize,
    /// `-o track_sizes`: allow `stats sizes`.
    pub track_sizes: bool,
    /// `-o slab_reassign`: show its keys in `stats`.
    pub slab_reassign: bool,
    /// `-o lru_crawler`: execute its commands and show its keys in `stats`.
    pub lru_crawler: bool,
    /// `-o lru_maintainer`: show its keys in `stats`.
    pub lru_maintainer: bool,
    /// `-o watcher_logbuf_size`: lines queued per watching connection, in bytes.
    pub watcher_log_bytes: u64,
    /// `-o worker_logbuf_size`: lines queued per worker, in bytes.
    pub worker_log_bytes: u64,
    /// `-o drop_privileges`: drop privileges that serving does not need.
    pub drop_privileges: bool,
    /// `--io`: how workers wait, receive and send.
    pub io: Io,
    /// `--upgrade-drain`: seconds that connections may stay after another process has taken over.
    pub upgrade_drain_secs: u32,
    /// `--local-readers`: the processes that may read the cache's memory directly, on the unix
    /// sockets that admit them.
    pub local_readers: LocalReaders,
    /// `--followers`: the most near caches that may follow the server; 0: none.
    pub follower_count_max: usize,
    /// `--tier-path`: the directory of the disk tier; `None`: items are in memory only.
    pub disk_tier: Option<DiskTier>,
    /// `--origin`: the server whose items this one copies; `None`: it owns its items.
    pub near: Option<Near>,
    /// `--cluster-file`, `--cluster-dns`: the servers that clients discover; `None`: clients cannot
    /// discover servers.
    pub discovery: Option<Discovery>,
    /// `--admin-listen`: addresses of the admin listener; empty: none.
    pub admin_listen: Vec<AdminListen>,
    /// `--admin-token-file`: the tokens of admin requests.
    pub admin_token_file: Option<PathBuf>,
    /// `--admin-host`: further names of the admin listener.
    pub admin_hosts: Vec<String>,
    /// `--drain-grace`: seconds that a server continues to serve as usual after a drain has begun.
    pub drain_grace_secs: u32,
    /// `--log-format`, `--log-time`, `--log-slower-than`: the log on standard error.
    pub log: LogOptions,
    /// `-o answers_as`: the memcached version to follow where two versions contradict each other.
    pub answers_as: AnswersAs,
    /// `-o debugtime`: clients may move the clock.
    pub debug_time: bool,
    /// The size classes that statistics show.
    pub slabs: Slabs,
    /// Settings that clients may change, without effect except in `stats settings`.
    pub tuning: Tuning,
    /// The values of options without effect, for `stats settings`.
    pub accepted: IgnoredOptions,
}

/// How workers wait, receive and send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// io_uring if the kernel allows it, otherwise epoll.
    Auto,
    /// io_uring.
    Uring,
    /// epoll.
    Epoll,
}

/// A memcached version to follow where two contradict each other. The older one is for its own test
/// suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswersAs {
    /// 1.6.45, whose behaviour Larder follows.
    V1_6_45,
    /// 1.6.18: differs in lines shorter than four bytes, the refusal of shutdown, `cas` without a
    /// version, the keys of `stats` and the end of a metadump.
    V1_6_18,
}

/// The values of options that Larder accepts and ignores.
#[derive(Clone, Debug, PartialEq)]
pub struct IgnoredOptions(pub(crate) Values);

impl Default for Options {
    fn default() -> Self {
        Self::new(Values::defaults())
    }
}

impl Options {
    /// Reads the options from pairs of a name and a value, for programs that keep Larder's options
    /// among their own. The names are the same as in a TOML file, the values the same as on the
    /// command line. Also returns the warnings for the user.
    ///
    /// # Errors
    /// Names the first option that does not exist or has a value that is not allowed.
    pub fn from_map<'a>(
        map: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<(Self, Vec<String>), OptionError> {
        let map: Vec<_> = map.into_iter().collect();
        let named = |name: &str| {
            Id::ALL.iter().any(|id| id.row().is_configurable() && id.row().name == name)
        };
        if let Some((name, _)) = map.iter().find(|(name, _)| !named(name)) {
            let hint = nearest::hint(name, nearest::in_a_file());
            let message = format!("option {name}: no such option{hint}");
            return Err(OptionError::new(message));
        }
        let mut values = Values::none();
        for id in Id::ALL {
            for (_, text) in map.iter().filter(|(name, _)| *name == id.row().name) {
                values.set(*id, text, &Origin::Map)?;
            }
        }
        memory::refuse_percent(&values)?;
        let values = settle(Values::defaults().overridden_by(values));
        let warnings = check(&values)?;
        Ok((Self::new(values), warnings))
    }

    /// True if clients must log in.
    pub fn needs_login(&self) -> bool {
        self.sasl || self.auth_file.is_some() || self.users.is_some()
    }

    /// Returns the part of `-m` that items and their index use. A near cache also lists the keys of
    /// its copies.
    pub fn cache_bytes(&self) -> u64 {
        self.memory_bytes - self.listed_bytes()
    }

    /// Returns the part of `-m` that a near cache uses for the keys of its copies.
    pub fn listed_bytes(&self) -> u64 {
        if self.near.is_some() { Near::listed_bytes(self.memory_bytes) } else { 0 }
    }

    /// Returns the bytes that a server with these options uses at most beyond its cache: the
    /// buffers of all connections, the idle connections, the workers, and the process.
    pub fn fixed_memory_bytes(&self) -> u64 {
        let (connections, workers) = (self.connection_count_max as u64, self.worker_count as u64);
        memory::fixed_bytes(self.buffer_bytes_max, connections, workers, self.tls.is_some())
    }

    pub(crate) fn new(values: Values) -> Self {
        let udp_port = port(&values, Id::UdpPort);
        Self {
            port: tcp_port(&values, udp_port),
            udp_port,
            tls: Tls::new(&values),
            buffer_bytes_max: values.unsigned::<u64>(Id::ReadBufMemLimit) << 20,
            udp_reply_factor: values.unsigned(Id::UdpReplyFactor),
            listen: values.listen(Id::Listen),
            unix_socket: values.text(Id::UnixSocket).map(PathBuf::from),
            unix_mask: values.mask(Id::UnixMask),
            shutdown: values.switch(Id::EnableShutdown),
            daemon: values.switch(Id::Daemon),
            core_dumps: values.switch(Id::EnableCoredumps),
            user: values.text(Id::User).map(str::to_owned),
            memory_bytes: values.bytes(Id::MemoryLimit),
            memory_share: memory::share(&values),
            memory_file: values.text(Id::MemoryFile).map(PathBuf::from),
            restore: Restore::new(&values),
            evict: !values.switch(Id::DisableEvictions),
            connection_count_max: values.unsigned(Id::ConnLimit),
            lock_memory: values.switch(Id::LockMemory),
            huge_pages: values.switch(Id::EnableLargepages),
            verbosity: values.unsigned(Id::Verbose),
            pidfile: values.text(Id::Pidfile).map(PathBuf::from),
            worker_count: values.unsigned(Id::Threads),
            commands_per_turn_max: values.unsigned(Id::MaxReqsPerEvent),
            cas: !values.switch(Id::DisableCas),
            backlog: values.unsigned(Id::ListenBacklog),
            protocol: protocol(&values),
            sasl: values.switch(Id::EnableSasl),
            sasl_file: None,
            auth_file: values.text(Id::AuthFile).map(PathBuf::from),
            users: values.text(Id::Users).map(PathBuf::from),
            user_metrics: values.switch(Id::UserMetrics),
            item_bytes_max: values.bytes(Id::MaxItemSize),
            flush_all: !values.switch(Id::DisableFlushAll),
            dump: !values.switch(Id::DisableDumping),
            watch: !values.switch(Id::DisableWatch),
            stat_prefix_delimiter: values.character(Id::StatPrefix),
            prefixes: Prefixes::of(&values),
            maxconns_fast: values.switch(Id::MaxconnsFast),
            idle_timeout_secs: values.unsigned(Id::IdleTimeout),
            track_sizes: values.switch(Id::TrackSizes),
            slab_reassign: values.switch(Id::SlabReassign),
            lru_crawler: values.switch(Id::LruCrawler),
            lru_maintainer: values.switch(Id::LruMaintainer),
            watcher_log_bytes: values.unsigned::<u64>(Id::WatcherLogbufSize) * KIBIBYTE,
            worker_log_bytes: values.unsigned::<u64>(Id::WorkerLogbufSize) * KIBIBYTE,
            drop_privileges: values.switch(Id::DropPrivileges),
            io: io(&values),
            upgrade_drain_secs: values.unsigned(Id::UpgradeDrain),
            local_readers: local_readers(&values),
            follower_count_max: values.unsigned(Id::Followers),
            disk_tier: DiskTier::new(&values),
            near: Near::new(&values),
            discovery: Discovery::new(&values),
            admin_listen: values.admin_listen(Id::AdminListen),
            admin_token_file: values.text(Id::AdminTokenFile).map(PathBuf::from),
            admin_hosts: names(values.text(Id::AdminHost)),
            drain_grace_secs: values.unsigned(Id::DrainGrace),
            log: LogOptions::new(&values),
            answers_as: answers_as(&values),
            debug_time: values.switch(Id::Debugtime),
            slabs: Slabs::new(&values),
            tuning: Tuning::new(&values),
            accepted: IgnoredOptions(values),
        }
    }
}

/// Returns the port of TCP. Like in memcached, the port of `-U` also applies to TCP if `-p` is not
/// given.
fn tcp_port(values: &Values, udp_port: Option<u16>) -> Option<u16> {
    let is_given = values.given(Id::Port).is_some_and(|given| given.origin != Origin::Default);
    match udp_port {
        Some(_) if !is_given => udp_port,
        _ => port(values, Id::Port),
    }
}

/// Returns the protocol of `-B`. If it is not given, returns the protocol that the authentication
/// needs.
fn protocol(values: &Values) -> Protocol {
    match values.text(Id::Protocol) {
        Some("ascii") => Protocol::Ascii,
        Some("binary") => Protocol::Binary,
        Some(_) => Protocol::Auto,
        None if values.switch(Id::EnableSasl) => Protocol::Binary,
        None if values.given(Id::AuthFile).is_some() => Protocol::Ascii,
        None => Protocol::Auto,
    }
}

fn answers_as(values: &Values) -> AnswersAs {
    match values.text(Id::AnswersAs) {
        Some("1.6.18") => AnswersAs::V1_6_18,
        _ => AnswersAs::V1_6_45,
    }
}

fn io(values: &Values) -> Io {
    match values.text(Id::Io) {
        Some("uring") => Io::Uring,
        Some("epoll") => Io::Epoll,
        _ => Io::Auto,
    }
}

/// Returns the port of an option; `None` for 0. The value -1 means any free port, which this
/// function returns as 0.
fn port(values: &Values, id: Id) -> Option<u16> {
    let port = values.number(id).expect("the row has a default");
    (port != 0).then(|| u16::try_from(port).unwrap_or(0))
}

/// Returns the members of a list of names.
fn names(list: Option<&str>) -> Vec<String> {
    let names = list.unwrap_or_default().split(',').map(str::trim_ascii);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Returns `inter` of `stats settings`: the list of `-l`, if given.
pub(crate) fn listen_text(options: &Options) -> Option<String> {
    (!options.listen.is_empty()).then(|| listen::text(&options.listen))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed::tls::ClientCertificates;

    #[test]
    fn udp_port_alone_also_sets_the_tcp_port() {
        for (map, tcp, udp) in [
            (&[("udp_port", "5")][..], Some(5), Some(5)),
            (&[("udp_port", "-1")], Some(0), Some(0)),
            (&[("udp_port", "5"), ("port", "6")], Some(6), Some(5)),
            (&[("udp_port", "5"), ("port", "11211")], Some(11_211), Some(5)),
            (&[("udp_port", "0")], Some(11_211), None),
            (&[], Some(11_211), None),
        ] {
            let (options, _) = Options::from_map(map.iter().copied()).unwrap();
            assert_eq!((options.port, options.udp_port), (tcp, udp), "{map:?}");
        }
    }

    #[test]
    fn missing_tls_options_are_named() {
        let files = [("enable_ssl", "yes"), ("ssl_chain_cert", "/c"), ("ssl_key", "/k")];
        for (count, more, words) in [
            (0, ("listen", "notls:a"), "notls:a: only possible with -Z"),
            (1, ("port", "1"), "-o ssl_chain_cert"),
            (2, ("port", "1"), "-o ssl_key"),
            (3, ("port", "0"), "TCP port"),
            (3, ("unix_socket", "/s"), "TCP port"),
            (3, ("ssl_verify_mode", "2"), "-o ssl_ca_cert"),
            (3, ("listen", "mtls:a"), "-o ssl_ca_cert"),
        ] {
            let map = files[..count].iter().copied().chain([more]);
            let error = Options::from_map(map).unwrap_err();
            assert!(error.message.contains(words), "{}", error.message);
        }
        let old = files.iter().copied().chain([("ssl_min_version", "0"), ("ssl_kernel_tls", "1")]);
        let (options, warnings) = Options::from_map(old).unwrap();
        assert!(options.tls.is_some_and(|tls| !tls.only_tls13));
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        let asked = files.iter().copied().chain([("ssl_verify_mode", "1")]);
        let (options, warnings) = Options::from_map(asked).unwrap();
        assert_eq!(options.tls.unwrap().verify, ClientCertificates::None);
        assert!(warnings[0].contains("ssl_verify_mode"), "{warnings:?}");
    }

    #[test]
    fn a_string_map_has_the_names_of_the_file_and_the_texts_of_the_command_line() {
        let (options, warnings) = Options::from_map([
            ("memory_limit", "1g"),
            ("disable_cas", "yes"),
            ("enable_largepages", "1"),
            ("tail_repair_time", "20"),
            ("lru_crawler", "yes"),
            ("no_modern", "yes"),
        ])
        .unwrap();
        assert_eq!((options.memory_bytes, options.cas), (1 << 30, false));
        assert!(options.huge_pages);
        assert_eq!((options.lru_crawler, options.lru_maintainer), (true, false));
        assert_eq!(
            warnings,
            ["option tail_repair_time: it has no effect: Larder has no LRU queues to repair"]
        );
        for (name, text, message) in [
            ("memory_lmit", "1g", "option memory_lmit: no such option; did you mean memory_limit?"),
            ("help", "yes", "option help: no such option"),
            (
                "io",
                "epol",
                "option io: \"epol\" is not one of auto, uring, epoll; did you mean epoll?",
            ),
            ("threads", "x", "option threads: \"x\" is not a number from 1 to 1024"),
        ] {
            assert_eq!(Options::from_map([(name, text)]).unwrap_err().message, message);
        }
    }
}

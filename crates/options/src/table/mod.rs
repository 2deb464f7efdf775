//! The table: one row for each option.
//!
//! The rows are in the order of memcached's help. To add an option, add a row; if the option has an
//! effect, also add a field to [`crate::Options`].

pub(crate) mod kind;
pub(crate) mod row;

use crate::table::kind::{
    GIBIBYTE, KIBIBYTE,
    Kind::{self, Choice, Count, Mask, Path, Sizes, Switch, Text},
    MEBIBYTE, TEBIBYTE,
};
use crate::table::row::{
    Group::{Mapped, Reading, Refused, Suite, Warned},
    Place, Row,
};

macro_rules! table {
    ($($id:ident = $row:expr;)*) => {
        /// Names a row.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub(crate) enum Id { $($id,)* }

        impl Id {
            /// All rows, in the order of the table.
            pub(crate) const ALL: &[Self] = &[$(Self::$id,)*];

            /// The number of rows.
            pub(crate) const COUNT: usize = Self::ALL.len();

            /// Returns the row.
            pub(crate) fn row(self) -> &'static Row {
                &TABLE[self as usize]
            }
        }

        const TABLE: [Row; Id::COUNT] = [$($row,)*];
    };
}

table! {
Port = Row::letter('p', "port", number(-1, 65_535)).default("11211").doc("TCP port; 0: no TCP, -1: any free port");
UdpPort = Row::letter('U', "udp_port", number(-1, 65_535)).default("0")
    .doc("UDP port; 0: no UDP, -1: any free port; without -p, TCP listens on this port as well");
UnixSocket = Row::letter('s', "unix_socket", Path)
    .doc("path of a unix socket to listen on, instead of TCP; -l takes unix sockets next to TCP");
UnixMask = Row::letter('a', "unix_mask", Mask).default("700")
    .doc("permissions of unix sockets, in octal");
EnableShutdown = Row::letter('A', "enable_shutdown", Switch)
    .doc("allow clients to stop the server with the shutdown command");
Listen = Row::letter('l', "listen", Kind::Listen)
    .doc("addresses to listen on, separated by commas or semicolons, each host, host:port, \
          [IPv6]:port, * for all, or unix:PATH for a unix socket next to them; may be repeated \
          (default: all); with -Z, the prefixes notls:, btls: and mtls: select no TLS, TLS, and TLS \
          with client certificates; the prefixes proto[ascii]:, proto[binary]: and \
          proto[negotiating]: select the protocol; with readonly: clients may change nothing; \
          unix[WORDS]:PATH has some of these words, separated by commas: mode=OCTAL for its \
          permissions (default: those of -a), readers to admit local readers, readonly, and noauth \
          for clients that need not log in although others must; -s replaces the whole list");
Daemon = Row::letter('d', "daemon", Switch).doc("run in the background, in the directory /, or with -r in the current one; relative paths \
          of options are resolved before; returns when the server is ready or has failed to start");
EnableCoredumps = Row::letter('r', "enable_coredumps", Switch)
    .doc("raise the limit for core files to the maximum");
User = Row::letter('u', "user", Text).doc("user to run as; required when started as root");
MemoryLimit = Row::letter('m', "memory_limit",
    Kind::Memory { min: MEBIBYTE, max: 16 * TEBIBYTE }).default("64")
    .doc("memory for items and their index, in MiB; or a percentage such as 80% of the memory limit \
          of this process (its cgroup's, or the machine's memory), minus the memory for connections \
          and the process; larderd follows changes of that limit, and evicts under memory pressure");
DisableEvictions = Row::letter('M', "disable_evictions", Switch)
    .doc("when memory is full, refuse to store instead of evicting");
ConnLimit = Row::letter('c', "conn_limit", number(1, INT_MAX)).default("1024")
    .doc("connections allowed at once");
LockMemory = Row::letter('k', "lock_memory", Switch)
    .doc("keep all memory out of swap; if that is not allowed, warn and continue");
Verbose = Row::letter('v', "verbose", Count)
    .doc("log errors to standard error; -vv: also commands and responses, -vvv: everything");
Help = Row::letter('h', "help", Switch).group(Reading).doc("print this text and exit");
License = Row::letter('i', "license", Switch).group(Reading).doc("print the licence and exit");
Version = Row::letter('V', "version", Switch).group(Reading)
    .doc("print the memcached version whose behaviour Larder follows, and exit");
Pidfile = Row::letter('P', "pidfile", Path).doc("file to write the process id to; the server does not start if it cannot be written");
SlabGrowthFactor = Row::letter('f', "slab_growth_factor", above(1.0))
    .default("1.25").group(Mapped)
    .doc("growth factor of the size classes in statistics; memory has no classes");
SlabMinSize = Row::letter('n', "slab_min_size", number(1, INT_MAX))
    .default("48").group(Mapped)
    .doc("bytes of key, value and flags in the smallest size class in statistics");
EnableLargepages = Row::letter('L', "enable_largepages", Switch)
    .doc("keep all memory in huge pages set aside by the system (vm.nr_hugepages); if there are \
          too few, warn and continue");
StatPrefix = Row::new(Place::LetterOnly('D'), "stat_prefix_delimiter", Kind::Character)
    .doc("delimiter of key prefixes in stats detail (default: a colon); switches counting by \
          prefix on from the start");
Threads = Row::letter('t', "threads", number(1, 1024)).default("4")
    .doc("workers");
MaxReqsPerEvent = Row::letter('R', "max_reqs_per_event", number(1, INT_MAX))
    .default("20").doc("commands of one connection that are executed in a turn");
DisableCas = Row::letter('C', "disable_cas", Switch)
    .doc("keep no cas tokens, which saves 8 bytes per item");
ListenBacklog = Row::letter('b', "listen_backlog", number(0, INT_MAX))
    .default("1024").doc("length of the queue of connections to accept");
Protocol = Row::letter('B', "protocol", Choice(&["auto", "ascii", "binary"]))
    .doc("protocol of the clients; auto detects it by the first byte of a connection; without -B: \
          binary with -S, ascii with -Y, otherwise auto");
MaxItemSize = Row::letter('I', "max_item_size", bytes(1, KIBIBYTE, GIBIBYTE))
    .default("1048576")
    .doc("largest item, in bytes or with k or m after the number; at most half of -m, to which the \
          default is lowered");
EnableSasl = Row::letter('S', "enable_sasl", Switch)
    .doc("require clients to log in by SASL, which only the binary protocol has");
DisableFlushAll = Row::letter('F', "disable_flush_all", Switch)
    .doc("refuse flush_all and every removal by prefix (delete_prefix), also by the admin listener");
DisableDumping = Row::letter('X', "disable_dumping", Switch)
    .doc("refuse commands and admin requests that list keys: stats cachedump, stats detail, stats \
          hotkeys, stats prefixes, lru_crawler metadump and mgdump, /api/v1/keys, /api/v1/hot and \
          /api/v1/prefixes; hide the prefix of a removal and the keys in stats slow and /api/v1/slow");
DisableWatch = Row::letter('W', "disable_watch", Switch).doc("refuse the watch command");
AuthFile = Row::letter('Y', "auth_file", Path)
    .doc("file of lines user:password with which clients log in; only the text protocol is \
          available");
MemoryFile = Row::letter('e', "memory_file", Path)
    .doc("file to keep the items in, best on a tmpfs: they survive a stop, a crash and an upgrade; \
          a file made with another -m, -C or -M, or before the machine was started, is replaced by \
          an empty one");
EnableSsl = Row::letter('Z', "enable_ssl", Switch)
    .doc("TLS on all addresses except those with the prefix notls:; needs -o ssl_chain_cert and \
          ssl_key");
NapiIds = Row::letter('N', "napi_ids", number(1, INT_MAX))
    .group(Warned("Larder does not place connections by network queue"))
    .doc("number of network queues, at most as many as workers");
Extended = Row::letter('o', "extended", Text).group(Reading)
    .doc("the words below, separated by commas; some take a value: word=value");

// A file and the environment are read in the order of the rows. So this row must come before the
// options that it sets, or it would override values that the user gave for them.
NoModern = Row::word("no_modern", Switch)
    .doc("give some words the defaults of memcached 1.4, among them no_maxconns_fast");
Modern = Row::word("modern", Switch).group(Mapped).doc("no effect, as in memcached");
MaxconnsFast = Row::word("maxconns_fast", Switch).default("yes").negated("no")
    .doc("refuse connections above -c with an error instead of letting them wait");
IdleTimeout = Row::word("idle_timeout", number(0, INT_MAX)).default("0")
    .doc("seconds after which a TCP connection without commands is closed; 0: never");
TrackSizes = Row::word("track_sizes", Switch).doc("allow stats sizes");
TemporaryTtl = Row::word("temporary_ttl", number(0, INT_MAX)).group(Mapped)
    .doc("time to live up to which an item is temporary, in seconds; Larder always separates items \
          by their time to live; needs lru_maintainer");
LruCrawler = Row::word("lru_crawler", Switch).default("yes").negated("no")
    .doc("allow lru_crawler crawl, metadump and mgdump, and show the crawler's keys in stats");
LruCrawlerSleep = Row::word("lru_crawler_sleep", number(0, 1_000_000)).default("100").group(Mapped)
    .doc("pause of the crawler in microseconds; Larder's maintainer paces itself");
LruCrawlerTocrawl = Row::word("lru_crawler_tocrawl", number(0, U32_MAX)).default("0").group(Mapped)
    .doc("items that the crawler visits in a run; Larder's maintainer paces itself");
ReadBufMemLimit = Row::word("read_buf_mem_limit", number(0, INT_MAX))
    .default("0")
    .doc("memory for the buffers of all connections together, in MiB; 0: 64; 16 KiB per connection \
          are not counted");
WatcherLogbufSize = Row::word("watcher_logbuf_size", number(1, INT_MAX)).default("256")
    .doc("lines queued per watch connection, in KiB");
WorkerLogbufSize = Row::word("worker_logbuf_size", number(1, INT_MAX)).default("64")
    .doc("lines queued per worker for watch connections, in KiB");
HashAlgorithm = Row::word("hash_algorithm", Choice(&["jenkins", "murmur3", "xxh3"]))
    .default("murmur3").group(Mapped).doc("the name is validated; Larder has one hash function");
Hashpower = Row::word("hashpower", number(12, 32))
    .group(Mapped).doc("Larder's index starts small and grows on demand");
NoHashexpand = Row::word("no_hashexpand", Switch)
    .group(Mapped).doc("Larder's index always grows on demand");
SlabReassign = Row::word("slab_reassign", Switch).default("yes").negated("no").group(Mapped)
    .doc("Larder stores items of any size in any memory; no_slab_reassign hides its keys in stats");
SlabAutomove = Row::word("slab_automove", number(0, 2)).default("1").bare("1").negated("0")
    .group(Mapped).doc(ANY_SIZE);
SlabAutomoveRatio = Row::word("slab_automove_ratio", share()).default("0.8")
    .group(Mapped).doc(ANY_SIZE);
SlabAutomoveWindow = Row::word("slab_automove_window", number(3, 1800)).default("10")
    .group(Mapped).doc(ANY_SIZE);
SlabAutomoveFreeratio = Row::word("slab_automove_freeratio", share()).default("0.01")
    .group(Mapped).doc(ANY_SIZE);
SlabSizes = Row::word("slab_sizes", Sizes).group(Mapped)
    .doc("size classes in statistics, instead of those of -f and -n; none below -n or above \
          slab_chunk_max");
SlabChunkMax = Row::word("slab_chunk_max", number(1, MEBIBYTE as i64)).group(Mapped)
    .doc("largest size class in statistics, in KiB (default: 512); a number above 1024, or one \
          that in KiB exceeds -I, is in bytes; must divide -I and 1 MiB");
LruMaintainer = Row::word("lru_maintainer", Switch).default("yes").negated("no").group(Mapped)
    .doc("Larder evicts by S3-FIFO; no_lru_maintainer hides the keys of the queues in stats");
HotLruPct = Row::word("hot_lru_pct", number(1, 79)).default("20").group(Mapped).doc(S3_FIFO);
WarmLruPct = Row::word("warm_lru_pct", number(1, 79)).default("40").group(Mapped).doc(S3_FIFO);
HotMaxFactor = Row::word("hot_max_factor", above(0.0)).default("0.2").group(Mapped).doc(S3_FIFO);
WarmMaxFactor = Row::word("warm_max_factor", above(0.0)).default("2.0").group(Mapped).doc(S3_FIFO);
NoChunkedItems = Row::word("no_chunked_items", Switch).group(Mapped)
    .doc("the largest size class in statistics is 1 MiB, unless slab_chunk_max is given");
InlineAsciiResp = Row::word("inline_ascii_resp", Switch).negated("no")
    .group(Warned("memcached has removed it too")).doc("store the text of responses with items");
RespObjMemLimit = Row::word("resp_obj_mem_limit", number(0, INT_MAX)).bare("0")
    .group(Warned("memcached has removed it too; see read_buf_mem_limit"))
    .doc("memory for responses");
TailRepairTime = Row::word("tail_repair_time", number(10, INT_MAX))
    .group(Warned("Larder has no LRU queues to repair"))
    .doc("seconds after which an item that seems stuck is freed");
DropPrivileges = Row::word("drop_privileges", Switch).negated("no")
    .doc("give up, once the server runs, privileges that serving does not need: running programs, \
          new sockets, writing files, all capabilities");
RelaxedPrivileges = Row::word("relaxed_privileges", Switch).group(Mapped)
    .doc("relaxes the restrictions of memcached's test builds; Larder's restrictions affect no \
          test");
SockCookie = Row::word("sock_cookie_id", number(0, U32_MAX))
    .group(Warned("Linux has no socket cookies of this kind")).doc("mark sockets with a number");
AnswersAs = Row::word("answers_as", Choice(&["1.6.45", "1.6.18"])).default("1.6.45")
    .group(Suite)
    .doc("memcached version to follow where the two differ; for the test suite of the older one");

Debugtime = Row::word("debugtime", Switch).group(Suite)
    .doc("let clients move the clock with `debugtime`; for test suites that cannot wait");

ExtPath = Row::word("ext_path", Kind::FileSize).group(Mapped)
    .doc("file and size of extstore; means --tier-mode cache --tier-path FILE.tier --tier-size \
          SIZE, and the file itself is left alone");
ExtPageSize = Row::word("ext_page_size", number(1, INT_MAX))
    .group(Warned("a segment of Larder's disk tier has 4 MiB")).doc("page size of the flash tier, in MiB");
ExtWbufSize = Row::word("ext_wbuf_size", number(1, INT_MAX)).default("4")
    .group(Warned("the memory for what is not on the disk yet is --tier-dirty-bytes")).doc("write buffer size of the flash tier, in MiB");
ExtThreads = Row::word("ext_threads", number(1, INT_MAX))
    .group(Warned("Larder reads its disk tier by io_uring, or by eight threads of each worker")).doc("I/O threads of the flash tier");
ExtIoDepth = Row::word("ext_io_depth", number(1, INT_MAX))
    .group(Warned("the reads of a worker are under way together, as many as 8 MiB hold")).doc("concurrent reads of an I/O thread");
ExtItemSize = Row::word("ext_item_size", number(0, INT_MAX)).group(Mapped)
    .doc("smallest size of key and value together that goes to the disk of --tier-mode cache or \
          ext_path, in bytes (default: items of all sizes)");
ExtItemAge = Row::word("ext_item_age", number(0, U32_MAX)).default("4294967295")
    .group(Warned("what memory evicts goes to the disk, whatever its age")).doc("seconds without a read after which a value may move out of \
          memory");
ExtLowTtl = Row::word("ext_low_ttl", number(0, U32_MAX)).default("0")
    .group(Warned("the log on disk has items of all times to live, in the order of their eviction")).doc("time to live below which values are stored separately, in \
          seconds");
ExtRecacheRate = Row::word("ext_recache_rate", number(0, U32_MAX)).default("2000")
    .group(Warned("an item returns when it is read twice within a while")).doc("reads of a value after which it returns to memory");
ExtCompactUnder = Row::word("ext_compact_under", number(0, U32_MAX)).default("0")
    .group(Warned(NO_COMPACTION)).doc("free pages below which pages are compacted");
ExtDropUnder = Row::word("ext_drop_under", number(0, U32_MAX)).default("0")
    .group(Warned(NO_COMPACTION)).doc("free pages below which values are dropped");
ExtMaxFrag = Row::word("ext_max_frag", share()).default("0.8")
    .group(Warned(NO_COMPACTION)).doc("live share of a page below which it may be compacted");
ExtMaxSleep = Row::word("ext_max_sleep", number(0, U32_MAX)).default("1000000")
    .group(Warned("the threads of the disk wait for work, not for a time")).doc("longest pause of the tier's threads, in microseconds");
ExtDropUnread = Row::word("ext_drop_unread", Switch)
    .group(Warned(NO_COMPACTION)).doc("drop values that were not read, in compaction");

SslChainCert = Row::word("ssl_chain_cert", Path)
    .doc("file of the server's certificate and its chain, in PEM");
SslKey = Row::word("ssl_key", Path)
    .doc("file of the certificate's private key");
SslCaCert = Row::word("ssl_ca_cert", Path)
    .doc("file of the authorities that sign the clients' certificates, in PEM");
SslKeyformat = Row::word("ssl_keyformat", number(1, 2)).default("1")
    .doc("format of the private key; 1: PEM, 2: DER");
SslVerifyMode = Row::word("ssl_verify_mode", number(0, 3)).default("0")
    .doc("client certificates; 0: not requested, 1 and 3: optional, but valid if sent, 2: \
          required");
SslCiphers = Row::word("ssl_ciphers", Text)
    .doc("cipher suites, as an OpenSSL list: names and classes, separated by colons; unknown names \
          are skipped with a warning; a list without a TLS 1.3 suite also allows all of TLS 1.3, a \
          list with nothing else allows only TLS 1.3 (default: all)");
SslWbufSize = Row::word("ssl_wbuf_size", number(1, INT_MAX)).default("16")
    .doc("part of a response that is encrypted, then sent, at a time, in KiB; a number \
          above 1024 is taken as 1024");
SslSessionCache = Row::word("ssl_session_cache", Switch)
    .doc("let clients resume sessions, by tickets, which take no memory in the server");
SslKernelTls = Row::word("ssl_kernel_tls", Switch)
    .group(Warned("Larder encrypts in the process")).doc("TLS in the kernel");
SslMinVersion = Row::word("ssl_min_version", number(0, 3)).default("2")
    .doc("oldest TLS version; 2: 1.2, 3: 1.3; 0 and 1 are taken as 2, with a warning");
ProxyConfig = Row::word("proxy_config", Text)
    .group(Refused(NO_PROXY)).doc("configuration of the proxy");
ProxyArg = Row::word("proxy_arg", Text)
    .group(Refused(NO_PROXY)).doc("argument of the proxy's configuration");
ProxyUring = Row::word("proxy_uring", Switch)
    .group(Refused(NO_PROXY)).doc("io_uring in the proxy");
ProxyMemprofile = Row::word("proxy_memprofile", Switch)
    .group(Refused(NO_PROXY)).doc("memory profile of the proxy");

UdpReplyFactor = Row::new(Place::Long, "udp_reply_factor", number(0, 1_000_000)).default("16")
    .doc("maximum length of a UDP response to another machine, as a multiple of the length of its \
          request, which keeps the server from amplifying floods; 0: no such limit");
Io = Row::new(Place::Long, "io", Choice(&["auto", "uring", "epoll"])).default("auto")
    .doc("how workers wait, receive and send: uring by io_uring, epoll by epoll, auto by the first \
          of them that the kernel allows");
UpgradeDrain = Row::new(Place::Long, "upgrade_drain", number(0, INT_MAX)).default("60")
    .doc("seconds until the server closes its connections after SIGUSR2, once another process has \
          taken over");
LocalReaders = Row::new(Place::Long, "local_readers", Kind::Readers).default("off")
    .doc("processes of this machine that may read the cache's memory directly, after they have \
          connected to the unix socket of -s, or to one of -l with the word readers: with off \
          none, with same-uid those of the server's user, with group:NAME those of a group, with \
          any all; if an address has the word readers, the default is same-uid; the server then \
          allocates all memory at the start, and its limit cannot be raised; no effect with -e");
Followers = Row::new(Place::Long, "followers", number(0, 4096)).default("0")
    .doc("near caches that may keep copies of this server's items, each with one change stream; a \
          server with near caches uses 8 MiB in addition to -m; 0: none");
TierPath = Row::new(Place::Long, "tier_path", Path)
    .doc("directory that keeps items on disk, more than memory holds: all of them, or those that \
          memory evicts; it is created if it is missing, its parent is not; needs --tier-size and \
          --tier-mode");
TierSize = Row::new(Place::Long, "tier_size", bytes(1, KIBIBYTE, 64 * TEBIBYTE))
    .doc("size of the log in the directory of --tier-path, in bytes or with k, m or g after the \
          number: 32 MiB at least; of a store, four fifths of it can be live items; it may be \
          raised later, not lowered");
TierMode = Row::new(Place::Long, "tier_mode", Choice(&["store", "cache"]))
    .doc("what the directory of --tier-path promises: store, a durable key-value store; cache, \
          more room for items that memory evicts, which a clean stop keeps and a crash does not");
TierAdmit = Row::new(Place::Long, "tier_admit", Choice(&["all", "reused"])).default("all")
    .doc("with --tier-mode cache, the evicted items that the disk gets: all; reused, those that \
          were read since they were stored, and those stored again soon after an eviction, which \
          spares the disk writes and costs hits");
Durability = Row::new(Place::Long, "durability", Kind::Durability).default("interval=100")
    .doc("when a change of a store survives a power loss: sync, before it is answered; interval=MS, at most \
          twice as many milliseconds later; async, usually within 100 ms");
TierWaitSecs = Row::new(Place::Long, "tier_wait_secs", number(0, 3600)).default("1")
    .doc("seconds that a change waits for a disk that does not keep up, before it fails");
TierStopSecs = Row::new(Place::Long, "tier_stop_secs", number(0, 86_400)).default("60")
    .doc("seconds that the stop of the server waits for the disk; if changes are then still not \
          on the disk, the log says how many bytes, and the exit status is not 0");
TierDirtyBytes = Row::new(Place::Long, "tier_dirty_bytes", bytes(1, KIBIBYTE, TEBIBYTE))
    .default("64m")
    .doc("memory for changes that are not on the disk yet, beside -m; at most an eighth of -m, to \
          which the default is lowered");
TierCompress = Row::new(Place::Long, "tier_compress", Switch)
    .doc("compress the values on the disk, with dictionaries that are trained from them; JSON of \
          300 bytes takes less than half the space; releases without this option refuse the \
          directory afterwards");
TierAcceptLoss = Row::new(Place::Long, "tier_accept_loss", Switch)
    .doc("start on a store whose log is damaged, without all items that may be out of date: those \
          that were stored before what is lost; the log is without damage afterwards, so once is \
          enough");
Dump = Row::new(Place::Long, "dump", Path)
    .doc("file to which a clean stop writes the items, and from which the next start loads and \
          removes it, so that a restart keeps the items; the form is that of larder export");
DumpSecs = Row::new(Place::Long, "dump_secs", number(1, 86_400)).default("30")
    .doc("seconds that a stop writes to the file of --dump; items that are not written by then \
          are lost, and the exit status is not 0");
RestoreSecs = Row::new(Place::Long, "restore_secs", number(1, 86_400)).default("60")
    .doc("seconds that a start loads items from the file of --dump before it serves without the \
          rest; until then /ready fails");
RestoreTtl = Row::new(Place::Long, "restore_ttl", number(0, 31_536_000)).default("0")
    .doc("seconds after a start for which items live that it has restored: with --dump, -e or \
          --tier-mode cache; a change that failed while the server was away has left an old value, \
          and this bounds how long it is served; 0: as long as before");
Users = Row::new(Place::Long, "users", Path)
    .doc("TOML file of users with passwords, rights and key prefixes: users = [ { name = \"shop\", \
          hash = \"...\", rights = \"write\", prefixes = [\"shop:\"] }, ... ]; clients log in as with -Y or \
          -S, or by certificate; larder passwd prints the hashes; read again when it changes");
UserMetrics = Row::new(Place::Long, "user_metrics", Switch)
    .doc("add the 50 users of --users with the most refusals to /metrics, as labels: everyone who \
          may read the metrics then reads these names");
Origin = Row::new(Place::Long, "origin", Kind::Origins)
    .doc("servers whose items this one copies, as a near cache, with commas between them: \
          host:port, [IPv6]:port, tls:host:port or the path of a unix socket, each with :weight \
          after it if its share of the keys differs; reads are answered from the copies, \
          everything else by the origin of the key; a larderd with --followers reports every \
          change, and of any other memcached, copies are used for --near-ttl");
OriginWeights = Row::new(Place::Long, "origin_weights", Path)
    .doc("file with a line for each origin whose weight differs from the one in --origin: the \
          address and the weight; read again when it changes");
OriginTimeout = Row::new(Place::Long, "origin_timeout", Kind::Duration).default("250ms")
    .doc("how long a request waits for the origin before it fails; less than --near-max-stale");
OriginCa = Row::new(Place::Long, "origin_ca", Path)
    .doc("file of the authorities that sign the origin's certificate, in PEM; needed with tls: in \
          --origin");
OriginLogin = Row::new(Place::Long, "origin_login", Path)
    .doc("file with one line user:password with which to log in at the origin; the user needs the \
          rights of all clients together");
NearMaxStale = Row::new(Place::Long, "near_max_stale", Kind::Duration).default("2s")
    .doc("how long after a change a copy may still be read, if the network or the origin hangs; \
          from 100ms to 60s");
NearTtl = Row::new(Place::Long, "near_ttl", Kind::Duration).default("1s")
    .doc("how long a copy is used if the origin does not report changes; at least 1s");
NearItemMax = Row::new(Place::Long, "near_item_max", bytes(1, 0, GIBIBYTE)).default("64k")
    .doc("longest value that is copied, in bytes or with k or m after the number; longer ones are \
          read from the origin each time");
ClusterFile = Row::new(Place::Long, "cluster_file", Path)
    .doc("file with the servers of the cluster, which clients discover with config get cluster: a \
          line for each server: host:port or [IPv6]:port, without a port 11211; a line \
          version=NUMBER is the version of the list; read again when it changes");
ClusterDns = Row::new(Place::Long, "cluster_dns", Kind::ClusterName)
    .doc("DNS name whose addresses are the servers of the cluster, which clients discover with \
          config get cluster, and after a colon their port (default: 11211); resolved every 5 \
          seconds; not with --cluster-file and -o drop_privileges");
PrefixDelimiter = Row::new(Place::Long, "prefix_delimiter", Kind::Character)
    .doc("delimiter of key prefixes in stats prefixes and /api/v1/prefixes (default: the one of -D, \
          otherwise a colon)");
PrefixMetrics = Row::new(Place::Long, "prefix_metrics", Switch)
    .doc("add the 50 key prefixes with the most bytes to /metrics, as labels: everyone who may read \
          the metrics then reads these prefixes; not with -X");
AdminListen = Row::new(Place::Long, "admin_listen", Kind::AdminListen)
    .doc("addresses of the admin listener, which speaks HTTP: host:port, [IPv6]:port, *:port or \
          the path of a unix socket that begins with / or a dot, several separated by semicolons; \
          may be repeated (default: none); ,role=probe, ,role=read or ,role=full after an address \
          is the most that a request may do there (default: full), ,tls after a port encrypts it \
          with the certificates of -Z, ,mode=OCTAL after a path is its permissions (default: 600); \
          the words of -l also stand before an address: tls:, btls:, mtls:, notls:, readonly: for \
          at most role=read, and unix[mode=OCTAL]:PATH");
AdminTokenFile = Row::new(Place::Long, "admin_token_file", Path)
    .doc("file with the tokens that admin requests may carry: a line for each, a role and a token \
          of at least 32 characters; others must not be able to read it; SIGHUP reads it again");
AdminHost = Row::new(Place::Long, "admin_host", Text)
    .doc("names under which browsers and tools reach the admin listener, besides its addresses and \
          localhost, separated by commas");
DrainGrace = Row::new(Place::Long, "drain_grace", number(0, INT_MAX)).default("5")
    .doc("seconds that a server which is being drained serves as usual, while it is not ready, \
          before it closes connections between requests");
LogFormat = Row::new(Place::Long, "log_format", Choice(&["text", "json"])).default("text")
    .doc("form of the lines on standard error: text, the time, the level and the message; json, an \
          object with time, level and message");
LogTime = Row::new(Place::Long, "log_time", Choice(&["auto", "yes", "no"])).default("auto")
    .doc("whether a line on standard error has the time; auto: unless standard error is the journal \
          of systemd, which records it");
LogSlowerThan = Row::new(Place::Long, "log_slower_than", Kind::Duration)
    .doc("log requests that took at least this long, and list them in stats slow and /api/v1/slow \
          (default: none)");
Config = Row::new(Place::Long, "config", Path).group(Reading)
    .doc("TOML file with options; the environment and the command line override it");
Check = Row::new(Place::Long, "check", Switch).group(Reading)
    .doc("report what a start with these options would use and every reason why it would fail, \
          change nothing, and exit with the status that the start would have; a word that is not \
          an option is then the file of --config");
PrintConfig = Row::new(Place::Long, "print_config", Switch).group(Reading)
    .doc("print all options in effect, each with its source, and exit");
}

const fn number(min: i64, max: i64) -> Kind {
    Kind::Number { min, max }
}

const fn above(above: f64) -> Kind {
    Kind::Real { above, max: f64::MAX }
}

const fn share() -> Kind {
    Kind::Real { above: 0.0, max: 1.0 }
}

const fn bytes(unit: u64, min: u64, max: u64) -> Kind {
    Kind::Bytes { unit, min, max }
}

const INT_MAX: i64 = i32::MAX as i64;
const U32_MAX: i64 = u32::MAX as i64;
const ANY_SIZE: &str = "Larder stores items of any size in any memory";
const S3_FIFO: &str = "Larder evicts by S3-FIFO, which sizes its queues itself";
const NO_COMPACTION: &str = "the log on disk is not compacted: its oldest segment goes";
const NO_PROXY: &str = "Larder has no proxy; memcached's can run in front of it";

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_and_letters_are_unique() {
        let names: HashSet<_> = Id::ALL.iter().map(|id| id.row().name).collect();
        assert_eq!(names.len(), Id::COUNT);
        let spellings: HashSet<_> = Id::ALL.iter().map(|id| id.row().spelling()).collect();
        assert_eq!(spellings.len(), Id::COUNT);
    }

    #[test]
    fn every_letter_of_memcached_is_there() {
        let letters: String = Id::ALL
            .iter()
            .filter_map(|id| match id.row().place {
                Place::Letter(letter) | Place::LetterOnly(letter) => Some(letter),
                Place::Word | Place::Long => None,
            })
            .collect();
        let mut sorted: Vec<char> = letters.chars().collect();
        sorted.sort_unstable();
        let all: String = sorted.into_iter().collect();
        assert_eq!(all, "ABCDFILMNPRSUVWXYZabcdefhiklmnoprstuv");
    }

    #[test]
    fn defaults_and_the_texts_of_words_are_values_of_their_kind() {
        for id in Id::ALL {
            let row = id.row();
            for text in [row.default, row.bare, row.negated].into_iter().flatten() {
                assert!(row.kind.parse(text).is_ok(), "{}: {text}", row.name);
            }
        }
    }

    #[test]
    fn only_words_may_be_negated_or_go_without_their_value() {
        for id in Id::ALL {
            let row = id.row();
            if row.place != Place::Word {
                assert_eq!(row.negated, None, "{}", row.name);
                assert_eq!(row.bare.is_some(), !row.kind.takes_argument(), "{}", row.name);
            }
        }
    }

    #[test]
    fn docs_fit_into_a_sentence_and_a_markdown_table() {
        for id in Id::ALL {
            let row = id.row();
            assert!(!row.doc.is_empty(), "{}", row.name);
            assert!(!row.doc.ends_with('.'), "{}", row.name);
            assert!(!row.doc.contains(['|', '\n']), "{}", row.name);
            if let Warned(reason) | Refused(reason) = row.group {
                assert!(!reason.ends_with('.'), "{}", row.name);
                assert!(!reason.contains(['|', '\n']), "{}", row.name);
            }
        }
    }
}

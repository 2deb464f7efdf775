//! The rows of `stats settings`.

use crate::given::values::Values;
use crate::table::Id;
use crate::table::kind::{KIBIBYTE, Kind, MEBIBYTE};
use crate::typed::disk_tier::{DiskTier, TierAdmission, TierMode};
use crate::typed::options::{Options, listen_text};
use crate::value::protocol::Protocol;

/// Returns the rows of `stats settings`, in memcached's order. A row about a feature that Larder
/// lacks has the value that memcached shows if the feature is off. With a disk tier, its rows
/// follow.
pub fn settings(options: &Options) -> Vec<(&'static str, String)> {
    let rows = ROWS.iter().map(|(name, setting)| (*name, text(*setting, options)));
    rows.chain(options.disk_tier.iter().flat_map(tier)).collect()
}

/// The rows of a disk tier, which memcached does not have.
fn tier(tier: &DiskTier) -> [(&'static str, String); 8] {
    let mode = match tier.mode {
        TierMode::Store => "store",
        TierMode::Cache => "cache",
    };
    let admission = match tier.admission {
        TierAdmission::All => "all",
        TierAdmission::Reused => "reused",
    };
    [
        ("tier_path", tier.path.display().to_string()),
        ("tier_size", tier.bytes.to_string()),
        ("tier_mode", mode.to_owned()),
        ("tier_admit", admission.to_owned()),
        ("durability", tier.durability.to_string()),
        ("tier_wait_secs", tier.wait.as_secs().to_string()),
        ("tier_stop_secs", tier.stop.as_secs().to_string()),
        ("tier_dirty_bytes", tier.dirty_bytes.to_string()),
    ]
}

/// The source of a row's text.
#[derive(Clone, Copy)]
enum Setting {
    /// An option that has an effect.
    Behaves(fn(&Options) -> String),
    /// An option without effect, with the given value.
    Accepted(Id),
    /// An option without effect, converted to another unit.
    Scaled(Id, u64),
    /// A constant.
    Constant(&'static str),
}
use Setting::{Accepted, Behaves, Constant, Scaled};

fn text(setting: Setting, options: &Options) -> String {
    match setting {
        Behaves(text) => text(options),
        Accepted(id) => accepted(&options.accepted.0, id),
        Scaled(id, factor) => (options.accepted.0.unsigned::<u64>(id) * factor).to_string(),
        Constant(text) => text.to_owned(),
    }
}

fn accepted(values: &Values, id: Id) -> String {
    match id.row().kind {
        Kind::Switch => yes(values.switch(id)),
        Kind::Real { .. } => format!("{:.2}", values.real(id)),
        Kind::Number { .. } => values.number(id).unwrap_or(0).to_string(),
        _ => values.text(id).unwrap_or("NULL").to_owned(),
    }
}

fn yes(on: bool) -> String {
    if on { "yes" } else { "no" }.to_owned()
}

fn port(options: &Options) -> String {
    match options.port {
        None => "0".to_owned(),
        Some(0) => "-1".to_owned(),
        Some(port) => port.to_string(),
    }
}

/// Returns the number of workers per UDP socket. With several addresses, each has one worker; a
/// single address has all workers.
fn threads_per_udp(options: &Options) -> String {
    let of_tcp = options.listen.iter().filter(|at| !at.is_unix()).count();
    if of_tcp > 1 { 1 } else { options.worker_count }.to_string()
}

fn auth_file(options: &Options) -> String {
    let path = options.auth_file.as_ref().map(|path| path.display().to_string());
    path.unwrap_or_else(|| "no".to_owned())
}

fn napi_ids(options: &Options) -> String {
    let count = options.accepted.0.number(Id::NapiIds);
    count.map_or_else(|| "(null)".to_owned(), |count| count.to_string())
}

fn or_bracketed_null(options: &Options, id: Id) -> String {
    options.accepted.0.text(id).unwrap_or("(null)").to_owned()
}

fn memory_file(options: &Options) -> String {
    let path = options.memory_file.as_ref().map(|path| path.display().to_string());
    path.unwrap_or_else(|| "(null)".to_owned())
}

/// Returns the smallest size of items that are written to disk. If the option is not given, it is 0
/// for a cache on disk, which accepts items of any size, and otherwise memcached's default.
fn ext_item_size(options: &Options) -> String {
    let given = options.accepted.0.number(Id::ExtItemSize);
    let is_cache = options.disk_tier.as_ref().is_some_and(|tier| tier.mode == TierMode::Cache);
    let default = if is_cache { 0 } else { EXT_ITEM_SIZE };
    given.unwrap_or(default).to_string()
}

/// memcached's default.
const EXT_ITEM_SIZE: i64 = 512;

/// Returns the oldest TLS version that the server speaks.
fn ssl_min_version(options: &Options) -> String {
    let is_13 = options.accepted.0.number(Id::SslMinVersion) == Some(3);
    if is_13 { "tlsv1.3" } else { "tlsv1.2" }.to_owned()
}

const ROWS: &[(&str, Setting)] = &[
    ("maxbytes", Behaves(|o| o.memory_bytes.to_string())),
    ("maxconns", Behaves(|o| o.connection_count_max.to_string())),
    ("tcpport", Behaves(port)),
    ("udpport", Accepted(Id::UdpPort)),
    ("inter", Behaves(|o| or_null(listen_text(o)))),
    ("verbosity", Behaves(|o| o.verbosity.to_string())),
    ("oldest", Constant("0")),
    ("evictions", Behaves(|o| if o.evict { "on" } else { "off" }.to_owned())),
    (
        "domain_socket",
        Behaves(|o| or_null(o.unix_socket.as_ref().map(|path| path.display().to_string()))),
    ),
    ("umask", Behaves(|o| format!("{:o}", o.unix_mask))),
    ("shutdown_command", Behaves(|o| yes(o.shutdown))),
    ("growth_factor", Behaves(|o| format!("{:.2}", o.slabs.growth_factor))),
    ("chunk_size", Behaves(|o| o.slabs.min_bytes.to_string())),
    ("num_threads", Behaves(|o| o.worker_count.to_string())),
    ("num_threads_per_udp", Behaves(threads_per_udp)),
    (
        "stat_key_prefix",
        Behaves(|o| char::from(o.stat_prefix_delimiter.unwrap_or(b':')).to_string()),
    ),
    ("detail_enabled", Behaves(|o| yes(o.tuning.detail))),
    ("reqs_per_event", Behaves(|o| o.commands_per_turn_max.to_string())),
    ("cas_enabled", Behaves(|o| yes(o.cas))),
    ("tcp_backlog", Behaves(|o| o.backlog.to_string())),
    (
        "binding_protocol",
        Behaves(|o| match o.protocol {
            Protocol::Auto => "auto-negotiate".to_owned(),
            Protocol::Ascii => "ascii".to_owned(),
            Protocol::Binary => "binary".to_owned(),
        }),
    ),
    ("auth_enabled_sasl", Behaves(|o| yes(o.sasl))),
    ("auth_enabled_ascii", Behaves(auth_file)),
    ("item_size_max", Behaves(|o| o.item_bytes_max.to_string())),
    ("maxconns_fast", Behaves(|o| yes(o.maxconns_fast))),
    ("hashpower_init", Accepted(Id::Hashpower)),
    ("slab_reassign", Behaves(|o| yes(o.slab_reassign))),
    ("slab_automove", Behaves(|o| o.tuning.slab_automove.to_string())),
    ("slab_automove_ratio", Behaves(|o| format!("{:.2}", o.tuning.slab_automove_ratio))),
    ("slab_automove_window", Behaves(|o| o.tuning.slab_automove_window_secs.to_string())),
    ("slab_chunk_max", Behaves(|o| o.slabs.chunk_bytes_max.to_string())),
    ("lru_crawler", Behaves(|o| yes(o.lru_crawler))),
    ("lru_crawler_sleep", Behaves(|o| o.tuning.lru_crawler_sleep_us.to_string())),
    ("lru_crawler_tocrawl", Behaves(|o| o.tuning.lru_crawler_tocrawl.to_string())),
    ("tail_repair_time", Accepted(Id::TailRepairTime)),
    ("flush_enabled", Behaves(|o| yes(o.flush_all))),
    ("dump_enabled", Behaves(|o| yes(o.dump))),
    ("hash_algorithm", Accepted(Id::HashAlgorithm)),
    ("lru_maintainer_thread", Behaves(|o| yes(o.lru_maintainer))),
    ("lru_segmented", Behaves(|o| yes(o.tuning.lru_segmented))),
    ("hot_lru_pct", Behaves(|o| o.tuning.hot_lru_pct.to_string())),
    ("warm_lru_pct", Behaves(|o| o.tuning.warm_lru_pct.to_string())),
    ("hot_max_factor", Behaves(|o| format!("{:.2}", o.tuning.hot_max_factor))),
    ("warm_max_factor", Behaves(|o| format!("{:.2}", o.tuning.warm_max_factor))),
    ("temp_lru", Behaves(|o| yes(o.tuning.temporary_ttl_secs.is_some()))),
    ("temporary_ttl", Behaves(|o| o.tuning.temporary_ttl_secs.unwrap_or(61).to_string())),
    ("idle_timeout", Behaves(|o| o.idle_timeout_secs.to_string())),
    ("watcher_logbuf_size", Behaves(|o| o.watcher_log_bytes.to_string())),
    ("worker_logbuf_size", Behaves(|o| o.worker_log_bytes.to_string())),
    ("read_buf_mem_limit", Scaled(Id::ReadBufMemLimit, MEBIBYTE)),
    ("track_sizes", Behaves(|o| yes(o.track_sizes))),
    ("inline_ascii_response", Constant("no")),
    ("drop_privileges", Behaves(|o| yes(o.drop_privileges))),
    ("ext_item_size", Behaves(ext_item_size)),
    ("ext_item_age", Accepted(Id::ExtItemAge)),
    ("ext_low_ttl", Accepted(Id::ExtLowTtl)),
    ("ext_recache_rate", Accepted(Id::ExtRecacheRate)),
    ("ext_wbuf_size", Scaled(Id::ExtWbufSize, MEBIBYTE)),
    ("ext_compact_under", Accepted(Id::ExtCompactUnder)),
    ("ext_drop_under", Accepted(Id::ExtDropUnder)),
    ("ext_max_sleep", Accepted(Id::ExtMaxSleep)),
    ("ext_max_frag", Accepted(Id::ExtMaxFrag)),
    ("slab_automove_freeratio", Behaves(|o| format!("{:.3}", o.tuning.slab_automove_freeratio))),
    ("ext_drop_unread", Accepted(Id::ExtDropUnread)),
    ("ssl_enabled", Accepted(Id::EnableSsl)),
    ("ssl_chain_cert", Behaves(|o| or_bracketed_null(o, Id::SslChainCert))),
    ("ssl_key", Behaves(|o| or_bracketed_null(o, Id::SslKey))),
    ("ssl_verify_mode", Accepted(Id::SslVerifyMode)),
    ("ssl_keyformat", Accepted(Id::SslKeyformat)),
    ("ssl_ciphers", Accepted(Id::SslCiphers)),
    ("ssl_ca_cert", Accepted(Id::SslCaCert)),
    ("ssl_wbuf_size", Scaled(Id::SslWbufSize, KIBIBYTE)),
    ("ssl_session_cache", Accepted(Id::SslSessionCache)),
    ("ssl_kernel_tls", Accepted(Id::SslKernelTls)),
    ("ssl_min_version", Behaves(ssl_min_version)),
    ("num_napi_ids", Behaves(napi_ids)),
    ("memory_file", Behaves(memory_file)),
    ("client_flags_size", Constant("4")),
];

fn or_null(text: Option<String>) -> String {
    text.unwrap_or_else(|| "NULL".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_settings_are_memcacheds() {
        let shown: Vec<String> = settings(&Options::default())
            .into_iter()
            .map(|(name, text)| format!("{name} {text}"))
            .collect();
        assert_eq!(shown, MEMCACHED.lines().collect::<Vec<_>>());
    }

    #[test]
    fn the_size_that_goes_to_the_disk_is_the_one_in_effect() {
        let size = |given: &[(&'static str, &'static str)]| {
            let (options, warnings) = Options::from_map(given.iter().copied()).unwrap();
            let row = settings(&options).into_iter().find(|(name, _)| *name == "ext_item_size");
            (row.unwrap().1, warnings.len())
        };
        let cache = ("ext_path", "/f:1g");
        assert_eq!(size(&[]), ("512".to_owned(), 0));
        assert_eq!(size(&[cache]), ("0".to_owned(), 0));
        assert_eq!(size(&[cache, ("ext_item_size", "512")]), ("512".to_owned(), 0));
        assert_eq!(size(&[("ext_item_size", "7")]), ("7".to_owned(), 1), "it has no effect");
    }

    #[test]
    fn the_rows_of_a_disk_tier_follow() {
        let (options, _) = Options::from_map([
            ("tier_path", "/srv/items"),
            ("tier_size", "1g"),
            ("tier_mode", "store"),
            ("durability", "sync"),
            ("tier_stop_secs", "90"),
        ])
        .unwrap();
        let shown: Vec<String> = settings(&options)
            .into_iter()
            .skip(ROWS.len())
            .map(|(name, text)| format!("{name} {text}"))
            .collect();
        let expected = [
            "tier_path /srv/items",
            "tier_size 1073741824",
            "tier_mode store",
            "tier_admit all",
            "durability sync",
            "tier_wait_secs 1",
            "tier_stop_secs 90",
            "tier_dirty_bytes 8388608",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn given_values_are_shown_in_memcacheds_units_and_words() {
        let (options, _) = Options::from_map([
            ("port", "-1"),
            ("listen", "127.0.0.1,[::1]:1"),
            ("unix_mask", "0770"),
            ("disable_evictions", "yes"),
            ("max_item_size", "2m"),
            ("auth_file", "/users"),
            ("disable_flush_all", "yes"),
            ("disable_dumping", "yes"),
            ("slab_growth_factor", "2"),
            ("worker_logbuf_size", "8"),
            ("temporary_ttl", "90"),
            ("stat_prefix_delimiter", "/"),
            ("memory_file", "/dev/shm/larder"),
        ])
        .unwrap();
        let shown = settings(&options);
        for (name, text) in [
            ("tcpport", "-1"),
            ("inter", "127.0.0.1,[::1]:1"),
            ("umask", "770"),
            ("evictions", "off"),
            ("item_size_max", "2097152"),
            ("binding_protocol", "ascii"),
            ("auth_enabled_ascii", "/users"),
            ("flush_enabled", "no"),
            ("dump_enabled", "no"),
            ("growth_factor", "2.00"),
            ("worker_logbuf_size", "8192"),
            ("temp_lru", "yes"),
            ("temporary_ttl", "90"),
            ("stat_key_prefix", "/"),
            ("detail_enabled", "yes"),
            ("memory_file", "/dev/shm/larder"),
        ] {
            assert!(shown.contains(&(name, text.to_owned())), "{name} {text}");
        }
    }

    /// memcached 1.6.45, built with flash tier, TLS and privilege dropping, none of them in use.
    const MEMCACHED: &str = "\
maxbytes 67108864
maxconns 1024
tcpport 11211
udpport 0
inter NULL
verbosity 0
oldest 0
evictions on
domain_socket NULL
umask 700
shutdown_command no
growth_factor 1.25
chunk_size 48
num_threads 4
num_threads_per_udp 4
stat_key_prefix :
detail_enabled no
reqs_per_event 20
cas_enabled yes
tcp_backlog 1024
binding_protocol auto-negotiate
auth_enabled_sasl no
auth_enabled_ascii no
item_size_max 1048576
maxconns_fast yes
hashpower_init 0
slab_reassign yes
slab_automove 1
slab_automove_ratio 0.80
slab_automove_window 10
slab_chunk_max 524288
lru_crawler yes
lru_crawler_sleep 100
lru_crawler_tocrawl 0
tail_repair_time 0
flush_enabled yes
dump_enabled yes
hash_algorithm murmur3
lru_maintainer_thread yes
lru_segmented yes
hot_lru_pct 20
warm_lru_pct 40
hot_max_factor 0.20
warm_max_factor 2.00
temp_lru no
temporary_ttl 61
idle_timeout 0
watcher_logbuf_size 262144
worker_logbuf_size 65536
read_buf_mem_limit 0
track_sizes no
inline_ascii_response no
drop_privileges no
ext_item_size 512
ext_item_age 4294967295
ext_low_ttl 0
ext_recache_rate 2000
ext_wbuf_size 4194304
ext_compact_under 0
ext_drop_under 0
ext_max_sleep 1000000
ext_max_frag 0.80
slab_automove_freeratio 0.010
ext_drop_unread no
ssl_enabled no
ssl_chain_cert (null)
ssl_key (null)
ssl_verify_mode 0
ssl_keyformat 1
ssl_ciphers NULL
ssl_ca_cert NULL
ssl_wbuf_size 16384
ssl_session_cache no
ssl_kernel_tls no
ssl_min_version tlsv1.2
num_napi_ids (null)
memory_file (null)
client_flags_size 4";
}

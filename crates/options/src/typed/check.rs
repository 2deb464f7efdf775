//! Checks values against each other: contradictions, and warnings for the user.

use std::path::PathBuf;

use crate::error::OptionError;
use crate::given::values::{Origin, Values};
use crate::table::Id;
use crate::table::kind::MEBIBYTE;
use crate::table::row::Group;
use crate::typed::addresses::wants_readers;
use crate::typed::discovery;
use crate::typed::disk_tier::{self, RequestedDiskTier, TierMode};
use crate::typed::near;
use crate::typed::restore;
use crate::typed::slabs::Slabs;
use crate::typed::tls;
use crate::value::admin::{AdminAddress, AdminListen};
use crate::value::listen::{Listen, ListenPlace};
use crate::value::readers::LocalReaders;

/// Adjusts defaults to the values that the user gave. The largest item may not exceed half of the
/// memory, and the word `readers` in `-l` admits local readers.
pub(crate) fn settle(mut values: Values) -> Values {
    let half = values.bytes(Id::MemoryLimit) / 2;
    let is_default =
        values.given(Id::MaxItemSize).is_some_and(|given| given.origin == Origin::Default);
    if is_default && values.bytes(Id::MaxItemSize) > half {
        values.lower_default(Id::MaxItemSize, half);
    }
    let is_default =
        values.given(Id::LocalReaders).is_some_and(|given| given.origin == Origin::Default);
    if is_default && wants_readers(&values) {
        let readers = LocalReaders::SameUser.to_string();
        // The value is one of the forms, so it is accepted.
        let _ = values.set(Id::LocalReaders, &readers, &Origin::Default);
    }
    values
}

/// Checks the values against each other and collects the warnings.
///
/// # Errors
/// Names the first option that contradicts another.
pub(crate) fn check(values: &Values) -> Result<Vec<String>, OptionError> {
    let (mut warnings, mut errors) = (Vec::new(), Vec::new());
    check_all(values, &mut warnings, &mut errors);
    errors.into_iter().next().map_or(Ok(warnings), Err)
}

/// Same as [`check`], but collects the errors of all options that contradict another.
pub(crate) fn check_all(
    values: &Values,
    warnings: &mut Vec<String>,
    errors: &mut Vec<OptionError>,
) {
    for rule in [
        item_size,
        chunk_size,
        slab_sizes,
        queues,
        napi_ids,
        ways_in,
        restore::contradiction,
        filtered,
        readers,
        readers_word,
        one_path,
        admin_tls,
        tier_alone,
        tier_whole,
        tier_beside,
        tier_bounds,
        near::times,
        near::origins,
        near::files,
        near::beside,
        discovery::one_source,
        discovery::filtered,
    ] {
        if let Some((id, what)) = rule(values) {
            let origin = values.given(id).map_or(&Origin::Default, |given| &given.origin);
            let message = format!("{}: {what}", origin.spelling(id.row()));
            errors.push(OptionError::new(message));
        }
    }
    warnings.extend(self::warnings(values));
    errors.extend(tls::check(values, warnings).err());
}

/// The option that contradicts another, and the text of the error; `None` without a contradiction.
pub(super) type Contradiction = Option<(Id, String)>;

fn item_size(values: &Values) -> Contradiction {
    let (item, memory) = (values.bytes(Id::MaxItemSize), values.bytes(Id::MemoryLimit));
    (item > memory / 2).then(|| {
        let what = format!(
            "{item} bytes are more than half of the {memory} bytes of -m: give at most {}, or \
             raise -m",
            memory / 2
        );
        (Id::MaxItemSize, what)
    })
}

/// memcached's rules for `slab_chunk_max` apply only if it is given. Larder's memory does not have
/// size classes, so otherwise any size of the largest item is accepted.
fn chunk_size(values: &Values) -> Contradiction {
    values.given(Id::SlabChunkMax)?;
    let chunk = u64::from(Slabs::new(values).chunk_bytes_max);
    let item = values.bytes(Id::MaxItemSize);
    let contradicts = |what| Some((Id::SlabChunkMax, format!("{chunk} bytes {what}")));
    if chunk > item {
        contradicts(format!("are more than the {item} of -I"))
    } else if !item.is_multiple_of(chunk) {
        contradicts(format!("do not divide the {item} of -I"))
    } else if !MEBIBYTE.is_multiple_of(chunk) {
        contradicts("do not divide 1 MiB".to_owned())
    } else {
        None
    }
}

fn slab_sizes(values: &Values) -> Contradiction {
    let Slabs { min_bytes, chunk_bytes_max, sizes, .. } = Slabs::new(values);
    let size = sizes.into_iter().find(|size| !(min_bytes..=chunk_bytes_max).contains(size))?;
    let what = format!(
        "{size} is not from {min_bytes}, the size of -n, to {chunk_bytes_max}, that of \
        slab_chunk_max"
    );
    Some((Id::SlabSizes, what))
}

fn queues(values: &Values) -> Contradiction {
    let (hot, warm): (u32, u32) = (values.unsigned(Id::HotLruPct), values.unsigned(Id::WarmLruPct));
    if hot + warm > 80 {
        let what = format!("{hot} and the {warm} of warm_lru_pct are more than 80 together");
        return Some((Id::HotLruPct, what));
    }
    let has_temporary = values.given(Id::TemporaryTtl).is_some();
    (has_temporary && !values.switch(Id::LruMaintainer))
        .then(|| (Id::TemporaryTtl, "it cannot be set without lru_maintainer".to_owned()))
}

/// `-o drop_privileges` installs a filter of system calls. The kernel does not apply it to
/// operations that a process requests through io_uring.
fn filtered(values: &Values) -> Contradiction {
    let is_uring = values.text(Id::Io) == Some("uring");
    (is_uring && values.switch(Id::DropPrivileges)).then(|| {
        let what =
            "uring bypasses the system call filter of -o drop_privileges: leave out one of them";
        (Id::Io, what.to_owned())
    })
}

/// Memory that local readers map cannot be in huge pages.
fn readers(values: &Values) -> Contradiction {
    let is_wanted = has_readers(values) || wants_readers(values);
    (is_wanted && values.switch(Id::EnableLargepages)).then(|| {
        let id = if wants_readers(values) { Id::Listen } else { Id::LocalReaders };
        (id, "memory for local readers cannot be in huge pages: leave out -L".to_owned())
    })
}

/// True if `--local-readers` permits readers.
pub(super) fn has_readers(values: &Values) -> bool {
    values.text(Id::LocalReaders).is_some_and(|readers| readers != "off")
}

/// A socket with the word `readers` contradicts `--local-readers=off`.
fn readers_word(values: &Values) -> Contradiction {
    let origin = values.given(Id::LocalReaders).map(|given| &given.origin);
    let is_forbidden = !has_readers(values) && origin != Some(&Origin::Default);
    (is_forbidden && wants_readers(values)).then(|| {
        let what = "off contradicts the word readers in -l: leave out one of them";
        (Id::LocalReaders, what.to_owned())
    })
}

/// Two listeners cannot have the same path. The start also compares different spellings of a path,
/// which needs the file system.
fn one_path(values: &Values) -> Contradiction {
    let of_cache = match values.text(Id::UnixSocket) {
        Some(path) => vec![(Id::UnixSocket, PathBuf::from(path))],
        None => {
            let paths = values.listen(Id::Listen).into_iter().filter_map(|at| match at.place {
                ListenPlace::Unix { path, .. } => Some((Id::Listen, path)),
                ListenPlace::Tcp { .. } => None,
            });
            paths.collect()
        }
    };
    let admin =
        values.admin_listen(Id::AdminListen).into_iter().filter_map(|at| match at.address {
            AdminAddress::Unix { path, .. } => Some((Id::AdminListen, path)),
            AdminAddress::Tcp { .. } => None,
        });
    let paths: Vec<_> = of_cache.into_iter().chain(admin).collect();
    let (id, path) = (1..paths.len())
        .find(|at| paths[..*at].iter().any(|(_, earlier)| *earlier == paths[*at].1))
        .map(|at| &paths[at])?;
    let what = format!("another listener has the path {}: choose a second one", path.display());
    Some((*id, what))
}

/// An admin listener with TLS uses the certificates of `-Z`, because it cannot have different ones.
fn admin_tls(values: &Values) -> Contradiction {
    let wants_tls = values.admin_listen(Id::AdminListen).iter().any(AdminListen::is_encrypted);
    (wants_tls && !values.switch(Id::EnableSsl)).then(|| {
        let what = "an address with tls needs -Z, whose certificates it uses";
        (Id::AdminListen, what.to_owned())
    })
}

/// Options of the disk tier need its directory.
fn tier_alone(values: &Values) -> Contradiction {
    let is_chosen = |id: &Id| !is_default(values, *id);
    let of_path = [Id::TierSize, Id::TierMode];
    let of_tier = [
        Id::Durability,
        Id::TierAdmit,
        Id::TierWaitSecs,
        Id::TierStopSecs,
        Id::TierDirtyBytes,
        Id::TierCompress,
        Id::TierAcceptLoss,
    ];
    let asked = RequestedDiskTier::of(values).map(|asked| asked.id);
    let (superfluous, what) = match asked {
        Some(Id::TierPath) => {
            let what = "--tier-path names another directory: leave out one of them";
            return values.given(Id::ExtPath).map(|_| (Id::ExtPath, what.to_owned()));
        }
        Some(_) => (&of_path[..], "it is a part of -o ext_path: leave it out"),
        None => (
            &[of_path.as_slice(), &of_tier].concat()[..],
            "it needs the directory of a disk tier: name it with --tier-path, or leave this out",
        ),
    };
    superfluous.iter().copied().find(is_chosen).map(|id| (id, what.to_owned()))
}

/// True if an option has its default value.
fn is_default(values: &Values, id: Id) -> bool {
    let (row, given) = (id.row(), values.given(id));
    let default = row.default.and_then(|text| row.kind.parse(text).ok());
    given.map(|given| &given.value) == default.as_ref()
}

/// The operator must choose the mode and the size of a tier directory, because neither has a
/// default.
fn tier_whole(values: &Values) -> Contradiction {
    let asked = RequestedDiskTier::of(values)?;
    let wrong = |id, what: &str| Some((id, what.to_owned()));
    if asked.mode.is_none() {
        return wrong(
            asked.id,
            "say what the directory promises: --tier-mode store, a durable key-value store, or \
             --tier-mode cache, more room for what memory evicts",
        );
    }
    if asked.bytes.is_none() {
        return wrong(
            asked.id,
            "say how large the log of the directory may get: --tier-size 10g, for example",
        );
    }
    None
}

/// Some options cannot be combined with a disk tier.
fn tier_beside(values: &Values) -> Contradiction {
    let asked = RequestedDiskTier::of(values)?;
    let wrong = |id, what: &str| Some((id, what.to_owned()));
    if values.given(Id::MemoryFile).is_some() {
        return wrong(
            Id::MemoryFile,
            "a directory on disk keeps the items over a restart: leave out one of them",
        );
    }
    match asked.mode? {
        TierMode::Cache if !is_default(values, Id::Durability) => wrong(
            Id::Durability,
            "a crash empties a cache: leave it out, or choose --tier-mode store",
        ),
        TierMode::Cache if values.switch(Id::DisableEvictions) => wrong(
            Id::DisableEvictions,
            "the disk gets what memory evicts: leave it out, or choose --tier-mode store",
        ),
        TierMode::Store if !is_default(values, Id::TierAdmit) => {
            wrong(Id::TierAdmit, "a store has all items: leave it out, or choose --tier-mode cache")
        }
        TierMode::Cache | TierMode::Store => None,
    }
}

fn tier_bounds(values: &Values) -> Contradiction {
    let asked = RequestedDiskTier::of(values)?;
    let (item, memory) = (values.bytes(Id::MaxItemSize), values.bytes(Id::MemoryLimit));
    if item > disk_tier::ITEM_BYTES_MAX && asked.mode == Some(TierMode::Store) {
        let max = disk_tier::ITEM_BYTES_MAX;
        let what = format!("{item} bytes are more than the {max} that --tier-path can keep");
        return Some((Id::MaxItemSize, what));
    }
    let size = asked.bytes?;
    let of_size = if asked.id == Id::TierPath { Id::TierSize } else { asked.id };
    if size < disk_tier::SIZE_MIN {
        let min = disk_tier::SIZE_MIN;
        let what = format!("{size} bytes are less than the {min} that a log needs");
        return Some((of_size, what));
    }
    if size > disk_tier::SIZE_MAX {
        let what = format!("{size} bytes are more than the 64 TiB that a log may have");
        return Some((of_size, what));
    }
    let dirty = values.bytes(Id::TierDirtyBytes);
    let dirty_max = (memory / disk_tier::DIRTY_PART).max(disk_tier::DIRTY_MIN);
    (!is_default(values, Id::TierDirtyBytes) && dirty > dirty_max).then(|| {
        let what = format!("{dirty} bytes are more than {dirty_max}, an eighth of -m");
        (Id::TierDirtyBytes, what)
    })
}

fn napi_ids(values: &Values) -> Contradiction {
    let (queues, workers) = (values.number(Id::NapiIds)?, values.number(Id::Threads)?);
    (queues > workers)
        .then(|| (Id::NapiIds, format!("{queues} are more than the {workers} workers of -t")))
}

/// A server has one kind of authentication, and none of them works by UDP. Those of memcached work
/// only in one protocol, so the options that allow other protocols contradict them.
fn ways_in(values: &Values) -> Contradiction {
    let has_udp = values.number(Id::UdpPort).is_some_and(|port| port != 0);
    let ways = [
        (Id::EnableSasl, values.switch(Id::EnableSasl), Some("binary")),
        (Id::AuthFile, values.given(Id::AuthFile).is_some(), Some("ascii")),
        (Id::Users, values.given(Id::Users).is_some(), None),
    ];
    let mut given = ways.into_iter().filter(|(_, is_given, _)| *is_given);
    let (id, _, needed) = given.next()?;
    if let Some(needed) = needed
        && values.text(Id::Protocol).is_some_and(|given| given != needed)
    {
        return Some((id, format!("it needs -B {needed}, or no -B at all")));
    }
    if has_udp {
        return Some((id, "it cannot be combined with UDP: use -U 0".to_owned()));
    }
    let (other, ..) = given.next()?;
    let other = other.row().spelling();
    Some((id, format!("it cannot be combined with {other}: leave out one of them")))
}

fn warnings(values: &Values) -> Vec<String> {
    let mut warnings = Vec::new();
    let defaults = Values::defaults();
    for id in Id::ALL {
        let row = id.row();
        let default = defaults.given(*id).map(|given| &given.value);
        if let (Group::Warned(reason), Some(given)) = (row.group, values.given(*id))
            && Some(&given.value) != default
        {
            warnings.push(format!("{}: it has no effect: {reason}", given.origin.spelling(row)));
        }
    }
    let is_cache =
        RequestedDiskTier::of(values).is_some_and(|asked| asked.mode == Some(TierMode::Cache));
    if values.given(Id::ExtItemSize).is_some() && !is_cache {
        let what = "it has no effect without ext_path or --tier-mode cache";
        warnings.push(format!("option -o ext_item_size: {what}"));
    }
    let workers: usize = values.unsigned(Id::Threads);
    if workers > WORKER_COUNT_SENSIBLE {
        warnings.push(format!(
            "option -t: {workers} workers: more than {WORKER_COUNT_SENSIBLE} are not recommended"
        ));
    }
    if values.given(Id::MemoryFile).is_some() && values.switch(Id::EnableLargepages) {
        let what = "it does not apply to the file of -e";
        warnings.push(format!("option -L: {what}"));
    }
    let has_socket = values.given(Id::UnixSocket).is_some();
    if has_readers(values) && !has_socket && !wants_readers(values) {
        let what = "it has no effect without -s, or unix[readers]:PATH in -l";
        warnings.push(format!("option --local-readers: {what}"));
    }
    if (has_readers(values) || wants_readers(values)) && values.given(Id::MemoryFile).is_some() {
        let what = "it has no effect with -e: truncating the file would crash its readers";
        let option = if wants_readers(values) { "-l: readers" } else { "--local-readers" };
        warnings.push(format!("option {option}: {what}"));
    }
    let listen = values.listen(Id::Listen);
    let has_unix = listen.iter().any(Listen::is_unix);
    let has_udp = values.number(Id::UdpPort).is_some_and(|port| port != 0);
    if has_udp && has_unix && listen.iter().all(Listen::is_unix) {
        warnings.push("option -U: it has no effect without an address of TCP in -l".to_owned());
    }
    if has_unix && has_socket {
        let what = "its unix sockets have no effect with -s: name that path in -l instead";
        warnings.push(format!("option -l: {what}"));
    }
    if values.switch(Id::UserMetrics) && values.given(Id::Users).is_none() {
        warnings.push("option --user-metrics: it has no effect without --users".to_owned());
    }
    let of_admin_listener =
        [Id::AdminTokenFile, Id::AdminHost, Id::DrainGrace, Id::PrefixMetrics, Id::UserMetrics];
    for id in of_admin_listener {
        let default = defaults.given(id).map(|given| &given.value);
        let is_changed = values.given(id).map(|given| &given.value) != default;
        if is_changed && values.given(Id::AdminListen).is_none() {
            let spelling = id.row().spelling();
            warnings.push(format!("option {spelling}: it has no effect without --admin-listen"));
        }
    }
    near::warn(values, &mut warnings);
    let is_off = |id| values.number(id) == Some(0);
    if is_off(Id::Port) && is_off(Id::UdpPort) && !has_socket && !has_unix {
        warnings.push("option -p: with 0 and without -s, clients cannot connect".to_owned());
    }
    warnings
}

/// memcached warns above this number.
const WORKER_COUNT_SENSIBLE: usize = 64;

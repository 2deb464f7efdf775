//! The rows, and the two enums derived from them.
//!
//! A row is `"name" kind Variant "doc";`. The kinds:
//!
//! - `counter X`: each thread counts; `stats reset` sets it back to 0. Makes [`Counter::X`](Counter).
//! - `level X`: each thread adds its changes up and down; the sum says how many there are. Not reset.
//! - `gauge X`: measured or looked up when somebody asks. Makes [`Gauge::X`](Gauge).
//! - `same Counter X`, `same Gauge X`: shows what another row already shows.
//! - `constant "text"`: memcached's key for something Larder does not have; tools expect the key.
//!
//! `if Condition` before the doc leaves the row out of the answer unless the option is on.

/// Which answer of `stats` a row stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Section {
    /// `stats`.
    General,
    /// `stats items`: the one class 1, which is all items.
    Items,
    /// `stats slabs`: the one class 1, which is all segments.
    Slabs,
    /// The lines of `stats slabs` after the classes.
    SlabsTotal,
    /// `stats larder`: what memcached has no key for.
    Larder,
}

impl Section {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 5] =
        [Self::General, Self::Items, Self::Slabs, Self::SlabsTotal, Self::Larder];

    /// What stands before a row's name on the wire.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Items => "items:1:",
            Self::Slabs => "1:",
            Self::General | Self::SlabsTotal | Self::Larder => "",
        }
    }

    /// The command that shows it.
    pub fn command(self) -> &'static str {
        match self {
            Self::General => "stats",
            Self::Items => "stats items",
            Self::Slabs | Self::SlabsTotal => "stats slabs",
            Self::Larder => "stats larder",
        }
    }

    /// Its rows, in the order of the answer.
    pub fn rows(self) -> impl Iterator<Item = &'static Stat> {
        TABLE.iter().filter(move |stat| stat.section == self)
    }
}

/// The option without which a row is left out, as memcached leaves it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// `-o maxconns_fast`, the default.
    MaxconnsFast,
    /// `-o idle_timeout` above 0.
    IdleTimeout,
    /// `-Z`.
    Tls,
    /// `-Z` and `-o ssl_session_cache`.
    TlsSessions,
    /// `-o slab_reassign`, the default.
    SlabReassign,
    /// `-o lru_crawler`, the default.
    LruCrawler,
    /// `-o lru_maintainer`, the default.
    LruMaintainer,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The sum over all threads' counters.
    Counter(Counter),
    /// Asked for when needed.
    Gauge(Gauge),
    /// Always this text.
    Constant(&'static str),
}

/// A row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Name on the wire, without the section's prefix.
    pub name: &'static str,
    /// Where its value comes from.
    pub source: Source,
    /// Which answer it stands in.
    pub section: Section,
    /// The option it needs to be shown; `None`: always shown.
    pub condition: Option<Condition>,
    /// What it means, with its unit.
    pub doc: &'static str,
}

macro_rules! table {
    ($($section:ident { $(
        $name:literal $(counter $counter:ident)? $(level $level:ident)? $(gauge $gauge:ident)?
        $(same $kind:ident $shown:ident)? $(constant $text:literal)? $(if $condition:ident)?
        $doc:literal;
    )* })*) => {
        /// What a thread counts.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(usize)]
        pub enum Counter {
            $($( $(#[doc = $doc] $counter,)? $(#[doc = $doc] $level,)? )*)*
        }

        impl Counter {
            /// All of them, in the order of the table.
            pub const ALL: &[Self] = &[$($( $(Self::$counter,)? $(Self::$level,)? )*)*];

            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// Does `stats reset` set it back to 0? A sum of changes is not reset: it says how many
            /// there are now.
            pub fn is_reset(self) -> bool {
                match self {
                    $($( $(Self::$counter => true,)? $(Self::$level => false,)? )*)*
                }
            }
        }

        /// What is measured or looked up when somebody asks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Gauge {
            $($( $(#[doc = $doc] $gauge,)? )*)*
        }

        impl Gauge {
            /// All of them, in the order of the table.
            pub const ALL: &[Self] = &[$($( $(Self::$gauge,)? )*)*];
        }

        /// All rows; those of a section stand in the order of its answer.
        pub const TABLE: &[Stat] = &[$($( Stat {
            name: $name,
            source: $(Source::Counter(Counter::$counter))? $(Source::Counter(Counter::$level))?
                $(Source::Gauge(Gauge::$gauge))? $(Source::$kind($kind::$shown))?
                $(Source::Constant($text))?,
            section: Section::$section,
            condition: table!(@condition $($condition)?),
            doc: $doc,
        }, )*)*];
    };
    (@condition) => { None };
    (@condition $condition:ident) => { Some(Condition::$condition) };
}

table! {
General {
    "pid" gauge Pid "Process id of the server.";
    "uptime" gauge UptimeSecs "Seconds since the start; begins at 2, as memcached's does.";
    "time" gauge TimeSecs "Unix time of the server, in seconds.";
    "version" gauge Version "The memcached version whose behaviour is followed.";
    "libevent" constant "none" "Always `none`: Larder has its own event loop.";
    "pointer_size" constant "64" "Bits of an address.";
    "rusage_user" gauge RusageUser "Processor time in the process, `seconds.microseconds`.";
    "rusage_system" gauge RusageSystem "Processor time in the kernel for the process, `seconds.microseconds`.";
    "max_connections" gauge ConnectionCountMax "Connections allowed at once (`-c`).";
    "curr_connections" level ConnectionsCurrent "Connections open now.";
    "total_connections" counter ConnectionsTotal "Connections accepted.";
    "rejected_connections" counter ConnectionsRejected if MaxconnsFast "Connections refused because `-c` was reached.";
    "connection_structures" same Counter ConnectionsCurrent "The same as `curr_connections`: a closed connection keeps no memory.";
    "response_obj_oom" counter ResponseOom "Connections closed because their answers would not fit the memory for buffers.";
    "response_obj_count" level ResponseBufferCount "Output buffers in use.";
    "response_obj_bytes" level ResponseBufferBytes "Memory of the output buffers, in bytes.";
    "read_buf_count" level ReadBufferCount "Input buffers, in use or kept for the next connection.";
    "read_buf_bytes" level ReadBufferBytes "Memory of the input buffers, in bytes.";
    "read_buf_bytes_free" level ReadBufferBytesFree "Memory of the input buffers that no connection uses, in bytes.";
    "read_buf_oom" counter ReadBufferOom "Connections closed because their input would not fit the memory for buffers.";
    "reserved_fds" gauge DescriptorsReserved "File descriptors the server needs besides the connections'.";
    "cmd_get" counter CmdGet "Keys asked for with get, gets or mg; gat, gats and mg with T on a hit count as touches.";
    "cmd_set" counter CmdSet "Storage commands that got memory for their item.";
    "cmd_flush" counter CmdFlush "flush_all commands.";
    "cmd_touch" counter CmdTouch "Keys touched with touch, gat, gats or mg with T, found or not.";
    "cmd_meta" counter CmdMeta "me commands.";
    "get_hits" counter GetHits "Keys found by the commands of `cmd_get`.";
    "get_misses" counter GetMisses "Keys not found by the commands of `cmd_get`, for whatever reason.";
    "get_expired" counter GetExpired "Misses whose item was past its deadline.";
    "get_flushed" counter GetFlushed "Misses whose item was invalidated by flush_all.";
    "delete_misses" counter DeleteMisses "Deletes of keys that were not there.";
    "delete_hits" counter DeleteHits "Items deleted by a client.";
    "incr_misses" counter IncrMisses "Increments of keys that were not there.";
    "incr_hits" counter IncrHits "Increments done.";
    "decr_misses" counter DecrMisses "Decrements of keys that were not there.";
    "decr_hits" counter DecrHits "Decrements done.";
    "cas_misses" counter CasMisses "Compare-and-set on keys that were not there.";
    "cas_hits" counter CasHits "Compare-and-set that stored.";
    "cas_badval" counter CasBadval "Compare-and-set refused: the item has another cas token.";
    "touch_hits" counter TouchHits "Keys found by the commands of `cmd_touch`.";
    "touch_misses" counter TouchMisses "Keys not found by the commands of `cmd_touch`.";
    "store_too_large" counter StoreTooLarge "Stores refused because the item is larger than `-I` allows.";
    "store_no_memory" counter StoreNoMemory "Stores refused for want of memory.";
    "auth_cmds" counter AuthCmds "Authentication attempts.";
    "auth_errors" counter AuthErrors "Authentication attempts that failed.";
    "idle_kicks" counter IdleKicks if IdleTimeout "Connections closed by `idle_timeout`.";
    "bytes_read" counter WireBytesRead "Bytes received from clients.";
    "bytes_written" counter WireBytesWritten "Bytes sent to clients.";
    "limit_maxbytes" gauge MemoryBytesMax "Memory the cache may use (`-m`), in bytes.";
    "accepting_conns" gauge Accepting "1 while new connections are accepted, 0 while `-c` is reached.";
    "listen_disabled_num" counter ListenDisabled "Times that accepting was suspended because `-c` was reached.";
    "time_in_listen_disabled_us" counter ListenDisabledUs "Time spent not accepting, in microseconds.";
    "threads" gauge WorkerCount "Workers (`-t`).";
    "conn_yields" counter ConnectionYields "Times a connection had to let others run after `-R` commands.";
    "hash_power_level" gauge IndexPower "Binary logarithm of the index's slots, rounded down.";
    "hash_bytes" gauge IndexBytes "Memory of the index, in bytes.";
    "hash_is_expanding" constant "0" "Always 0: Larder's index grows one group at a time.";
    "slab_reassign_rescues" constant "0" if SlabReassign "Always 0: Larder has no slab classes to move memory between.";
    "slab_reassign_chunk_rescues" constant "0" if SlabReassign "Always 0: Larder has no slab classes.";
    "slab_reassign_inline_reclaim" constant "0" if SlabReassign "Always 0: Larder has no slab classes.";
    "slab_reassign_busy_items" constant "0" if SlabReassign "Always 0: Larder has no slab classes.";
    "slab_reassign_busy_deletes" constant "0" if SlabReassign "Always 0: Larder has no slab classes.";
    "slab_reassign_busy_nomem" constant "0" if SlabReassign "Always 0: Larder has no slab classes.";
    "slab_reassign_last_busy_status" constant "none" if SlabReassign "Always `none`: Larder has no slab classes.";
    "slab_reassign_running" constant "0" if SlabReassign "Always 0: Larder has no slab classes.";
    "slabs_moved" constant "0" if SlabReassign "Always 0: Larder has no slab classes.";
    "lru_crawler_running" constant "0" if LruCrawler "Always 0: Larder has no crawler thread.";
    "lru_crawler_starts" constant "0" if LruCrawler "Always 0: Larder has no crawler thread.";
    "lru_maintainer_juggles" constant "0" if LruMaintainer "Always 0: Larder has no LRU queues to juggle.";
    "malloc_fails" constant "0" "Always 0: the memory for items is reserved at the start.";
    "log_worker_dropped" constant "0" "Always 0: Larder has no `watch` yet.";
    "log_worker_written" constant "0" "Always 0: Larder has no `watch` yet.";
    "log_watcher_skipped" constant "0" "Always 0: Larder has no `watch` yet.";
    "log_watcher_sent" constant "0" "Always 0: Larder has no `watch` yet.";
    "log_watchers" constant "0" "Always 0: Larder has no `watch` yet.";
    "ssl_new_sessions" counter SslNewSessions if TlsSessions "TLS handshakes that began a session, instead of resuming one.";
    "ssl_handshake_errors" counter SslHandshakeErrors if Tls "TLS handshakes that failed.";
    "ssl_proto_errors" counter SslProtoErrors if Tls "Connections closed because what came after the handshake was not TLS.";
    "time_since_server_cert_refresh" gauge CertificatesAgeSecs if Tls "Seconds since the files of the certificates were read.";
    "unexpected_napi_ids" constant "0" "Always 0: Larder has no NAPI placement (`-N`).";
    "round_robin_fallback" constant "0" "Always 0: Larder has no NAPI placement (`-N`).";
    "bytes" level BytesLive "Memory of the items that can be read, in bytes.";
    "curr_items" level ItemsCurrent "Items stored now; an expired one counts until its memory is taken back.";
    "total_items" counter ItemsTotal "Items stored.";
    "slab_global_page_pool" same Gauge SegmentsFree "Segments that hold nothing.";
    "expired_unfetched" counter ExpiredUnfetched "Expired items whose memory was taken back and that had not been read lately.";
    "evicted_unfetched" counter EvictedUnfetched "Evicted items that were never read.";
    "evicted_active" counter EvictedActive if LruMaintainer "Evicted items that had been read lately.";
    "evictions" counter Evictions "Live items removed to make room.";
    "reclaimed" counter Reclaimed "Expired items whose memory was taken back.";
    "crawler_reclaimed" constant "0" "Always 0: Larder has no crawler thread; see `reclaimed`.";
    "crawler_items_checked" constant "0" "Always 0: Larder has no crawler thread.";
    "lrutail_reflocked" constant "0" "Always 0: in Larder a reader holds nothing that could block an eviction.";
    "moves_to_cold" constant "0" if LruMaintainer "Always 0: Larder has no LRU queues.";
    "moves_to_warm" constant "0" if LruMaintainer "Always 0: Larder has no LRU queues.";
    "moves_within_lru" constant "0" if LruMaintainer "Always 0: Larder has no LRU queues.";
    "direct_reclaims" constant "0" if LruMaintainer "Always 0: Larder has no background thread that frees memory ahead of the workers.";
    "lru_bumps_dropped" constant "0" if LruMaintainer "Always 0: Larder has no LRU queues.";
}
Items {
    "number" same Counter ItemsCurrent "Items stored now.";
    "age" gauge OldestAgeSecs "Age of the oldest segment with items, in seconds.";
    "mem_requested" same Counter BytesLive "Memory of the items that can be read, in bytes.";
    "evicted" same Counter Evictions "Live items removed to make room.";
    "evicted_nonzero" constant "0" "Always 0: Larder does not count evicted items with a deadline apart.";
    "evicted_time" constant "0" "Always 0: Larder does not note when an item was last read.";
    "outofmemory" same Counter StoreNoMemory "Stores refused for want of memory.";
    "tailrepairs" constant "0" "Always 0: Larder has no LRU queues to repair.";
    "reclaimed" same Counter Reclaimed "Expired items whose memory was taken back.";
    "expired_unfetched" same Counter ExpiredUnfetched "Expired items whose memory was taken back and that had not been read lately.";
    "evicted_unfetched" same Counter EvictedUnfetched "Evicted items that were never read.";
    "crawler_reclaimed" constant "0" "Always 0: Larder has no crawler thread.";
    "crawler_items_checked" constant "0" "Always 0: Larder has no crawler thread.";
    "lrutail_reflocked" constant "0" "Always 0: in Larder a reader holds nothing that could block an eviction.";
}
Slabs {
    "chunk_size" gauge SegmentBytes "Size of a segment, in bytes: memcached's chunk and page are one thing here.";
    "chunks_per_page" constant "1" "Always 1: a page is a segment.";
    "total_pages" gauge SegmentCount "Segments.";
    "total_chunks" same Gauge SegmentCount "Segments.";
    "used_chunks" gauge SegmentsUsed "Segments that hold items or a part of the index.";
    "free_chunks" gauge SegmentsFree "Segments that hold nothing.";
    "free_chunks_end" constant "0" "Always 0, as in memcached.";
    "get_hits" same Counter GetHits "Keys found by the commands of `cmd_get`.";
    "cmd_set" same Counter CmdSet "Storage commands that got memory for their item.";
    "delete_hits" same Counter DeleteHits "Items deleted by a client.";
    "incr_hits" same Counter IncrHits "Increments done.";
    "decr_hits" same Counter DecrHits "Decrements done.";
    "cas_hits" same Counter CasHits "Compare-and-set that stored.";
    "cas_badval" same Counter CasBadval "Compare-and-set refused: the item has another cas token.";
    "touch_hits" same Counter TouchHits "Keys found by the commands of `cmd_touch`.";
}
SlabsTotal {
    "active_slabs" constant "1" "Always 1: Larder has one class.";
    "total_malloced" gauge MemoryBytes "Memory of the region, in bytes.";
}
Larder {
    "bytes_written_items" counter BytesWritten "Bytes of items written into segments by stores.";
    "bytes_relocated" counter BytesRelocated "Bytes of items copied to another segment to keep them.";
    "evictions_small" counter EvictionsSmall "Evictions of items from the small pool: they were not read often enough since they came. The other evictions are from the main pool.";
    "evicted_age_secs" counter EvictedAgeSecs "Sum of the seconds that evicted items had been in their segments; by `evictions`, the mean age at eviction.";
    "ghost_hits" counter GhostHits "Items stored again soon after their eviction from the small pool, and so into the main pool.";
    "segments_evicted" counter SegmentsEvicted "Segments emptied by eviction.";
    "segments_spent" counter SegmentsSpent "Segments taken back because nothing in them was alive.";
    "segments_compacted" counter SegmentsCompacted "Segments emptied by moving their live items.";
    "altered_in_place" counter AlteredInPlace "Numbers counted, and values appended to, where they were.";
    "groups_split" counter GroupsSplit "Groups of the index split to make it grow.";
    "reads_retried" counter ReadsRetried "Reads repeated because the item changed meanwhile.";
    "uploads_aborted" counter UploadsAborted "Values whose sender went away, or which found no memory, before they were complete.";
    "segments_index" gauge SegmentsIndex "Segments that hold a part of the index.";
    "segments_items" gauge SegmentsItems "Segments that hold items.";
    "segments_small" gauge SegmentsSmall "Those of them that belong to the small pool, through which new items pass.";
    "segments_ghost" gauge SegmentsGhost "Segments that remember what was evicted lately.";
    "segments_pinned" gauge SegmentsPinned "Segments held by readers of large values.";
    "live_percent" gauge LivePercent "Bytes of items by the memory of the segments that hold items, in percent.";
    "eviction_age_secs" gauge EvictionAgeSecs "Mean of the seconds that evicted items had been in their segments, since the last `stats reset`.";
    "groups" gauge GroupCount "Groups of the index.";
    "groups_overflow" gauge GroupOverflowCount "Groups that hold what did not fit into the group of its hash.";
}
}

#[cfg(test)]
mod tests;

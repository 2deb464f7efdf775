//! The rows of the table, and the enums that are derived from them.
//!
//! A row is `"name" kind Variant "doc";`. The kinds:
//!
//! - `counter X`: counted by each thread, and reset by `stats reset`. Defines
//!   [`Counter::X`](Counter).
//! - `level X`: each thread adds its increases and decreases; the sum is the current value. Not
//!   reset.
//! - `gauge X`: measured or looked up on request. Defines [`Gauge::X`](Gauge).
//! - `tier_gauge X`: the same, of the disk tier. Defines [`TierGauge::X`](TierGauge).
//! - `class_counter X`, `class_gauge X`: the same per size class. Define
//!   [`ClassCounter::X`](ClassCounter) and [`ClassGauge::X`](ClassGauge).
//! - `same Counter X`, `same Gauge X`, `same TierGauge X`: shows the value of another row.
//! - `constant "text"`: a key of memcached without a counterpart in Larder; tools expect the key.
//!
//! `if Condition …` before the doc omits the row from the reply unless all conditions hold.

use crate::stat::{Condition, Section, Source, Stat};

macro_rules! table {
    ($($section:ident { $(
        $name:literal $(counter $counter:ident)? $(level $level:ident)? $(gauge $gauge:ident)?
        $(tier_gauge $tier_gauge:ident)?
        $(class_counter $class_counter:ident)? $(class_gauge $class_gauge:ident)?
        $(same $kind:ident $shown:ident)? $(constant $text:literal)? $(if $($condition:ident)+)?
        $doc:literal;
    )* })*) => {
        /// The counters of a thread.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(usize)]
        pub enum Counter {
            $($( $(#[doc = $doc] $counter,)? $(#[doc = $doc] $level,)? )*)*
        }

        impl Counter {
            /// All counters, in the order of the table.
            pub const ALL: &[Self] = &[$($( $(Self::$counter,)? $(Self::$level,)? )*)*];

            /// Number of counters.
            pub const COUNT: usize = Self::ALL.len();

            /// True if `stats reset` sets the counter to 0. Levels are not reset: they are current
            /// values.
            pub fn is_reset(self) -> bool {
                match self {
                    $($( $(Self::$counter => true,)? $(Self::$level => false,)? )*)*
                }
            }
        }

        /// The counters kept per size class.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(usize)]
        pub enum ClassCounter {
            $($( $(#[doc = $doc] $class_counter,)? )*)*
        }

        impl ClassCounter {
            /// All counters, in the order of the table.
            pub const ALL: &[Self] = &[$($( $(Self::$class_counter,)? )*)*];

            /// Number of counters.
            pub const COUNT: usize = Self::ALL.len();
        }

        /// The values measured or looked up on request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Gauge {
            $($( $(#[doc = $doc] $gauge,)? )*)*
        }

        impl Gauge {
            /// All gauges, in the order of the table.
            pub const ALL: &[Self] = &[$($( $(Self::$gauge,)? )*)*];
        }

        /// The values of the disk tier, looked up on request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum TierGauge {
            $($( $(#[doc = $doc] $tier_gauge,)? )*)*
        }

        /// The values measured on request per size class.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ClassGauge {
            $($( $(#[doc = $doc] $class_gauge,)? )*)*
        }

        impl ClassGauge {
            /// All gauges, in the order of the table.
            pub const ALL: &[Self] = &[$($( $(Self::$class_gauge,)? )*)*];
        }

        /// All rows. The rows of a section are in the order of its reply.
        pub const TABLE: &[Stat] = &[$($( Stat {
            name: $name,
            source: $(Source::Counter(Counter::$counter))? $(Source::Counter(Counter::$level))?
                $(Source::Gauge(Gauge::$gauge))?
                $(Source::TierGauge(TierGauge::$tier_gauge))? $(Source::$kind($kind::$shown))?
                $(Source::ClassCounter(ClassCounter::$class_counter))?
                $(Source::ClassGauge(ClassGauge::$class_gauge))?
                $(Source::Constant($text))?,
            section: Section::$section,
            conditions: &[$($(Condition::$condition),+)?],
            doc: $doc,
        }, )*)*];
    };
}

table! {
General {
    "pid" gauge Pid "Process id of the server.";
    "uptime" gauge UptimeSecs "Seconds since the start; begins at 2, as in memcached.";
    "time" gauge TimeSecs "Unix time of the server, in seconds.";
    "version" gauge Version "The memcached version that Larder is compatible with.";
    "libevent" constant "none" "Always `none`: Larder does not use libevent.";
    "pointer_size" constant "64" "Size of a pointer, in bits.";
    "rusage_user" gauge RusageUser "Processor time in user mode, as `seconds.microseconds`.";
    "rusage_system" gauge RusageSystem "Processor time in the kernel, as `seconds.microseconds`.";
    "max_connections" gauge ConnectionCountMax "Limit on open connections (`-c`).";
    "curr_connections" level ConnectionsCurrent "Open connections.";
    "total_connections" counter ConnectionsTotal "Connections accepted.";
    "rejected_connections" counter ConnectionsRejected if MaxconnsFast "Connections refused because the limit `-c` was reached.";
    "connection_structures" same Counter ConnectionsCurrent "Same as `curr_connections`: a closed connection keeps no memory.";
    "response_obj_oom" counter ResponseOom "Connections closed because the buffers exceeded their memory limit, and the connection held the most output of all connections without progress for 2 s.";
    "response_obj_count" level ResponseBufferCount "Output buffers in use.";
    "response_obj_bytes" level ResponseBufferBytes "Memory of the output buffers, in bytes.";
    "read_buf_count" level ReadBufferCount "Input buffers, in use or kept for new connections.";
    "read_buf_bytes" level ReadBufferBytes "Memory of the input buffers, in bytes.";
    "read_buf_bytes_free" level ReadBufferBytesFree "Memory of the input buffers that no connection uses, in bytes.";
    "read_buf_oom" counter ReadBufferOom "Connections closed because the buffers exceeded their memory limit, and the connection held the most input of all connections without progress for 2 s.";
    "reserved_fds" gauge DescriptorsReserved "File descriptors that the server needs in addition to the descriptors of connections.";
    "cmd_get" counter CmdGet "Keys requested with get, gets or mg; gat, gats and mg with T count as touches on a hit.";
    "cmd_set" counter CmdSet "Storage commands for which memory was allocated.";
    "cmd_flush" counter CmdFlush "flush_all commands.";
    "cmd_touch" counter CmdTouch "Keys requested with touch, gat, gats or mg with T, hit or miss.";
    "cmd_meta" counter CmdMeta "me commands.";
    "get_hits" counter GetHits "Hits of the commands counted in `cmd_get`.";
    "get_misses" counter GetMisses "Misses of the commands counted in `cmd_get`, for any reason.";
    "get_expired" counter GetExpired "Misses because the item had expired.";
    "get_flushed" counter GetFlushed "Misses because flush_all had invalidated the item.";
    "badcrc_from_extstore" same TierGauge ItemsUnreadable if TierCache "Same as `tier_items_unreadable`: also includes items that the disk did not return at all.";
    "delete_misses" counter DeleteMisses "Deletes of absent keys.";
    "delete_hits" counter DeleteHits "Items deleted by clients.";
    "incr_misses" counter IncrMisses "Increments of absent keys.";
    "incr_hits" counter IncrHits "Successful increments.";
    "decr_misses" counter DecrMisses "Decrements of absent keys.";
    "decr_hits" counter DecrHits "Successful decrements.";
    "cas_misses" counter CasMisses "Compare-and-set commands on absent keys.";
    "cas_hits" counter CasHits "Compare-and-set commands that stored.";
    "cas_badval" counter CasBadval "Compare-and-set commands refused because the item had another cas token.";
    "touch_hits" counter TouchHits "Hits of the commands counted in `cmd_touch`.";
    "touch_misses" counter TouchMisses "Misses of the commands counted in `cmd_touch`.";
    "store_too_large" counter StoreTooLarge "Stores refused because the item exceeded the limit `-I`.";
    "store_no_memory" counter StoreNoMemory "Stores refused because memory was full.";
    "auth_cmds" counter AuthCmds "Authentication attempts.";
    "auth_errors" counter AuthErrors "Failed authentication attempts.";
    "idle_kicks" counter IdleKicks if IdleTimeout "Connections closed after `idle_timeout`.";
    "bytes_read" counter WireBytesRead "Bytes received from clients.";
    "bytes_written" counter WireBytesWritten "Bytes sent to clients.";
    "limit_maxbytes" gauge MemoryBytesMax "Memory limit of the cache (`-m`), in bytes.";
    "accepting_conns" gauge Accepting "1 while the server accepts connections, 0 while the limit `-c` is reached.";
    "listen_disabled_num" counter ListenDisabled "Times the server stopped accepting connections because the limit `-c` was reached.";
    "time_in_listen_disabled_us" counter ListenDisabledUs "Time during which the server did not accept connections, in microseconds.";
    "threads" gauge WorkerCount "Worker threads (`-t`).";
    "conn_yields" counter ConnectionYields "Times a connection yielded to others after `-R` commands.";
    "hash_power_level" gauge IndexPower "Base-2 logarithm of the number of index slots, rounded down.";
    "hash_bytes" gauge IndexBytes "Memory of the index, in bytes.";
    "hash_is_expanding" constant "0" "Always 0: Larder's index grows continuously, one group at a time, and no operation waits for it.";
    "slab_reassign_rescues" counter ItemsRescued if SlabReassign "Live items relocated to reclaim a mostly dead segment.";
    "slab_reassign_chunk_rescues" counter PiecesRescued if SlabReassign "Pieces of large values relocated to reclaim a mostly dead segment.";
    "slab_reassign_evictions_nomem" constant "0" if SlabReassign Answers18 "Always 0: survivors of a segment are relocated, or counted in `evictions`.";
    "slab_reassign_inline_reclaim" constant "0" if SlabReassign "Always 0: a segment has no list of free chunks.";
    "slab_reassign_busy_items" constant "0" if SlabReassign "Always 0: readers do not block the relocation of items.";
    "slab_reassign_busy_deletes" constant "0" if SlabReassign "Always 0: readers do not block the relocation of items.";
    "slab_reassign_busy_nomem" constant "0" if SlabReassign Answers45 "Always 0: a free segment for survivors is always available.";
    "slab_reassign_last_busy_status" constant "none" if SlabReassign Answers45 "Always `none`: readers do not block the relocation of items.";
    "slab_reassign_running" gauge Emptying if SlabReassign "1 while a segment is being emptied, otherwise 0.";
    "slabs_moved" same Counter SegmentsCompacted if SlabReassign "Segments reclaimed by relocating their live items.";
    "lru_crawler_running" level CrawlersRunning if LruCrawler "Crawls and dumps in progress, started by clients.";
    "lru_crawler_starts" counter CrawlerStarts if LruCrawler "Crawls and dumps started by clients.";
    "lru_maintainer_juggles" counter MaintainerRounds if LruMaintainer "Rounds of the maintainer thread, which reclaims dead memory and evicts ahead of the writers.";
    "malloc_fails" constant "0" "Always 0: the memory for items is reserved at startup.";
    "log_worker_dropped" counter LogWorkerDropped "Lines for `watch` dropped because a worker's buffer was full.";
    "log_worker_written" counter LogWorkerWritten "Lines for `watch` written by workers.";
    "log_watcher_skipped" counter LogWatcherSkipped "Lines dropped because a watching connection was too slow.";
    "log_watcher_sent" counter LogWatcherSent "Lines sent to watching connections.";
    "log_watchers" level LogWatchers "Watching connections.";
    "extstore_compact_lost" constant "0" if TierCache "Always 0: the log is not compacted; its oldest segment is dropped.";
    "extstore_compact_rescues" constant "0" if TierCache "Always 0: the log is not compacted; an item of an old segment is written again when memory evicts it again.";
    "extstore_compact_resc_cold" constant "0" if TierCache Answers45 "Always 0: the log is not compacted.";
    "extstore_compact_resc_old" constant "0" if TierCache Answers45 "Always 0: the log is not compacted.";
    "extstore_compact_skipped" constant "0" if TierCache "Always 0: the log is not compacted.";
    "extstore_page_allocs" tier_gauge ExtstorePageAllocs if TierCache "Segments of the log that were begun since the start. Here and below a page is a segment of 4 MiB.";
    "extstore_page_evictions" tier_gauge ExtstorePageEvictions if TierCache "Segments reclaimed since the start that still had items.";
    "extstore_page_reclaims" same TierGauge SegmentsReclaimed if TierCache "Segments reclaimed since the start.";
    "extstore_pages_free" tier_gauge ExtstorePagesFree if TierCache "Segments that still fit into the log.";
    "extstore_pages_used" tier_gauge ExtstorePagesUsed if TierCache "Segments of the log.";
    "extstore_objects_evicted" tier_gauge ExtstoreObjectsEvicted if TierCache "Items removed together with a reclaimed segment, since the start.";
    "extstore_objects_read" same TierGauge Reads if TierCache "Items read from the disk since the start.";
    "extstore_objects_written" same TierGauge ItemsEvicted if TierCache "Items written to the disk since the start.";
    "extstore_objects_used" same TierGauge Items if TierCache "Items on the disk, including items that are also in memory.";
    "extstore_bytes_evicted" tier_gauge ExtstoreBytesEvicted if TierCache "Bytes of the items removed together with a reclaimed segment, since the start; without damaged segments, whose items are unknown.";
    "extstore_bytes_written" same TierGauge WrittenBytes if TierCache "Bytes written to the log since the start.";
    "extstore_bytes_read" tier_gauge ExtstoreBytesRead if TierCache "Bytes read from the log for items since the start, in whole pages of 4 KiB.";
    "extstore_bytes_used" same TierGauge LiveBytes if TierCache "Bytes of the items on the disk, estimated from the mean length of the items of each segment.";
    "extstore_bytes_fragmented" tier_gauge ExtstoreBytesFragmented if TierCache "Bytes of the segments in use that do not belong to an item.";
    "extstore_limit_maxbytes" same TierGauge SizeBytes if TierCache "Size of the log (`--tier-size`, or the size in `ext_path`), in bytes.";
    "ssl_new_sessions" counter SslNewSessions if TlsSessions "TLS handshakes that started a new session.";
    "ssl_handshake_errors" counter SslHandshakeErrors if Tls "Failed TLS handshakes.";
    "ssl_proto_errors" counter SslProtoErrors if Tls Answers45 "Connections closed because the data after the handshake was not valid TLS.";
    "time_since_server_cert_refresh" gauge CertificatesAgeSecs if Tls "Seconds since the certificate files were read.";
    "unexpected_napi_ids" constant "0" "Always 0: Larder assigns connections to its workers in turn, also with `-N`.";
    "round_robin_fallback" constant "0" "Always 0: assignment in turn is not a fallback in Larder, even with `-N`.";
    "bytes" gauge BytesLive "Memory of live items, in bytes.";
    "curr_items" gauge ItemsCurrent "Stored items; an expired item counts until its memory is reclaimed.";
    "total_items" counter ItemsTotal "Items stored.";
    "slab_global_page_pool" gauge PagesFree "Memory of segments that were in use and are now free, in pages of 1 MiB.";
    "expired_unfetched" counter ExpiredUnfetched "Expired items that were reclaimed without having been read recently.";
    "evicted_unfetched" counter EvictedUnfetched "Evicted items that were never read.";
    "evicted_active" counter EvictedActive if LruMaintainer "Evicted items that were read recently.";
    "evictions" counter Evictions "Live items removed to free memory.";
    "reclaimed" counter Reclaimed "Expired items that were reclaimed.";
    "crawler_reclaimed" counter CrawlerReclaimed "Expired items that the expiry sweep reclaimed; not in `reclaimed`.";
    "crawler_items_checked" counter CrawlerItemsChecked "Items with a deadline that the expiry sweep checked.";
    "lrutail_reflocked" constant "0" "Always 0: readers hold no locks that could block an eviction.";
    "moves_to_cold" counter MovesToCold if LruMaintainer "Items moved from the small to the main pool because they were read while new.";
    "moves_to_warm" counter MovesToWarm if LruMaintainer "Items of the main pool kept when their segment was evicted, with their read count still above zero.";
    "moves_within_lru" counter MovesWithin if LruMaintainer "Items of the main pool kept when their segment was evicted, and kept again only if they are read.";
    "direct_reclaims" counter DirectReclaims if LruMaintainer "Segments that a store had to empty because the maintainer thread had not done so in time.";
    "lru_bumps_dropped" constant "0" if LruMaintainer "Always 0: a read is recorded in the item's slot, not in a queue.";
    "larder_version" gauge LarderVersion if LruMaintainer "Version of Larder. Like the next key, omitted with `-o no_lru_maintainer`, because memcached's test suite counts the keys there.";
    "larder_commit" gauge LarderCommit if LruMaintainer "Commit of the build, or `unknown`.";
}
Items {
    "number" class_gauge Number "Stored items.";
    "number_hot" class_gauge NumberHot if LruMaintainer "Stored items in the small pool, where new items begin.";
    "number_warm" class_gauge NumberWarm if LruMaintainer "Stored items in the main pool that were read recently.";
    "number_cold" class_gauge NumberCold if LruMaintainer "Stored items in the main pool that were not read recently.";
    "number_temp" class_gauge NumberTemp if LruMaintainer TemporaryTtl "Items stored with a time to live of at most `temporary_ttl` seconds; not included in the other numbers.";
    "age_hot" class_gauge AgeHot if LruMaintainer "Age of the oldest item of `number_hot` in its segment, in seconds.";
    "age_warm" class_gauge AgeWarm if LruMaintainer "Age of the oldest item of `number_warm` in its segment, in seconds.";
    "age" class_gauge Age "Age of the oldest item in its segment, in seconds.";
    "mem_requested" class_gauge MemRequested "Size of the items, as memcached counts it, in bytes.";
    "evicted" class_counter Evicted "Live items removed to free memory.";
    "evicted_nonzero" class_counter EvictedNonzero "Evicted items that had a deadline.";
    "evicted_time" class_gauge EvictedTime "Age in its segment of the item evicted last, in seconds.";
    "outofmemory" class_counter OutOfMemory "Stores refused because memory was full.";
    "tailrepairs" constant "0" "Always 0: Larder has no LRU queues to repair.";
    "reclaimed" class_counter Reclaimed "Expired items that were reclaimed.";
    "expired_unfetched" class_counter ExpiredUnfetched "Expired items that were reclaimed without ever having been read.";
    "evicted_unfetched" class_counter EvictedUnfetched "Evicted items that were never read.";
    "evicted_active" class_counter EvictedActive if LruMaintainer "Evicted items that were read.";
    "crawler_reclaimed" class_counter CrawlerReclaimed "Expired items that the expiry sweep found; not in `reclaimed`.";
    "crawler_items_checked" constant "0" "Always 0: the expiry sweep has one counter for all classes, in `stats`.";
    "lrutail_reflocked" constant "0" "Always 0: readers hold no locks that could block an eviction.";
    "moves_to_cold" constant "0" if LruMaintainer "Always 0: moves have one counter for all classes, in `stats`.";
    "moves_to_warm" constant "0" if LruMaintainer "Always 0: moves have one counter for all classes, in `stats`.";
    "moves_within_lru" constant "0" if LruMaintainer "Always 0: moves have one counter for all classes, in `stats`.";
    "direct_reclaims" constant "0" if LruMaintainer "Always 0: segments hold items of all classes; see `direct_reclaims` in `stats`.";
    "hits_to_hot" constant "0" if LruMaintainer "Always 0: hits are not counted by pool; see `get_hits` in `stats slabs`.";
    "hits_to_warm" constant "0" if LruMaintainer "Always 0: hits are not counted by pool; see `get_hits` in `stats slabs`.";
    "hits_to_cold" constant "0" if LruMaintainer "Always 0: hits are not counted by pool; see `get_hits` in `stats slabs`.";
    "hits_to_temp" constant "0" if LruMaintainer "Always 0: hits are not counted by pool; see `get_hits` in `stats slabs`.";
}
Slabs {
    "chunk_size" class_gauge ChunkSize "Size of the largest item of the class, in bytes.";
    "chunks_per_page" class_gauge ChunksPerPage "Number of such items per 1 MiB.";
    "total_pages" class_gauge TotalPages "Memory that the items would use in memcached, in pages of 1 MiB; at least 1.";
    "total_chunks" class_gauge TotalChunks "Number of items that fit into these pages.";
    "used_chunks" class_gauge UsedChunks "Number of chunks that memcached would need for the stored items: one per item, several for an item larger than the last class.";
    "free_chunks" class_gauge FreeChunks "`total_chunks` minus `used_chunks`.";
    "free_chunks_end" constant "0" "Always 0, as in memcached.";
    "get_hits" class_counter GetHits "Hits of the commands counted in `cmd_get`.";
    "cmd_set" class_counter CmdSet "Storage commands for which memory was allocated.";
    "delete_hits" class_counter DeleteHits "Items deleted by clients.";
    "incr_hits" class_counter IncrHits "Successful increments.";
    "decr_hits" class_counter DecrHits "Successful decrements.";
    "cas_hits" class_counter CasHits "Compare-and-set commands that stored.";
    "cas_badval" class_counter CasBadval "Compare-and-set commands refused because the item had another cas token.";
    "touch_hits" class_counter TouchHits "Hits of the commands counted in `cmd_touch`.";
}
SlabsTotal {
    "active_slabs" gauge ActiveClasses "Size classes that have ever held items.";
    "total_malloced" gauge MemoryBytes "Memory of the segments that are or were in use, rounded up to pages of 1 MiB, in bytes.";
}
Larder {
    "larder_version" same Gauge LarderVersion "Version of Larder.";
    "larder_commit" same Gauge LarderCommit "Commit of the build, or `unknown`.";
    "bytes_written_items" counter BytesWritten "Bytes of items that stores wrote into segments.";
    "bytes_relocated" counter BytesRelocated "Bytes of items relocated to another segment.";
    "evictions_small" counter EvictionsSmall "Evictions from the small pool: the items were not read often enough since they were stored. The other evictions are from the main pool.";
    "evicted_age_secs" counter EvictedAgeSecs "Sum of the ages of evicted items in their segments, in seconds; divided by `evictions`, the mean age at eviction.";
    "ghost_hits" counter GhostHits "Items stored into the main pool because they were evicted from the small pool shortly before.";
    "segments_evicted" counter SegmentsEvicted "Segments emptied by eviction.";
    "segments_spent" counter SegmentsSpent "Segments reclaimed because they held no live item.";
    "segments_compacted" counter SegmentsCompacted "Segments emptied by relocating their live items.";
    "altered_in_place" counter AlteredInPlace "Counters changed, values appended to and values overwritten, in place.";
    "groups_split" counter GroupsSplit "Groups of the index split to grow it.";
    "reads_retried" counter ReadsRetried "Reads repeated because the item changed during the read.";
    "local_reads" counter LocalReads "Reads that clients made directly in the cache's memory (`--local-readers`) and reported. Clients report one in two of these reads, and no reads of items that were read a few times recently. Included in `cmd_get` and `get_hits`.";
    "followers" gauge Followers if Followers "Near caches that follow the server (`--followers`).";
    "follower_changes" counter FollowerChanges if Followers "Reports of a changed bucket that were sent to near caches.";
    "follower_flushes" counter FollowerFlushes if Followers "Reports to near caches that every item may have changed.";
    "follower_overflows" counter FollowerOverflows if Followers "Reports among `follower_flushes` that replaced others, because a near cache did not read as fast as items changed.";
    "follower_fetches" counter FollowerFetches if Followers "Items that near caches fetched. Not included in `cmd_get`.";
    "follower_fetches_unnoted" counter FollowerFetchesUnnoted if Followers "Fetches among these whose items must not be copied, because the server will not report their changes.";
    "warm_phase" gauge WarmPhase "1: `larder warm` copies items into the server. 2: such a copy has failed, and its items are being removed. 0: neither.";
    "warm_stored" gauge WarmStored "Items that the copy has stored, or that the last one had stored.";
    "warm_refused" gauge WarmRefused "Items that it has not stored, because a client had changed the key, or an item was there.";
    "warm_undone" gauge WarmUndone "Copies that have failed, so that their items were removed.";
    "near_origins" gauge NearOrigins if Near "Origins of the near cache (`--origin`). `stats origins` has the figures of each.";
    "near_origins_unreachable" gauge NearOriginsUnreachable if Near "Origins that cannot be reached.";
    "near_origins_passing" gauge NearOriginsPassing if Near "Origins that report no changes at the moment, so that nothing of them is copied.";
    "near_origins_late" gauge NearOriginsLate if Near "Origins that report their changes, but whose last answer is older than `--near-max-stale`, so that copies of their items are not used.";
    "near_origins_timed" gauge NearOriginsTimed if Near "Origins that do not report changes, so that their copies are used for `--near-ttl`.";
    "near_fresh" gauge NearFresh if Near "Origins whose copies may be used now.";
    "near_state" gauge NearState if Near "`copies`: the origin reports its changes. `timed`: it does not, so that each copy is used for `--near-ttl`. `passes`: it does not at the moment, so that nothing is copied. `unreachable`: it cannot be reached. `unknown`: it has not answered yet. `mixed`: several origins are in different states.";
    "near_stale_max_ms" gauge NearStaleMaxMs if Near "Milliseconds for which a copy may be out of date: `--near-max-stale`, and `--near-ttl` for origins that do not report changes; the longer one if both are in force.";
    "near_ahead" counter NearAhead if Near "Hits of copies that were fetched together with the item of an earlier read in the same input: no earlier request has left them.";
    "near_joined" counter NearJoined if Near "Reads that waited for a fetch which another read had begun.";
    "near_fetches" counter NearFetches if Near "Items that were fetched from the origin.";
    "near_fetched_bytes" counter NearFetchedBytes if Near "Bytes of their values.";
    "near_kept" counter NearKept if Near "Fetched items, and absences of items, that were kept as copies.";
    "near_absent_hits" counter NearAbsentHits if Near "Misses that were answered without the origin, because it was known to have no item. Included in `get_misses`.";
    "near_passed" counter NearPassed if Near "Commands that were passed to the origin.";
    "near_unreachable" counter NearUnreachable if Near "Requests that failed because the origin could not be reached.";
    "near_unanswered" counter NearUnanswered if Near "Requests that failed because the origin did not answer in time, or because its connection was lost.";
    "near_changes" counter NearChanges if Near "Changes that the origin reported.";
    "near_dropped" counter NearDropped if Near "Copies that were dropped because of such a report.";
    "near_flushes" counter NearFlushes if Near "Reports that every item may have changed.";
    "near_streams_lost" counter NearStreamsLost if Near "Change streams that ended. All copies are dropped then.";
    "near_refused_detached" counter NearRefusedDetached if Near "Fetched items that were not kept, because they may have changed since the fetch began.";
    "near_refused_unsubscribed" counter NearRefusedUnsubscribed if Near "Fetched items that were not kept, because the change stream of their fetch had ended.";
    "near_refused_unnoted" counter NearRefusedUnnoted if Near "Fetched items that were not kept, because the origin does not report their changes.";
    "near_refused_expiring" counter NearRefusedExpiring if Near "Fetched items that were not kept, because they had no time to live left.";
    "near_refused_uncopied" counter NearRefusedUncopied if Near "Fetches whose items the origin did not send: they exceed `--near-item-max`, are stale, have a recache token, or cannot be read.";
    "near_refused_no_memory" counter NearRefusedNoMemory if Near "Fetched items that were not kept, because they expire within a second or no memory was left.";
    "near_weights_reload_failures" counter WeightsReloadFailures if Near "Attempts to read the file of `--origin-weights` again that failed. The previous weights stay in effect.";
    "near_listed_bytes" gauge NearListedBytes if Near "Memory for the keys of the copies, which lists them by bucket.";
    "near_listed_bytes_max" gauge NearListedBytesMax if Near "Limit of this memory, a quarter of `-m`.";
    "cluster_requests" counter ClusterRequests if Discovery "Requests for the list of servers (`config get cluster`, and reads of `AmazonElastiCache:cluster`).";
    "cluster_nodes" gauge ClusterNodes if Discovery "Servers in the list that clients discover (`--cluster-file`, `--cluster-dns`); 0 until the name is resolved for the first time.";
    "cluster_version" gauge ClusterVersion if Discovery "Version of this list; 0 until the name is resolved for the first time.";
    "cluster_changes" counter ClusterChanges if Discovery "New lists.";
    "cluster_stale" gauge ClusterStale if Discovery "1 while the file cannot be used or the name cannot be resolved, so that the list may be out of date, otherwise 0.";
    "cluster_failures" counter ClusterFailures if Discovery "Attempts to read the file or to resolve the name that failed. The previous list stays in effect.";
    "get_expired" same Counter GetExpired "Misses because the item had expired.";
    "get_flushed" same Counter GetFlushed "Misses because flush_all had invalidated the item.";
    "auth_failures" same Counter AuthErrors "Failed authentication attempts of cache clients.";
    "not_permitted" counter NotPermitted "Commands refused because of the rights of the user or of the listener.";
    "users_reload_failures" counter UsersReloadFailures "Attempts to read the file of `--users` again that failed because the file was not valid.";
    "rate_limited" counter RateLimited "Commands refused because the user exceeded its rate.";
    "admin_auth_failures" counter AdminAuthFailures "Requests to the admin listener with a token that does not exist.";
    "tls_handshakes" counter TlsHandshakes if Tls "Completed TLS handshakes of cache clients, with new and resumed sessions.";
    "tls_handshake_failures" same Counter SslHandshakeErrors if Tls "Failed TLS handshakes of cache clients.";
    "certificate_expiry_secs" gauge CertificateExpirySecs if Tls "Unix time in seconds at which the server's certificate expires; 0 if the expiry cannot be read.";
    "certificate_reload_failures" counter CertificateReloadFailures if Tls "Failed attempts to load changed certificate files. While the files stay unusable, larderd repeats the attempt every minute.";
    "output_budget_bytes" gauge OutputBudgetBytes "Limit for the unsent output and unfinished input of all connections together, beyond the amount that each connection may always hold.";
    "output_budget_used_bytes" gauge OutputBudgetUsedBytes "Used part of that limit.";
    "hot_keys_sampled" counter HotKeysSampled "Commands sampled for `stats hotkeys`.";
    "hot_keys_lost" counter HotKeysLost "Samples for `stats hotkeys` that were dropped because they came faster than they were evaluated.";
    "slow_requests" counter SlowRequests "Requests that took at least as long as `--log-slower-than`. Requests that are answered together count as one.";
    "uploads_aborted" counter UploadsAborted "Incomplete values abandoned because the sender disconnected or memory was full.";
    "memory_followed" gauge MemoryFollowed "1 while the memory limit of the cache follows the memory that the process may use (`-m` as a percentage), otherwise 0.";
    "memory_bound_bytes" gauge MemoryBoundBytes "Memory that the process may use, in bytes: the smallest limit of its cgroups, or the machine's memory. With `-m` as a number it is read once, at the start. 0 if it is unknown.";
    "memory_lowered" counter MemoryLowered "Times the memory limit of the cache was lowered by 5 % because memory was short.";
    "segment_bytes" gauge SegmentBytes "Size of a segment, in bytes.";
    "segments" gauge SegmentCount "Segments that may be in use.";
    "segments_free" gauge SegmentsFree "Segments that are free.";
    "segments_index" gauge SegmentsIndex "Segments that hold a part of the index.";
    "segments_items" gauge SegmentsItems "Segments that hold items.";
    "segments_small" gauge SegmentsSmall "Segments of items that belong to the small pool, where new items begin.";
    "segments_ghost" gauge SegmentsGhost "Segments that hold the ghost: fingerprints of recently evicted items.";
    "segments_pinned" gauge SegmentsPinned "Segments held by readers of large values.";
    "live_percent" gauge LivePercent "Bytes of live items, in percent of the memory of the segments that hold items.";
    "eviction_age_secs" gauge EvictionAgeSecs "Mean age of evicted items in their segments since the last `stats reset`, in seconds.";
    "groups" gauge GroupCount "Groups of the index.";
    "groups_overflow" gauge GroupOverflowCount "Overflow groups: they hold items that did not fit into the group of their hash.";
    "tier_items" tier_gauge Items if Tier "Items on the disk, including items that are also in memory, and expired items that reclaim has not reached yet.";
    "tier_size_bytes" tier_gauge SizeBytes if Tier "Size of the log on the disk, in bytes.";
    "tier_live_bytes" tier_gauge LiveBytes if Tier "Bytes of live items in the log, estimated from the mean length of the items of each segment.";
    "tier_live_bytes_max" tier_gauge LiveBytesMax if TierStore "Bytes of live items beyond which stores fail: four fifths of the log, without the 20 MiB reserved for deletes and reclaim.";
    "tier_free_bytes" tier_gauge FreeBytes if Tier "Space of the log that no segment uses, in bytes.";
    "tier_index_bytes" tier_gauge IndexBytes if Tier "Memory of the index of the disk, in bytes. It is a part of `-m`.";
    "tier_index_bytes_max" tier_gauge IndexBytesMax if Tier "Memory that the index of the disk may use, in bytes. At this limit stores of new keys fail.";
    "tier_dirty_bytes" tier_gauge DirtyBytes if Tier "Bytes of changes that are not durable yet.";
    "tier_written_bytes" tier_gauge WrittenBytes if Tier "Bytes written to the log since the start, including copies by reclaim.";
    "tier_zeroed_bytes" tier_gauge ZeroedBytes if Tier "Zeros written since the start to allocate the space of segments, in bytes.";
    "tier_syncs" tier_gauge Syncs if Tier "Syncs of the log since the start.";
    "tier_sync_us" tier_gauge SyncUs if Tier "Time that these syncs took, in microseconds; divided by `tier_syncs`, the mean.";
    "tier_reads" tier_gauge Reads if Tier "Items read from the disk since the start.";
    "tier_segments_reclaimed" tier_gauge SegmentsReclaimed if Tier "Segments of the log reclaimed since the start.";
    "tier_items_copied" tier_gauge ItemsCopied if Tier "Live items that reclaim has copied since the start.";
    "tier_segments_damaged" tier_gauge SegmentsDamaged if Tier "Segments that reclaim has found damaged since the start. Reclaim has copied their undamaged items.";
    "tier_items_lost" tier_gauge ItemsLost if TierStore "Items that reclaim has found damaged, including before the last start. A get of such an item fails until the item is set or deleted.";
    "tier_reads_retried" tier_gauge ReadsRetried if Tier "Failed reads of segments by reclaim since the start, which were tried again. A page whose read fails five times counts as damaged.";
    "tier_items_unreadable" tier_gauge ItemsUnreadable if Tier "Items that the disk did not return since the start, or whose records are damaged.";
    "tier_items_evicted" tier_gauge ItemsEvicted if Tier "Items that memory evicted and that were written to the disk, since the start.";
    "tier_items_dropped" tier_gauge ItemsDropped if Tier "Items that memory evicted and that were not written to the disk, because it had no space for them at that moment, since the start.";
    "tier_values_compressed" tier_gauge ValuesCompressed if Tier "Values that were compressed since the start, including those of copies by reclaim.";
    "tier_compressed_from_bytes" tier_gauge CompressedFromBytes if Tier "Length of these values before compression, in bytes.";
    "tier_compressed_to_bytes" tier_gauge CompressedToBytes if Tier "Length of these values after compression, in bytes; `tier_compressed_from_bytes` divided by it is the ratio.";
    "tier_dictionary" tier_gauge Dictionary if Tier "Number of the newest dictionary for values; 0: the directory has no dictionary.";
    "tier_clock_behind_secs" tier_gauge ClockBehindSecs if Tier "By how much the system's clock was earlier than the directory's latest time when the server started, in seconds. Items keep the time to live that they had at the latest time.";
    "tier_failed" tier_gauge Failed if Tier "1 if a write or a sync of the log has failed. Until the server is started again, changes fail in store mode, and no items are written to the disk in cache mode.";
}
}

#[cfg(test)]
mod tests;

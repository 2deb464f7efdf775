//! The rows, and the enums derived from them.
//!
//! A row is `"name" kind Variant "doc";`. The kinds:
//!
//! - `counter X`: each thread counts; `stats reset` sets it back to 0. Makes [`Counter::X`](Counter).
//! - `level X`: each thread adds its changes up and down; the sum says how many there are. Not reset.
//! - `gauge X`: measured or looked up when somebody asks. Makes [`Gauge::X`](Gauge).
//! - `class_counter X`, `class_gauge X`: the same for each size class. Make [`ClassCounter::X`](ClassCounter)
//!   and [`ClassGauge::X`](ClassGauge).
//! - `same Counter X`, `same Gauge X`: shows what another row already shows.
//! - `constant "text"`: memcached's key for something Larder does not have; tools expect the key.
//!
//! `if Condition …` before the doc leaves the row out of the answer unless all of that holds.

use crate::stat::{Condition, Section, Source, Stat};

macro_rules! table {
    ($($section:ident { $(
        $name:literal $(counter $counter:ident)? $(level $level:ident)? $(gauge $gauge:ident)?
        $(class_counter $class_counter:ident)? $(class_gauge $class_gauge:ident)?
        $(same $kind:ident $shown:ident)? $(constant $text:literal)? $(if $($condition:ident)+)?
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

        /// What is counted for each size class.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(usize)]
        pub enum ClassCounter {
            $($( $(#[doc = $doc] $class_counter,)? )*)*
        }

        impl ClassCounter {
            /// All of them, in the order of the table.
            pub const ALL: &[Self] = &[$($( $(Self::$class_counter,)? )*)*];

            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();
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

        /// What is measured for each size class when somebody asks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ClassGauge {
            $($( $(#[doc = $doc] $class_gauge,)? )*)*
        }

        impl ClassGauge {
            /// All of them, in the order of the table.
            pub const ALL: &[Self] = &[$($( $(Self::$class_gauge,)? )*)*];
        }

        /// All rows; those of a section stand in the order of its answer.
        pub const TABLE: &[Stat] = &[$($( Stat {
            name: $name,
            source: $(Source::Counter(Counter::$counter))? $(Source::Counter(Counter::$level))?
                $(Source::Gauge(Gauge::$gauge))? $(Source::$kind($kind::$shown))?
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
    "response_obj_oom" counter ResponseOom "Connections closed because all of them held more than the memory for buffers, this one the most output of those without progress for 2 s.";
    "response_obj_count" level ResponseBufferCount "Output buffers in use.";
    "response_obj_bytes" level ResponseBufferBytes "Memory of the output buffers, in bytes.";
    "read_buf_count" level ReadBufferCount "Input buffers, in use or kept for the next connection.";
    "read_buf_bytes" level ReadBufferBytes "Memory of the input buffers, in bytes.";
    "read_buf_bytes_free" level ReadBufferBytesFree "Memory of the input buffers that no connection uses, in bytes.";
    "read_buf_oom" counter ReadBufferOom "Connections closed because all of them held more than the memory for buffers, this one the most input of those without progress for 2 s.";
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
    "hash_is_expanding" constant "0" "Always 0: Larder's index grows all the time, one group after another, and never waits for that.";
    "slab_reassign_rescues" counter ItemsRescued if SlabReassign "Live items moved out of a segment that was mostly dead, to win it back.";
    "slab_reassign_chunk_rescues" counter PiecesRescued if SlabReassign "Pieces of large values moved out of a segment that was mostly dead.";
    "slab_reassign_evictions_nomem" constant "0" if SlabReassign Answers18 "Always 0: what survives in a segment finds room elsewhere, or is counted in `evictions`.";
    "slab_reassign_inline_reclaim" constant "0" if SlabReassign "Always 0: a segment has no list of free chunks.";
    "slab_reassign_busy_items" constant "0" if SlabReassign "Always 0: items are moved while they are read.";
    "slab_reassign_busy_deletes" constant "0" if SlabReassign "Always 0: items are moved while they are read.";
    "slab_reassign_busy_nomem" constant "0" if SlabReassign Answers45 "Always 0: there is always a free segment for what survives.";
    "slab_reassign_last_busy_status" constant "none" if SlabReassign Answers45 "Always `none`: items are moved while they are read.";
    "slab_reassign_running" gauge Emptying if SlabReassign "1 while a segment is being emptied.";
    "slabs_moved" same Counter SegmentsCompacted if SlabReassign "Segments won back by moving their live items elsewhere.";
    "lru_crawler_running" level CrawlersRunning if LruCrawler "Crawls and dumps that clients have asked for and that are under way.";
    "lru_crawler_starts" counter CrawlerStarts if LruCrawler "Crawls and dumps that clients have asked for.";
    "lru_maintainer_juggles" counter MaintainerRounds if LruMaintainer "Rounds of the thread that takes back dead memory and evicts ahead of the writers.";
    "malloc_fails" constant "0" "Always 0: the memory for items is reserved at the start.";
    "log_worker_dropped" counter LogWorkerDropped "Lines for `watch` that a worker had no room for.";
    "log_worker_written" counter LogWorkerWritten "Lines for `watch` that workers wrote.";
    "log_watcher_skipped" counter LogWatcherSkipped "Lines that a watching connection was too slow for.";
    "log_watcher_sent" counter LogWatcherSent "Lines sent to watching connections.";
    "log_watchers" level LogWatchers "Connections that watch.";
    "ssl_new_sessions" counter SslNewSessions if TlsSessions "TLS handshakes that began a session, instead of resuming one.";
    "ssl_handshake_errors" counter SslHandshakeErrors if Tls "TLS handshakes that failed.";
    "ssl_proto_errors" counter SslProtoErrors if Tls Answers45 "Connections closed because what came after the handshake was not TLS.";
    "time_since_server_cert_refresh" gauge CertificatesAgeSecs if Tls "Seconds since the files of the certificates were read.";
    "unexpected_napi_ids" constant "0" "Always 0: Larder gives connections to its workers in turn, with `-N` too.";
    "round_robin_fallback" constant "0" "Always 0: taking turns is not a fallback in Larder, with `-N` either.";
    "bytes" gauge BytesLive "Memory of the items that can be read, in bytes.";
    "curr_items" gauge ItemsCurrent "Items stored now; an expired one counts until its memory is taken back.";
    "total_items" counter ItemsTotal "Items stored.";
    "slab_global_page_pool" gauge PagesFree "Memory of segments that were in use and are free now, in pages of 1 MiB.";
    "expired_unfetched" counter ExpiredUnfetched "Expired items whose memory was taken back and that had not been read lately.";
    "evicted_unfetched" counter EvictedUnfetched "Evicted items that were never read.";
    "evicted_active" counter EvictedActive if LruMaintainer "Evicted items that had been read lately.";
    "evictions" counter Evictions "Live items removed to make room.";
    "reclaimed" counter Reclaimed "Expired items whose memory was taken back.";
    "crawler_reclaimed" counter CrawlerReclaimed "Expired items that the search for them found, and whose memory was taken back; not in `reclaimed`.";
    "crawler_items_checked" counter CrawlerItemsChecked "Items with a deadline that the search for expired ones looked at.";
    "lrutail_reflocked" constant "0" "Always 0: in Larder a reader holds nothing that could block an eviction.";
    "moves_to_cold" counter MovesToCold if LruMaintainer "Items moved from the small to the main pool: they were read while they were new.";
    "moves_to_warm" counter MovesToWarm if LruMaintainer "Items of the main pool kept when their segment was evicted, and still counted as read.";
    "moves_within_lru" counter MovesWithin if LruMaintainer "Items of the main pool kept when their segment was evicted, and not kept a second time unless they are read.";
    "direct_reclaims" counter DirectReclaims if LruMaintainer "Segments that a store had to empty itself, because the maintaining thread had not yet.";
    "lru_bumps_dropped" constant "0" if LruMaintainer "Always 0: a read is noted where the item is, not in a queue.";
    "larder_version" gauge LarderVersion if LruMaintainer "Version of Larder. Like the next one, not shown with `-o no_lru_maintainer`, where memcached's test suite counts the keys.";
    "larder_commit" gauge LarderCommit if LruMaintainer "The commit that was built, or `unknown`.";
}
Items {
    "number" class_gauge Number "Items stored now.";
    "number_hot" class_gauge NumberHot if LruMaintainer "Those of them in the small pool, through which new items pass.";
    "number_warm" class_gauge NumberWarm if LruMaintainer "Those in the main pool that have been read lately.";
    "number_cold" class_gauge NumberCold if LruMaintainer "Those in the main pool that have not.";
    "number_temp" class_gauge NumberTemp if LruMaintainer TemporaryTtl "Those stored to live for `temporary_ttl` seconds at most; they are not counted among the others.";
    "age_hot" class_gauge AgeHot if LruMaintainer "Seconds that the oldest item of `number_hot` has been where it is.";
    "age_warm" class_gauge AgeWarm if LruMaintainer "Seconds that the oldest item of `number_warm` has been where it is.";
    "age" class_gauge Age "Seconds that the oldest item has been where it is.";
    "mem_requested" class_gauge MemRequested "Bytes of the items, as memcached counts them.";
    "evicted" class_counter Evicted "Live items removed to make room.";
    "evicted_nonzero" class_counter EvictedNonzero "Those of them that had a deadline.";
    "evicted_time" class_gauge EvictedTime "Seconds that the item evicted last had been where it was.";
    "outofmemory" class_counter OutOfMemory "Stores refused for want of memory.";
    "tailrepairs" constant "0" "Always 0: Larder has no LRU queues to repair.";
    "reclaimed" class_counter Reclaimed "Expired items whose memory was taken back.";
    "expired_unfetched" class_counter ExpiredUnfetched "Expired items whose memory was taken back and that were never read.";
    "evicted_unfetched" class_counter EvictedUnfetched "Evicted items that were never read.";
    "evicted_active" class_counter EvictedActive if LruMaintainer "Evicted items that had been read.";
    "crawler_reclaimed" class_counter CrawlerReclaimed "Expired items that the search for them found; not in `reclaimed`.";
    "crawler_items_checked" constant "0" "Always 0: the search for expired items has one counter for all classes, in `stats`.";
    "lrutail_reflocked" constant "0" "Always 0: in Larder a reader holds nothing that could block an eviction.";
    "moves_to_cold" constant "0" if LruMaintainer "Always 0: moves have one counter for all classes, in `stats`.";
    "moves_to_warm" constant "0" if LruMaintainer "Always 0: moves have one counter for all classes, in `stats`.";
    "moves_within_lru" constant "0" if LruMaintainer "Always 0: moves have one counter for all classes, in `stats`.";
    "direct_reclaims" constant "0" if LruMaintainer "Always 0: segments hold items of all classes; `stats` has the number for all.";
    "hits_to_hot" constant "0" if LruMaintainer "Always 0: hits are not counted by pool; see `get_hits` in `stats slabs`.";
    "hits_to_warm" constant "0" if LruMaintainer "Always 0: hits are not counted by pool; see `get_hits` in `stats slabs`.";
    "hits_to_cold" constant "0" if LruMaintainer "Always 0: hits are not counted by pool; see `get_hits` in `stats slabs`.";
    "hits_to_temp" constant "0" if LruMaintainer "Always 0: hits are not counted by pool; see `get_hits` in `stats slabs`.";
}
Slabs {
    "chunk_size" class_gauge ChunkSize "The largest item of the class, in bytes.";
    "chunks_per_page" class_gauge ChunksPerPage "So many such items take 1 MiB.";
    "total_pages" class_gauge TotalPages "The items' memory in memcached, in pages of 1 MiB; 1 at least.";
    "total_chunks" class_gauge TotalChunks "So many items fit into these pages.";
    "used_chunks" class_gauge UsedChunks "So many chunks memcached would need for what is stored: one an item, several for one larger than the last class.";
    "free_chunks" class_gauge FreeChunks "`total_chunks` less `used_chunks`.";
    "free_chunks_end" constant "0" "Always 0, as in memcached.";
    "get_hits" class_counter GetHits "Keys found by the commands of `cmd_get`.";
    "cmd_set" class_counter CmdSet "Storage commands that got memory for their item.";
    "delete_hits" class_counter DeleteHits "Items deleted by a client.";
    "incr_hits" class_counter IncrHits "Increments done.";
    "decr_hits" class_counter DecrHits "Decrements done.";
    "cas_hits" class_counter CasHits "Compare-and-set that stored.";
    "cas_badval" class_counter CasBadval "Compare-and-set refused: the item has another cas token.";
    "touch_hits" class_counter TouchHits "Keys found by the commands of `cmd_touch`.";
}
SlabsTotal {
    "active_slabs" gauge ActiveClasses "Size classes that have had items.";
    "total_malloced" gauge MemoryBytes "Memory of the segments that are or were in use, rounded up to pages of 1 MiB, in bytes.";
}
Larder {
    "larder_version" same Gauge LarderVersion "Version of Larder.";
    "larder_commit" same Gauge LarderCommit "The commit that was built, or `unknown`.";
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
    "local_reads" counter LocalReads "Reads that clients did in the cache's memory by themselves, as far as they have told of them (`--local-readers`): one in two, and none of items that were read a few times lately; `cmd_get` and `get_hits` count them too.";
    "uploads_aborted" counter UploadsAborted "Values whose sender went away, or which found no memory, before they were complete.";
    "segment_bytes" gauge SegmentBytes "Size of a segment, in bytes.";
    "segments" gauge SegmentCount "Segments that may be in use.";
    "segments_free" gauge SegmentsFree "Those of them that hold nothing.";
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

//! The error texts for refused commands; those of administrative commands are memcached's.

use crate::admin::{DumpForm, Refusal, WarmEnd, WarmRefusal};
use crate::permission::{Denial, Right};

/// Returns the line of a refusal, without its end.
pub(super) fn words(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::ReassignDisabled => "CLIENT_ERROR slab reassignment disabled",
        Refusal::NoSuchSlabClass => "BADCLASS invalid src or dst class id",
        Refusal::SameSlabClass => "SAME src and dst class are identical",
        Refusal::NoSparePage => "NOSPARE source class has no spare pages",
        Refusal::BadWindow => "CLIENT_ERROR automove window too low or too high",
        Refusal::PercentsTooHigh => "ERROR hot and warm pcts must not exceed 80",
        Refusal::FactorsTooLow => "ERROR hot/warm age factors must be greater than 0",
        Refusal::CrawlerRuns => "ERROR failed to start lru crawler thread",
        Refusal::CrawlerDisabled => "CLIENT_ERROR lru crawler disabled",
        Refusal::SleepTooLong => "CLIENT_ERROR sleep must be one second or less",
        Refusal::Crawling => "BUSY currently processing crawler request",
        Refusal::NoSuchCrawlClass => "BADCLASS invalid class id",
        Refusal::NothingToCrawl => "NOTSTARTED no items to crawl",
        Refusal::NoSuchCrawl => "ERROR an unknown error happened",
        Refusal::DumpNotAllowed(DumpForm::Meta) => "ERROR metadump not allowed",
        Refusal::DumpNotAllowed(DumpForm::Get) => "ERROR key dump not allowed",
        Refusal::DumpPipelined(DumpForm::Meta) => {
            "ERROR cannot pipeline other commands before metadump"
        }
        Refusal::DumpPipelined(DumpForm::Get) => {
            "ERROR cannot pipeline other commands before mgdump"
        }
        Refusal::WatchNotAllowed => "CLIENT_ERROR watch commands not allowed",
        Refusal::WatchPipelined => "ERROR cannot pipeline other commands before watch",
        Refusal::TooManyWatchers => "WATCHER_TOO_MANY log watcher limit reached",
        Refusal::CannotWatch => "WATCHER_FAILED failed to add log watcher",
        Refusal::DeletePrefixNotAllowed => "CLIENT_ERROR delete_prefix not allowed",
        Refusal::NoPrefix => "CLIENT_ERROR the prefix is missing; flush_all removes all items",
        Refusal::PrefixTooLong => "CLIENT_ERROR the prefix is longer than 250 bytes",
        Refusal::BadPrefix => "CLIENT_ERROR error decoding prefix",
        Refusal::CannotDeletePrefix => "CLIENT_ERROR delete_prefix needs TCP or a unix socket",
        Refusal::DeletingPrefix => "SERVER_ERROR busy",
        Refusal::NoPrefixRemoval => "SERVER_ERROR the removal could not be started",
        Refusal::DetailNotAllowed => "CLIENT_ERROR stats detail not allowed",
        Refusal::HotKeysNotAllowed => "CLIENT_ERROR stats hotkeys not allowed",
        Refusal::SlowNotAllowed => "CLIENT_ERROR stats slow not allowed",
        Refusal::PrefixesNotAllowed => "CLIENT_ERROR stats prefixes not allowed",
        Refusal::BadDetail => "CLIENT_ERROR usage: stats detail on|off|dump",
        Refusal::BadMaxStale => "CLIENT_ERROR usage: larder_follow <100 to 60000 milliseconds>",
        Refusal::FollowOfNearCache => "CLIENT_ERROR this server is a near cache; follow its origin",
        Refusal::FollowPipelined => {
            "CLIENT_ERROR cannot pipeline other commands before larder_follow"
        }
        Refusal::CannotFollow => "CLIENT_ERROR larder_follow needs TCP or a unix socket",
        Refusal::BadStreamToken => "CLIENT_ERROR usage: larder_follower <32 hexadecimal digits>",
        Refusal::NoSuchStream => "CLIENT_ERROR no change stream has this token",
        Refusal::TooManyFollowers => {
            "SERVER_ERROR --followers near caches follow this server; raise the option"
        }
        Refusal::FollowDuringUpgrade => "SERVER_ERROR upgrade in progress; try again later",
        Refusal::FollowOfSharedCache => {
            "SERVER_ERROR another process uses the cache and may change it unnoticed; end it"
        }
        Refusal::NotAlive => "CLIENT_ERROR a change stream accepts only the line alive <n>",
        Refusal::FollowerSilent => "CLIENT_ERROR no line alive <n> arrived in time",
        Refusal::Warm(refusal) => warm(refusal),
    }
}

/// Returns the line of a refused copy between servers, without its end.
fn warm(refusal: WarmRefusal) -> &'static str {
    match refusal {
        WarmRefusal::BadSilence => {
            "CLIENT_ERROR usage: larder_warm <100 to 60000 milliseconds> or larder_warm end"
        }
        WarmRefusal::NearCache => "CLIENT_ERROR this server is a near cache; warm its origin",
        WarmRefusal::Store => "CLIENT_ERROR this server is a store (--tier-mode store)",
        WarmRefusal::Unconnected => "CLIENT_ERROR larder_warm needs TCP or a unix socket",
        WarmRefusal::Busy => "SERVER_ERROR another copy is in progress; try again later",
        WarmRefusal::Undoing => {
            "SERVER_ERROR the items of a failed copy are being removed; try again later"
        }
        WarmRefusal::NotBegun => "CLIENT_ERROR no larder_warm <ms> before larder_warm end",
        WarmRefusal::Over(WarmEnd::Lost) => "SERVER_ERROR the copy has ended: connection lost",
        WarmRefusal::Over(WarmEnd::Full) => {
            "SERVER_ERROR the copy has ended: more keys were copied or changed than the server \
             can record; raise -m"
        }
        WarmRefusal::Over(WarmEnd::Removal) => {
            "SERVER_ERROR the copy has ended: a client removed many items (flush_all or \
             delete_prefix)"
        }
        WarmRefusal::Over(WarmEnd::Upgrade) => {
            "SERVER_ERROR the copy has ended: upgrade in progress; try again later"
        }
    }
}

/// Returns the line of a command that is not permitted, without its end.
pub(super) fn denied(denial: Denial) -> &'static str {
    match denial {
        Denial::Right(Right::Read) => "CLIENT_ERROR not permitted: the user lacks the right read",
        Denial::Right(Right::Write) => "CLIENT_ERROR not permitted: the user lacks the right write",
        Denial::Right(Right::Admin) => "CLIENT_ERROR not permitted: the user lacks the right admin",
        Denial::ReadOnlyListener => "CLIENT_ERROR not permitted: the listener is read-only",
        Denial::ForeignKey => {
            "CLIENT_ERROR not permitted: the key has none of the prefixes of the user"
        }
        Denial::AllItems => {
            "CLIENT_ERROR not permitted: the command concerns all items, and the user has prefixes"
        }
        Denial::LongList => {
            "CLIENT_ERROR not permitted: the line of keys is too long to check; split it"
        }
    }
}

//! Decides which statistics this server shows.

use larder_options::{AnswersAs, Options, TierMode};
use larder_stats::{Condition, Stat};

use crate::server::Server;

/// True if the statistic applies to the options of the server.
pub(super) fn is_shown(server: &Server, stat: &Stat) -> bool {
    let options = &server.options;
    stat.conditions.iter().all(|condition| match condition {
        Condition::MaxconnsFast => options.maxconns_fast,
        Condition::IdleTimeout => options.idle_timeout_secs > 0,
        Condition::Tls => server.access.certificates.is_some(),
        Condition::TlsSessions => {
            server.access.certificates.as_ref().is_some_and(|of| of.has_sessions())
        }
        Condition::Tier => options.disk_tier.is_some(),
        Condition::TierCache => mode(options) == Some(TierMode::Cache),
        Condition::TierStore => mode(options) == Some(TierMode::Store),
        Condition::Discovery => server.discovery.is_some(),
        Condition::Near => server.near.is_some(),
        Condition::Followers => server.followers.are_allowed(),
        Condition::SlabReassign => options.slab_reassign,
        Condition::LruCrawler => server.upkeep.crawler.is_enabled(),
        Condition::LruMaintainer => options.lru_maintainer,
        Condition::TemporaryTtl => options.tuning.temporary_ttl_secs.is_some(),
        Condition::Answers45 => options.answers_as == AnswersAs::V1_6_45,
        Condition::Answers18 => options.answers_as == AnswersAs::V1_6_18,
    })
}

fn mode(options: &Options) -> Option<TierMode> {
    options.disk_tier.as_ref().map(|tier| tier.mode)
}

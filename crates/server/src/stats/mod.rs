//! The responses of `stats`: the rows of the tables with the values of this server.

mod by_class;
mod connections;
mod gather;
mod hot_keys;
pub(crate) mod origins;
mod prefixes;
mod removal;
mod rows;
mod shown;
mod slow;
mod users;

use std::sync::Arc;

use larder::Wait;
use larder_protocol::{ClientError, Frame, Response, StatsSection, render};
use larder_stats::Section;

use crate::server::Server;
pub(crate) use connections::ConnectionList;
use gather::ItemStatistics;
pub(crate) use gather::{GatherStep, StatsResponse};
pub(crate) use hot_keys::hot_keys;
pub(crate) use slow::slow;
pub(crate) use users::UserList;

/// The result of a request for statistics.
pub(crate) enum Answer {
    /// The response is complete.
    Done(Response),
    /// The rest of the response is gathered in slices.
    Gather(Box<StatsResponse>),
}

/// A list that is rendered row by row as its client receives it.
#[derive(Debug)]
pub(crate) enum RowList {
    /// `stats conns`
    Connections(ConnectionList),
    /// `stats users`
    Users(UserList),
}

impl RowList {
    /// Appends the next row, or the end of the list. Returns true if more follows.
    pub(crate) fn step(&mut self, out: &mut Vec<u8>) -> bool {
        match self {
            Self::Connections(list) => list.step(out),
            Self::Users(list) => list.step(out),
        }
    }
}

/// Appends the statistics of a section. `wait` decides how a list of keys waits for the disk.
/// Connections and users are listed by [`RowList`] instead.
pub(crate) fn answer(
    server: &Arc<Server>,
    section: StatsSection,
    wait: Wait<'_>,
    frame: &Frame<'_>,
    out: &mut Vec<u8>,
) -> Answer {
    let gathering = match section {
        StatsSection::Items => StatsResponse::census(server, ItemStatistics::Items),
        StatsSection::Slabs => StatsResponse::census(server, ItemStatistics::Slabs),
        StatsSection::Sizes if server.options.track_sizes => {
            StatsResponse::census(server, ItemStatistics::Sizes)
        }
        StatsSection::CacheDump { .. } if !server.options.dump => {
            return Answer::Done(ClientError::DumpNotAllowed.into());
        }
        StatsSection::CacheDump { class, items_max } => match u8::try_from(class) {
            Ok(class) => StatsResponse::keys(server, class, items_max),
            Err(_) => return Answer::Done(Response::EndOfStats),
        },
        section => return Answer::Done(at_once(server, section, frame, out)),
    };
    let mut gathering = Box::new(gathering);
    match gathering.step(frame, wait, out) {
        GatherStep::All => Answer::Done(Response::EndOfStats),
        GatherStep::Some | GatherStep::NeedsDisk => Answer::Gather(gathering),
    }
}

/// Appends the statistics of a section that does not visit items.
fn at_once(
    server: &Server,
    section: StatsSection,
    frame: &Frame<'_>,
    out: &mut Vec<u8>,
) -> Response {
    match section {
        StatsSection::General => rows::section(server, Section::General, frame, out),
        // They are listed elsewhere.
        StatsSection::Connections
        | StatsSection::HotKeys
        | StatsSection::Users
        | StatsSection::Slow
        | StatsSection::Prefixes => {}
        StatsSection::Origins => origins::show(server, frame, out),
        StatsSection::Larder => rows::section(server, Section::Larder, frame, out),
        StatsSection::DeletePrefix => removal::show(server, frame, out),
        StatsSection::Settings => {
            for (name, text) in larder_options::settings(&server.current_options()) {
                render::stat(out, name, text, frame);
            }
        }
        StatsSection::Sizes => render::stat(out, "sizes_status", "disabled", frame),
        StatsSection::Items | StatsSection::Slabs | StatsSection::CacheDump { .. } => {}
        StatsSection::Reset => {
            server.reset_counters();
            server.statistics.prefixes.reset();
            server.statistics.prefix_stats.reset();
            return Response::Reset;
        }
    }
    Response::EndOfStats
}

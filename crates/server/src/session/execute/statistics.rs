//! The sections of `stats`.

use larder_protocol::{Refusal, Response, StatsSection};

use super::{Call, CommandResult, Executor};
use crate::stats::{self, Answer, ConnectionList, RowList, UserList};

impl Executor {
    /// Responds with a section of the statistics, or begins it.
    pub(super) fn statistics(
        &self,
        section: StatsSection,
        Call { wait, frame }: Call<'_>,
        out: &mut Vec<u8>,
    ) -> CommandResult {
        let shows_keys = self.server.options.dump;
        match section {
            StatsSection::Connections => {
                let list = ConnectionList::begin(&self.server, self.asker.get(), frame);
                CommandResult::Rows(Box::new(RowList::Connections(list)))
            }
            StatsSection::Users => {
                let list = UserList::begin(&self.server, frame);
                CommandResult::Rows(Box::new(RowList::Users(list)))
            }
            StatsSection::HotKeys if shows_keys => CommandResult::HotKeys,
            StatsSection::HotKeys => Response::from(Refusal::HotKeysNotAllowed).into(),
            StatsSection::Prefixes if shows_keys => CommandResult::Prefixes,
            StatsSection::Prefixes => Response::from(Refusal::PrefixesNotAllowed).into(),
            StatsSection::Slow => CommandResult::Slow,
            section => match stats::answer(&self.server, section, wait, frame, out) {
                Answer::Done(response) => response.into(),
                Answer::Gather(gathering) => CommandResult::Gather(gathering),
            },
        }
    }
}

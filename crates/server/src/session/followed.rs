//! The connections of a near cache: its change stream, and the connections that fetch items.

use larder_item::KEY_BYTES_MAX;
use larder_protocol::{ClientError, Command, Copied, Frame, Refusal, Response, base64, text};

use super::batch::{Batch, ParsedCommand, Step};
use super::{Next, Session, State};
use crate::followers::{Follow, StreamStep};
use crate::session::execute::CommandResult;
use crate::session::execute::copy::CopiedItem;

impl Session {
    /// Begins the change stream of the connection.
    #[cold]
    pub(super) fn begin_follow(
        &mut self,
        batch: &mut Batch<'_>,
        follow: Box<Follow>,
        line: &[u8],
        frame: &Frame<'_>,
    ) {
        if batch.has_answers() {
            return batch.respond(&Refusal::FollowPipelined.into(), frame);
        }
        batch.out.bytes.extend_from_slice(line);
        self.state = State::Follow(follow);
    }

    /// Writes messages of the change stream, and responds to lines `alive`.
    #[cold]
    pub(super) fn follow_on(
        &mut self,
        batch: &mut Batch<'_>,
        input: &[u8],
        out_bytes_max: usize,
    ) -> Step {
        let State::Follow(follow) = &mut self.state else { return Step::GoOn(0) };
        let (cache, counters) = (batch.executor.cache(), batch.executor.counters());
        let out = &mut batch.out.bytes;
        let (consumed, step) = follow.step(cache, counters, input, out, out_bytes_max);
        let next = match step {
            StreamStep::Drain => Next::Drain,
            StreamStep::Wait => Next::Changes,
            StreamStep::End(refusal) => {
                text::render::response(out, &refusal.into());
                Next::Close
            }
        };
        Step::Stop(consumed, next)
    }

    /// Executes a command that concerns the change stream to which the connection belongs.
    #[cold]
    pub(super) fn run_of_follower(
        &mut self,
        batch: &mut Batch<'_>,
        parsed: ParsedCommand<'_>,
    ) -> Step {
        let response = match *parsed.command {
            Command::Copy(Copied { key: b"", .. }) => ClientError::BadFormat.into(),
            Command::Copy(copied) => return self.copy(batch, copied, parsed),
            Command::Follower { token: None } => Refusal::BadStreamToken.into(),
            Command::Follower { token: Some(token) } => {
                self.subscription = batch.executor.server().followers.find(token);
                match &self.subscription {
                    Some(_) => Response::Ok,
                    None => Refusal::NoSuchStream.into(),
                }
            }
            _ => ClientError::UnknownCommand.into(),
        };
        batch.respond(&response, parsed.frame);
        Step::GoOn(parsed.consumed)
    }

    fn copy(
        &mut self,
        batch: &mut Batch<'_>,
        copied: Copied<'_>,
        parsed: ParsedCommand<'_>,
    ) -> Step {
        let mut bytes = [0; KEY_BYTES_MAX];
        let key = match copied.base64 {
            true => base64::decode(copied.key, &mut bytes).unwrap_or_default(),
            false => copied.key,
        };
        let (value_bytes_max, subscription) = (copied.value_bytes_max, self.subscription.clone());
        let item = CopiedItem { key, value_bytes_max, subscription: subscription.as_deref() };
        match batch.executor.copy(item, parsed.call(batch), &mut batch.out.bytes) {
            CommandResult::Done(response) => batch.respond(&response, parsed.frame),
            CommandResult::Large(first, large) => {
                batch.show(first, self.is_brief);
                self.state = State::Large(large, Box::new(parsed.frame.keep()));
            }
            _ => {
                // The item is looked up on the disk by its decoded key.
                let command = &Command::Copy(Copied { key, base64: false, ..copied });
                return self.suspend(ParsedCommand { command, ..parsed });
            }
        }
        Step::GoOn(parsed.consumed)
    }

    /// True if the connection is a change stream on which no line has arrived for a long time.
    pub(crate) fn is_silent_stream(&self) -> bool {
        matches!(&self.state, State::Follow(follow) if follow.is_silent())
    }
}

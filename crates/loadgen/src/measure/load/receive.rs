//! Receives and counts replies.

use std::time::Duration;

use crate::measure::load::Load;
use crate::options::{Dialect, name};
use crate::wire::dialect::ParsedReply;
use crate::wire::pending::Books;
use crate::wire::pipeline::{ConnectionEnd, Pipeline};

impl Load<'_> {
    /// Receives all available bytes, and sends the next batch once all pending requests have a
    /// response.
    ///
    /// # Errors
    /// The connection has ended, or its bytes are not valid replies.
    pub(crate) fn receive(&mut self, number: usize) -> Result<(), ConnectionEnd> {
        loop {
            let Some(pipeline) = &mut self.pipelines[number] else { return Ok(()) };
            let Some(received) = pipeline.channel.receive(&mut self.input)? else { break };
            if received == 0 {
                return Err(ConnectionEnd::closed());
            }
            let may_have_more = pipeline.channel.may_have_more(received, self.input.len());
            self.take_received(number, received)?;
            if !may_have_more {
                break;
            }
        }
        let Some(pipeline) = &mut self.pipelines[number] else { return Ok(()) };
        if self.open.is_some() {
            self.list(number);
        } else if pipeline.pending.is_empty() && pipeline.batch_left == 0 && !self.is_ending {
            self.begin_batch(number);
        }
        Ok(())
    }

    /// Parses the replies in the received bytes, after the bytes kept from earlier receives.
    fn take_received(&mut self, number: usize, received: usize) -> Result<(), ConnectionEnd> {
        let now_ns = self.now_ns();
        self.note_heard();
        let Some(pipeline) = &mut self.pipelines[number] else { return Ok(()) };
        pipeline.heard_ns = now_ns;
        let mut books = Books {
            pool: self.orders.pool,
            tally: &mut self.tally,
            second: &mut self.second,
            missed: &mut self.ask.missed,
            keeps_missed: self.orders.keeps_missed,
        };
        let dialect = self.orders.dialect;
        let input = &self.input[..received];
        if pipeline.received.is_empty() {
            let used = take_replies(input, dialect, pipeline, now_ns, &mut books)?;
            pipeline.received.extend_from_slice(&input[used..]);
            return Ok(());
        }
        let mut kept = std::mem::take(&mut pipeline.received);
        kept.extend_from_slice(input);
        let used = take_replies(&kept, dialect, pipeline, now_ns, &mut books)?;
        pipeline.keep(kept, used);
        Ok(())
    }
}

/// Parses all complete replies and returns the number of bytes consumed.
fn take_replies(
    input: &[u8],
    dialect: Dialect,
    pipeline: &mut Pipeline,
    now_ns: u64,
    books: &mut Books<'_>,
) -> Result<usize, ConnectionEnd> {
    let mut used = 0;
    while used < input.len() {
        match dialect.read_reply(&input[used..]) {
            ParsedReply::Reply { reply, consumed } => {
                used += consumed;
                pipeline.pause = Duration::ZERO;
                let taken = pipeline.pending.take(reply, now_ns, books);
                taken.map_err(|what| ConnectionEnd {
                    kind: "wrong answer",
                    reason: format!("the server answered {what}"),
                    is_loss: false,
                })?;
            }
            ParsedReply::NeedMore { bytes_min } if bytes_min <= REPLY_BYTES_MAX => break,
            ParsedReply::NeedMore { bytes_min } => {
                let reason = format!(
                    "the server announces an answer of {bytes_min} bytes, expected at most {REPLY_BYTES_MAX}"
                );
                return Err(ConnectionEnd { kind: "answer too long", reason, is_loss: false });
            }
            ParsedReply::Bad => {
                let protocol = name(dialect);
                let reason =
                    format!("the server does not answer in memcached's {protocol} protocol");
                return Err(ConnectionEnd { kind: "not the protocol", reason, is_loss: false });
            }
        }
    }
    Ok(used)
}

/// The longest reply, in bytes: the largest value that servers accept by default, and the line
/// before it.
const REPLY_BYTES_MAX: u64 = (1 << 20) + (16 << 10);

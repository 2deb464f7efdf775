//! The binary protocol before a peer has logged in.

use super::header::HEADER_BYTES;
use super::opcode::{SASL_AUTH, SASL_STEP};
use super::parse::parse;
use crate::command::Command;
use crate::frame::Frame;
use crate::parsed::{Bad, Parsed};
use crate::response::ClientError;

/// Parses the request at the beginning of `input`. Accepts only the few commands that do not need a
/// login. Refuses other commands and ends the connection before their values arrive.
pub(crate) fn parse_before_login(input: &[u8]) -> Parsed<'_> {
    let parsed = parse(input);
    let frame = match parsed {
        Parsed::NeedMore | Parsed::Skipped { .. } => return parsed,
        Parsed::Command { command, frame, .. } => match command {
            Command::Mechanisms | Command::Authenticate { .. } | Command::Version => return parsed,
            _ => frame,
        },
        Parsed::Bad(Bad { close: true, .. }) => return parsed,
        Parsed::Bad(Bad { frame: Frame::Binary(frame), .. })
            if matches!(frame.opcode, SASL_AUTH | SASL_STEP) =>
        {
            return parsed;
        }
        Parsed::Bad(Bad { frame, .. }) => frame,
    };
    let error = Some(ClientError::Unauthenticated.into());
    Parsed::Bad(Bad { error, frame, consumed: HEADER_BYTES, swallow: 0, close: true })
}

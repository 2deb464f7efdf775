//! Requests and responses in three dialects.

use anyhow::{Result, bail, ensure};

use super::{Ear, Mode, Request, value};
use crate::dice::Dice;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Dialect {
    Text,
    Meta,
    Binary,
}

#[derive(Debug)]
pub(crate) enum Answer {
    Stored,
    NotStored,
    Value(Vec<u8>),
    Miss,
}

const HEADER_BYTES: usize = 24;
const GET: u8 = 0x00;
const NOOP: u8 = 0x0a;
const GETK: u8 = 0x0c;

impl Dialect {
    pub(super) fn write(self, out: &mut Vec<u8>, request: &Request, dice: &mut Dice) {
        match request {
            Request::Store { key, mode, part: (start, bytes), is_quiet } => {
                let value = value(*start, *bytes);
                match self {
                    Self::Text => {
                        let word = match mode {
                            Mode::Set => "set",
                            Mode::Append => "append",
                            Mode::Prepend => "prepend",
                        };
                        let noreply = if *is_quiet { " noreply" } else { "" };
                        out.extend(format!("{word} {key} 0 0 {bytes}{noreply}\r\n").into_bytes());
                    }
                    Self::Meta => {
                        let flag = match mode {
                            Mode::Set => "",
                            Mode::Append => " MA",
                            Mode::Prepend => " MP",
                        };
                        out.extend(format!("ms {key} {bytes}{flag}").into_bytes());
                        out.extend(if *is_quiet { &b" q\r\n"[..] } else { b" Oab k\r\n" });
                    }
                    Self::Binary => {
                        let opcode = match (mode, is_quiet) {
                            (Mode::Set, false) => 0x01,
                            (Mode::Set, true) => 0x11,
                            (Mode::Append, false) => 0x0e,
                            (Mode::Append, true) => 0x19,
                            (Mode::Prepend, false) => 0x0f,
                            (Mode::Prepend, true) => 0x1a,
                        };
                        let extras: &[u8] = if *mode == Mode::Set { &[0; 8] } else { &[] };
                        packet(out, opcode, extras, key, value.len());
                        out.extend_from_slice(value);
                        return;
                    }
                }
                out.extend_from_slice(value);
                out.extend_from_slice(b"\r\n");
            }
            Request::Fetch { key } => match self {
                Self::Text => {
                    let word = dice.one_of(&["get", "gets", "gat 0"]);
                    out.extend(format!("{word} {key}\r\n").into_bytes());
                }
                Self::Meta => {
                    let flags = dice.one_of(&["v", "v k Oab c f t s", "v h l", "v T0"]);
                    out.extend(format!("mg {key} {flags}\r\n").into_bytes());
                }
                Self::Binary => packet(out, dice.one_of(&[GET, GETK]), &[], key, 0),
            },
        }
    }

    /// Appends a request whose response ends the responses of quiet requests.
    pub(super) fn write_end(self, out: &mut Vec<u8>) {
        match self {
            Self::Text | Self::Meta => out.extend_from_slice(b"mn\r\n"),
            Self::Binary => packet(out, NOOP, &[], "", 0),
        }
    }

    pub(super) fn end(self, ear: &mut Ear<'_>) -> Result<()> {
        match self {
            Self::Text | Self::Meta => loop {
                match &*ear.line()? {
                    "MN" => return Ok(()),
                    // Quiet requests still report failures.
                    "NS" if matches!(self, Self::Meta) => {}
                    line => bail!("{line}"),
                }
            },
            Self::Binary => {
                let (header, _) = binary_packet(ear)?;
                ensure!(header[1] == NOOP, "{header:?}");
                ensure!(header[6..12] == [0; 6], "{header:?}");
                Ok(())
            }
        }
    }

    pub(super) fn answer(self, ear: &mut Ear<'_>, request: &Request) -> Result<Answer> {
        if let Self::Binary = self {
            return binary_answer(ear, request);
        }
        // This may be the failure of an earlier quiet append that found no item.
        let line = loop {
            let line = ear.line()?;
            if !(matches!(self, Self::Meta) && line == "NS") {
                break line;
            }
        };
        let words: Vec<&str> = line.split(' ').collect();
        Ok(match words[0] {
            "STORED" | "HD" => Answer::Stored,
            "NOT_STORED" | "NS" => Answer::NotStored,
            "END" | "EN" => Answer::Miss,
            "VALUE" => {
                let shown = ear.take(words[3].parse()?)?;
                ensure!(ear.take(7)? == b"\r\nEND\r\n", "another end");
                Answer::Value(shown)
            }
            "VA" => {
                let shown = ear.take(words[1].parse()?)?;
                ensure!(ear.take(2)? == b"\r\n", "another end");
                Answer::Value(shown)
            }
            _ => bail!("{line}"),
        })
    }
}

fn packet(out: &mut Vec<u8>, opcode: u8, extras: &[u8], key: &str, value_bytes: usize) {
    let body_bytes = (extras.len() + key.len() + value_bytes) as u32;
    out.extend([0x80, opcode]);
    out.extend((key.len() as u16).to_be_bytes());
    out.extend([extras.len() as u8, 0, 0, 0]);
    out.extend(body_bytes.to_be_bytes());
    out.extend([0; 12]);
    out.extend_from_slice(extras);
    out.extend_from_slice(key.as_bytes());
}

/// Returns the next packet that is not the failure of a quiet append that found no item.
fn binary_packet(ear: &mut Ear<'_>) -> Result<(Vec<u8>, Vec<u8>)> {
    loop {
        let header = ear.take(HEADER_BYTES)?;
        let body_bytes = u32::from_be_bytes(header[8..12].try_into()?) as usize;
        let body = ear.take(body_bytes)?;
        if !(matches!(header[1], 0x19 | 0x1a) && header[7] == 5) {
            return Ok((header, body));
        }
    }
}

fn binary_answer(ear: &mut Ear<'_>, request: &Request) -> Result<Answer> {
    let (header, body) = binary_packet(ear)?;
    Ok(match (request, header[7]) {
        (Request::Fetch { .. }, 0) => {
            let head_bytes = usize::from(header[4]) + usize::from(header[3]);
            Answer::Value(body[head_bytes..].to_vec())
        }
        (Request::Fetch { .. }, 1) => Answer::Miss,
        (Request::Store { .. }, 0) => Answer::Stored,
        (Request::Store { .. }, 5) => Answer::NotStored,
        _ => bail!("{header:?} {}", body.escape_ascii()),
    })
}

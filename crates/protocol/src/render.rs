//! Renders responses into bytes, in the dialect of the peer.

use std::fmt::Display;

use larder_item::Meta;

use crate::frame::Frame;
use crate::response::{Response, Shown};
use crate::{binary, meta, text};

/// Appends the header of a hit of [`Command::Get`](crate::Command::Get). The value follows, then
/// [`Response::Hit`].
#[inline]
pub fn hit_head(out: &mut Vec<u8>, key: &[u8], meta: &Meta, with_cas: bool, frame: &Frame<'_>) {
    match frame {
        Frame::Text { .. } | Frame::Meta(_) => text::render::hit_head(out, key, meta, with_cas),
        Frame::Binary(frame) => binary::render::hit_head(out, key, meta, frame),
    }
}

/// Appends the metadata that [`Command::Fetch`](crate::Command::Fetch) requests. With
/// [`Shown::with_value`] the value follows, then [`Response::Hit`].
pub fn shown(out: &mut Vec<u8>, shown: &Shown<'_>, frame: &Frame<'_>) {
    match frame {
        Frame::Meta(frame) => meta::render::shown(out, shown, frame),
        Frame::Text { .. } | Frame::Binary(_) => hit_head(out, shown.key, &shown.meta, true, frame),
    }
}

/// Appends the response to [`Command::Inspect`](crate::Command::Inspect).
pub fn inspected(out: &mut Vec<u8>, shown: &Shown<'_>, frame: &Frame<'_>) {
    match frame {
        Frame::Meta(frame) => meta::render::inspected(out, shown, frame),
        Frame::Text { .. } | Frame::Binary(_) => text::render::inspected(out, shown),
    }
}

/// Appends the response to [`Command::Config`](crate::Command::Config): the list of servers.
pub fn cluster(out: &mut Vec<u8>, list: &[u8], frame: &Frame<'_>) {
    match frame {
        Frame::Binary(_) => {
            let meta = Meta { value_bytes: list.len(), ..Meta::default() };
            hit_head(out, &[], &meta, true, frame);
            out.extend_from_slice(list);
        }
        Frame::Text { .. } | Frame::Meta(_) => text::render::cluster(out, list),
    }
}

/// Appends the response to [`Command::LeaseGet`](crate::Command::LeaseGet) on a miss.
pub fn lease(out: &mut Vec<u8>, key: &[u8], token: u64) {
    text::render::lease(out, key, token);
}

/// Appends the response to [`Command::DeletePrefix`](crate::Command::DeletePrefix): the number of
/// the removal.
pub fn removal(out: &mut Vec<u8>, id: u64) {
    text::render::removal(out, id);
}

/// Appends the response to a command, if it has a response and the frame does not hide it.
#[inline]
pub fn response(out: &mut Vec<u8>, response: &Response, frame: &Frame<'_>) {
    if frame.hides(response) {
        return;
    }
    match frame {
        Frame::Text { .. } => text::render::response(out, response),
        Frame::Meta(frame) => meta::render::response(out, response, frame),
        Frame::Binary(frame) => binary::render::response(out, response, frame),
    }
}

/// Appends one statistic. [`Response::EndOfStats`] ends the list.
pub fn stat(out: &mut Vec<u8>, name: impl Display, value: impl Display, frame: &Frame<'_>) {
    match frame {
        Frame::Text { .. } | Frame::Meta(_) => text::render::stat(out, name, value),
        Frame::Binary(frame) => binary::render::stat(out, name, value, frame),
    }
}

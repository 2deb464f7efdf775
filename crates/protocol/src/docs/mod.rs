//! docs/protocol.md, generated from the rows here and from the words of
//! [`text::render`](crate::text::render): a file for each section.

mod admin;
mod binary;
mod commands;
mod differences;
mod errors;
mod examples;
mod local;
mod meta;
mod near;
mod table;
mod warm;

use crate::lines::line::SHORT_LINE_BYTES_MAX;
use crate::version::WIRE_VERSION;
pub use examples::{ExampleRequest, Reach, example_requests};

/// Returns the text of docs/protocol.md.
pub fn protocol_md() -> String {
    let mut page = head();
    page.push_str(&commands::section());
    page.push_str(&meta::section());
    page.push_str(&binary::section());
    page.push_str(&admin::section());
    page.push_str(&local::section());
    page.push_str(&near::section());
    page.push_str(&warm::section());
    page.push_str(&errors::section());
    page.push_str(&differences::section());
    page
}

fn head() -> String {
    format!(
        "\
<!-- Written from crates/protocol/src/docs. Change a row there, then run
     `LARDER_BLESS=1 cargo test -p larder-protocol`. -->

# Protocol

Larder speaks memcached's text protocol, classic and meta, and its binary protocol, as memcached
{WIRE_VERSION} does. Every deviation is intentional and listed under [Differences](#differences).

## Lines, words, values

- A request is a line of words. The line ends in a newline with an optional carriage return before
  it.
- Words are separated by one or more spaces. A line that begins with a space is not a command. A tab
  is part of a word.
- A line shorter than 4 bytes, including its end, is refused. A line longer than
  {SHORT_LINE_BYTES_MAX} bytes ends the connection without a response. Lines of `get`, `gets`, `gat`
  and `gats` may have any length; their keys are answered as they arrive.
- A key has 1 to 250 bytes, any but space and newline.
- `noreply` is recognised in commands whose form includes it, and after unknown commands: as the
  last word of the line, or as the 23rd word of a longer line, in exactly this spelling. It
  suppresses any response, errors included. Other surplus words are ignored.
- A value follows the line that announces its length, and must be followed by `\\r\\n`. If a line
  with a valid length is refused, the server skips the value, then sends the error. If the length is
  invalid, the server sends the error even after `noreply` and parses the bytes that follow as
  commands.
- Numbers are decimal digits, with a minus sign if the argument may be negative. The flags and the
  exptime of a storage command are parsed at 64 bits and truncated to the lower 32.
- An exptime of 0 means never; 1 to 2592000 is a number of seconds from now; more is a Unix time. A
  negative exptime, or a Unix time in the past, makes the item expire immediately.
"
    )
}

#[cfg(test)]
mod tests;

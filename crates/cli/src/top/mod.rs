//! `larder top`: a server's rates, memory and hot keys, once a second.
//!
//! | file | what it does |
//! |---|---|
//! | `sample.rs` | requests the documents of the server |
//! | `change.rs` | rates, as differences of two documents |
//! | `board.rs` | the tables that are shown, as text |
//! | `latency.rs` | percentiles of the time of requests |
//! | `memory.rs` | the map of segments |
//! | `layout.rs` | which tables share a page, and where they are |
//! | `draw.rs` | draws them on a terminal |
//! | `screen.rs` | the terminal, keys and signals |

mod board;
mod change;
mod draw;
mod latency;
mod layout;
mod memory;
mod sample;
mod screen;

use std::io::{IsTerminal, Write, stdout};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, bail};

use self::board::Board;
use self::sample::Sampler;
use crate::admin::address::AdminArguments;
use crate::outcome::Outcome;

/// Watch a server: requests, hit ratio, memory, evictions, hot keys
///
/// Needs larderd's admin listener, and the role read.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Print the numbers of one second as text, without a terminal
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    admin: AdminArguments,
}

const AFTER_HELP: &str = "\
Rates cover the last second. A terminal of 80 columns and 24 lines is enough: Tab or an arrow key
shows the tables that do not fit, h shows the hot keys, and q, Esc or Ctrl-C quits. Each cell of the
map is a segment, or several segments if the memory is large. The fuller the block, the more of it
is live; i is index, g is ghost, a dot is free.

Examples:
  larder top
  larder top --server 127.0.0.1:11212
  LARDER_TOKEN=$(cat token) larder top --server cache7:9150
  larder top --once | grep 'hit ratio'

Exit code: 0 done; 2 the server refused or could not be reached.";

/// Runs `larder top`.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let mut sampler = Sampler::new(arguments.admin.client()?);
    if !arguments.once && !stdout().is_terminal() {
        bail!("the output is not a terminal: larder top --once prints one snapshot as text");
    }
    let first = sampler.sample()?;
    if !arguments.once {
        screen::run(sampler, first)?;
        return Ok(Outcome::Done);
    }
    let mut board = Board::default();
    board.show(first);
    sleep(PERIOD);
    board.show(sampler.sample()?);
    stdout().write_all(board.text().as_bytes())?;
    Ok(Outcome::Done)
}

/// The time between two samples.
const PERIOD: Duration = Duration::from_secs(1);

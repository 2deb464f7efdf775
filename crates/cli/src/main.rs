//! `larder`: the command-line tool of the cache.
//!
//! The tool speaks the text protocol to larderd or any memcached, inspects caches in files, and
//! replays request traces on a server or on a cache inside the tool. Some subcommands use the admin
//! listener of larderd (`admin`). `larder bench` is the crate `larder-loadgen`.
//!
//! Each subcommand has its own file. The simple subcommands share `connection`. `outcome` turns
//! results into exit codes.
#![forbid(unsafe_code)]

mod admin;
mod connection;
mod delete;
mod disk_tier;
mod doctor;
mod exptime;
mod fsck;
mod get;
mod inspect;
mod outcome;
#[cfg(test)]
mod pages;
mod passwd;
mod ping;
mod replay;
mod set;
mod shadow;
mod source;
mod stats;
mod time_limit;
mod top;
mod transfer;
mod units;
mod warm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use larder_options::LARDER_BUILD;

/// Use, inspect and manage larderd or any memcached, replay request traces, measure servers
#[derive(Debug, Parser)]
#[command(name = "larder", version = LARDER_BUILD, after_help = AFTER_HELP)]
struct CommandLine {
    #[command(subcommand)]
    subcommand: Larder,
}

#[derive(Debug, Subcommand)]
enum Larder {
    Get(get::Arguments),
    Set(set::Arguments),
    Delete(delete::Arguments),
    Stats(stats::Arguments),
    Ping(ping::Arguments),
    Inspect(inspect::Arguments),
    Fsck(fsck::Arguments),
    Export(transfer::export::Arguments),
    Import(transfer::import::Arguments),
    Doctor(doctor::Arguments),
    Top(top::Arguments),
    Keys(admin::keys::Arguments),
    Hot(admin::hot::Arguments),
    Prefixes(admin::prefixes::Arguments),
    Drain(admin::drain::Arguments),
    Warm(Box<warm::Arguments>),
    Kill(admin::kill::Arguments),
    Passwd(passwd::Arguments),
    Replay(replay::Arguments),
    Shadow(Box<shadow::Arguments>),
    Bench(Box<larder_loadgen::Arguments>),
}

fn main() -> ExitCode {
    let ended = match CommandLine::parse().subcommand {
        Larder::Get(arguments) => get::run(&arguments),
        Larder::Set(arguments) => set::run(&arguments),
        Larder::Delete(arguments) => delete::run(&arguments),
        Larder::Stats(arguments) => stats::run(&arguments),
        Larder::Ping(arguments) => ping::run(&arguments),
        Larder::Inspect(arguments) => inspect::run(&arguments),
        Larder::Fsck(arguments) => fsck::run(&arguments),
        Larder::Export(arguments) => transfer::export::run(&arguments),
        Larder::Import(arguments) => transfer::import::run(&arguments),
        Larder::Doctor(arguments) => doctor::run(&arguments),
        Larder::Top(arguments) => top::run(&arguments),
        Larder::Keys(arguments) => admin::keys::run(&arguments),
        Larder::Hot(arguments) => admin::hot::run(&arguments),
        Larder::Prefixes(arguments) => admin::prefixes::run(&arguments),
        Larder::Drain(arguments) => admin::drain::run(&arguments),
        Larder::Warm(arguments) => warm::run(&arguments),
        Larder::Kill(arguments) => admin::kill::run(&arguments),
        Larder::Passwd(arguments) => passwd::run(&arguments),
        Larder::Replay(arguments) => replay::run(&arguments),
        Larder::Shadow(arguments) => shadow::run(&arguments),
        Larder::Bench(arguments) => larder_loadgen::run(&arguments),
    };
    outcome::exit_code(ended)
}

const AFTER_HELP: &str = "\
Examples:
  larder set greeting 'hello, world' --ttl 60
  larder get greeting
  larder stats
  larder ping --server unix:/run/larder.sock
  larder keys --prefix user:
  larder delete --prefix user:7: --servers cache-1,cache-2,cache-3
  larder drain --wait 10
  larder passwd shop --rights write --prefix shop:
  larder inspect /dev/shm/larder
  larder export --server neighbour - | larder import - --server localhost
  larder warm --from cache-1,cache-2 --self cache-3
  larder replay --trace web07.csv.zst --memory 16m --scale 16
  larder bench --rate 20000 --seconds 30
  larder shadow --listen 127.0.0.1:11311 --live cache7 --candidate 127.0.0.1:11212
  larder stats --server cache7:11211 --tls --tls-ca authority.pem --user ops

Subcommands that use a server take its address with --server: a host, host:port, [IPv6]:port, or the
path of a Unix socket: /run/larder.sock, ./larder.sock or unix:larder.sock. The default port is
11211, and the default server is 127.0.0.1. export has no default server, and replay without
--server uses a cache inside the tool. top, keys, hot, prefixes, drain, kill and delete --prefix take
the address of the admin listener, which must include the port; the default is LARDER_ADMIN, or
/run/larder/admin.sock. delete --prefix --servers takes the addresses of several servers. The password of --user is the only line of --password-file, or
LARDER_PASSWORD.

Exit code: 0 the command succeeded; 1 the command did its work, but with a different outcome: a key
has no item, the condition of a set does not hold, a check found something; 2 the command could not
do its work: bad usage, an unusable file, an unreachable server, or an error response of the server.
The help of each subcommand lists its exit codes.";

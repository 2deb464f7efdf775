//! `larder`: the command-line tool of the cache.
//!
//! The tool speaks the text protocol to larderd or any memcached, inspects caches in files, and
//! replays request traces on a server or on a cache of its own. Some subcommands use the admin
//! listener of larderd (`admin`). `larder bench` is the crate `larder-loadgen`.
//!
//! Each subcommand has a file. `connection` is the connection that the simple subcommands share;
//! `outcome` turns results into exit codes.
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
mod ping;
mod replay;
mod set;
mod source;
mod stats;
mod time_limit;
mod top;
mod transfer;
mod units;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use larder_options::LARDER_BUILD;

/// Talk to larderd or any memcached, replay request traces, measure servers
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
    Drain(admin::drain::Arguments),
    Replay(replay::Arguments),
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
        Larder::Drain(arguments) => admin::drain::run(&arguments),
        Larder::Replay(arguments) => replay::run(&arguments),
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
  larder drain --wait 10
  larder inspect /dev/shm/larder
  larder export --server neighbour - | larder import - --server localhost
  larder replay --trace web07.csv.zst --memory 16m --scale 16
  larder bench --rate 20000 --seconds 30
  larder stats --server cache7:11211 --tls --tls-ca authority.pem --user ops

Each subcommand that uses a server takes its address as --server: a host, host:port, [IPv6]:port or
the path of a Unix socket, /run/larder.sock, ./larder.sock or unix:larder.sock. A host without a port
has port 11211; without --server it is 127.0.0.1, but export has no default, and replay then needs no
server. top, keys, hot, drain and delete --prefix take the address of the admin listener, which has
its port; without --server it is LARDER_ADMIN, or /run/larder/admin.sock. The password of --user is
the line of --password-file, or LARDER_PASSWORD.

Exit code: 0 done; 1 the command did its work, and the outcome is not the one that was asked for: a
key has no item, the condition of a set does not hold, a check has found something; 2 the command
could not do its work: the usage is wrong, a file cannot be used, no server is reached, or a server
answers with an error. The help of each subcommand says which of these it has.";

//! Helpers for tests: parsed options, and servers with given responses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use clap::Parser;

use crate::address::Address;
use crate::arguments::Arguments;
use crate::options::LoadArguments;

/// The command line of `larder bench`.
#[derive(Debug, Parser)]
struct CommandLine {
    #[command(flatten)]
    arguments: Arguments,
}

/// Parses the options of `larder bench`. An error is the message for the user.
pub(crate) fn parsed(args: &[&str]) -> Result<Arguments, String> {
    let args = ["bench"].iter().chain(args);
    let parsed = CommandLine::try_parse_from(args).map_err(|error| error.to_string())?;
    Ok(parsed.arguments)
}

/// Parses the options of a load. Panics if they are wrong.
#[track_caller]
pub(crate) fn load(args: &[&str]) -> LoadArguments {
    parsed(args).unwrap_or_else(|error| panic!("{args:?}: {error}")).load
}

/// Returns the options of a load on this server.
#[track_caller]
pub(crate) fn load_at(server: &Address, args: &[&str]) -> LoadArguments {
    let server = format!("--server={server}");
    load(&[&[server.as_str()], args].concat())
}

/// Starts a server that calls `serve` in a thread for each connection, with its number.
pub(crate) fn serve(serve: impl Fn(usize, TcpStream) + Clone + Send + 'static) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let (serve, stream) = (serve.clone(), stream.unwrap());
            stream.set_nodelay(true).unwrap();
            thread::spawn(move || serve(number, stream));
        }
    });
    Address::Tcp { host: "127.0.0.1".to_owned(), port }
}

/// Returns an address at which no server listens.
pub(crate) fn nobody() -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    Address::Tcp { host: "127.0.0.1".to_owned(), port }
}

/// Responds to requests of the text protocol like a cache that keeps nothing: every get is a miss.
/// Calls `before` before each response with the number of the request, and closes the connection
/// once it returns false.
pub(crate) fn forget_all(stream: TcpStream, mut before: impl FnMut(u64) -> bool) {
    let mut output = stream.try_clone().unwrap();
    let mut input = BufReader::new(stream);
    let mut line = String::new();
    for number in 0.. {
        line.clear();
        if input.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let answer = match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["get", ..] => "END\r\n",
            ["set", _, _, _, value_bytes] => {
                let mut value = vec![0; value_bytes.parse::<usize>().unwrap() + 2];
                input.read_exact(&mut value).unwrap();
                "STORED\r\n"
            }
            _ => "ERROR\r\n",
        };
        if !before(number) || output.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

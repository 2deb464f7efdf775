//! `larder passwd`.

mod password;
mod secret;

use std::io::{Write, stdout};

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::outcome::Outcome;

/// Print a user's line for the file of larderd --users, with the hash of a password
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Name of the user: ASCII characters without spaces
    name: String,
    /// What the user may do; without it, nothing
    #[arg(long)]
    rights: Option<Rights>,
    /// Limit the user to keys with this prefix; may be repeated
    #[arg(long, value_name = "PREFIX")]
    prefix: Vec<String>,
    /// Limit the user to this many requests per second
    #[arg(long, value_name = "PER_SEC", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Create a token for the admin listener instead of a password
    #[arg(long)]
    token: bool,
}

/// The rights of a user.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Rights {
    /// Read items and statistics
    Read,
    /// Also change items
    Write,
    /// Also change the server
    Admin,
}

const AFTER_HELP: &str = "\
Asks for the password on the terminal, or reads the first line of stdin. Prints one line, which
belongs into the list of the file: users = [ LINE, LINE ]. With --token, prints the token on stderr,
once: the line has only its SHA-256.

A verification of the password takes 19 MiB and some 20 ms of one thread of larderd, which then
remembers the password until it stops.

Examples:
  larder passwd shop --rights write --prefix shop: --rate 50000
  larder passwd prometheus --rights read --token

Exit code: 0 the line is printed; 2 the password cannot be read, or a value is not valid.";

/// Runs `larder passwd`.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let name = &arguments.name;
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
        bail!("the name {name:?} is not valid: expected ASCII characters without spaces");
    }
    let (kind, secret) = match arguments.token {
        true => ("token", secret::hashed_token()?),
        false => ("hash", secret::hashed(password::password()?.as_bytes())?),
    };
    writeln!(stdout(), "{}", line(arguments, kind, &secret))?;
    Ok(Outcome::Done)
}

/// Returns the line of the file.
fn line(arguments: &Arguments, kind: &str, secret: &str) -> String {
    let mut line = format!("{{ name = {}, {kind} = {}", quoted(&arguments.name), quoted(secret));
    if let Some(rights) = arguments.rights.and_then(|rights| rights.to_possible_value()) {
        line += &format!(", rights = {}", quoted(rights.get_name()));
    }
    if !arguments.prefix.is_empty() {
        let prefixes: Vec<_> = arguments.prefix.iter().map(|prefix| quoted(prefix)).collect();
        line += &format!(", prefixes = [{}]", prefixes.join(", "));
    }
    if let Some(rate) = arguments.rate {
        line += &format!(", rate = {rate}");
    }
    line + " },"
}

/// Returns a basic string of TOML, which has the escapes of JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_what_the_arguments_say() {
        let arguments = Arguments {
            name: "shop".to_owned(),
            rights: Some(Rights::Write),
            prefix: vec!["shop:".to_owned(), "a\"\\\u{7f}".to_owned()],
            rate: Some(50),
            token: false,
        };
        assert_eq!(
            line(&arguments, "hash", "$argon2id$"),
            r#"{ name = "shop", hash = "$argon2id$", rights = "write", prefixes = ["shop:", "a\"\\\u007F"], rate = 50 },"#
        );
    }
}

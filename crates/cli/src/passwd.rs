//! `larder passwd`.

use std::io::{BufRead, IsTerminal, Read, Write, stdin, stdout};

use anyhow::{Context, Result, anyhow, bail};
use argon2::password_hash::PasswordHasher;
use argon2::{Algorithm, Argon2, Params, Version};
use clap::ValueEnum;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

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
    let secret = match arguments.token {
        true => ("token", hashed_token()?),
        false => ("hash", hashed(password()?.as_bytes())?),
    };
    writeln!(stdout(), "{}", line(arguments, secret))?;
    Ok(Outcome::Done)
}

/// Returns the line of the file.
fn line(arguments: &Arguments, (kind, secret): (&str, String)) -> String {
    let mut line = format!("{{ name = {}, {kind} = {}", quoted(&arguments.name), quoted(&secret));
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

/// Reads the password: twice from a terminal, otherwise the first line of stdin.
fn password() -> Result<String> {
    if stdin().is_terminal() {
        let ask = |prompt| rpassword::prompt_password(prompt).context("cannot read the password");
        let password = ask("Password: ")?;
        if password != ask("Again: ")? {
            bail!("the two passwords differ; start again");
        }
        return checked(password);
    }
    let mut line = String::new();
    let mut limited = stdin().lock().take(LINE_BYTES_MAX);
    limited.read_line(&mut line).context("cannot read the password from stdin")?;
    checked(line.trim_end_matches(['\n', '\r']).to_owned())
}

fn checked(password: String) -> Result<String> {
    if password.is_empty() || password.len() > PASSWORD_BYTES_MAX || password.contains('\0') {
        bail!("a password has 1 to {PASSWORD_BYTES_MAX} bytes and no zero byte");
    }
    if password.contains(' ') {
        eprintln!(
            "larder: the password has a space: clients can use it by SASL, and not by a login of \
             the text protocol, which a space ends"
        );
    }
    Ok(password)
}

fn hashed(password: &[u8]) -> Result<String> {
    let params =
        Params::new(MEMORY_KIB, PASSES, LANES, None).map_err(|error| anyhow!("{error}"))?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let salt = random::<16>()?;
    let hash =
        argon2.hash_password_with_salt(password, &salt).map_err(|error| anyhow!("{error}"))?;
    Ok(hash.to_string())
}

/// Prints a new token, and returns its hash.
fn hashed_token() -> Result<String> {
    let token = hex(&random::<32>()?);
    eprintln!("larder: the token of the user, for Authorization: Bearer:\n{token}");
    Ok(format!("sha256:{}", hex(digest(&SHA256, token.as_bytes()).as_ref())))
}

fn random<const BYTES: usize>() -> Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| anyhow!("the system has no random numbers"))?;
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The parameters that OWASP recommends for argon2id (Password Storage Cheat Sheet, 2024).
const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
const LANES: u32 = 1;

/// The longest password that larderd accepts.
const PASSWORD_BYTES_MAX: usize = 1024;
const LINE_BYTES_MAX: u64 = 4096;

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
            line(&arguments, ("hash", "$argon2id$".to_owned())),
            r#"{ name = "shop", hash = "$argon2id$", rights = "write", prefixes = ["shop:", "a\"\\\u007F"], rate = 50 },"#
        );
    }
}

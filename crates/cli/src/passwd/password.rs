//! Reads a password.

use std::io::{BufRead, IsTerminal, Read, stdin};

use anyhow::{Context, Result, bail};

/// Reads the password: twice from a terminal, otherwise the first line of stdin.
pub(super) fn password() -> Result<String> {
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

/// The longest password that larderd accepts.
const PASSWORD_BYTES_MAX: usize = 1024;
const LINE_BYTES_MAX: u64 = 4096;

//! Random conversations, valid and malformed, have the same results on larderd and on Debian's
//! memcached. Intentional differences are left to the transcripts and do not occur here.

use anyhow::{Context, Result};

use crate::dice::Dice;
use crate::pair::{Dialect, Pair};

const CONVERSATIONS: u64 = 60;
const COMMANDS: usize = 300;

/// Draws the requests of a conversation.
struct Requests<'a>(&'a mut Dice);

impl Requests<'_> {
    /// Returns a key of a text or, less often, of a number.
    fn key(&mut self) -> String {
        match self.0.below(10) {
            0..=3 => format!("text{}", self.0.below(5)),
            4..=7 => format!("number{}", self.0.below(3)),
            8 => "k".repeat(250),
            _ => "b\u{e9}\t\u{1}".into(),
        }
    }

    fn exptime(&mut self) -> &'static str {
        self.0.one_of(&["0", "0", "0", "100", "2592000", "2147483647", "-1", "1000000000"])
    }

    fn noreply(&mut self) -> &'static str {
        self.0.one_of(&["", "", "", " noreply"])
    }

    /// Returns a store. A key of a text receives a value of letters, and a key of a number a value
    /// of digits.
    fn store(&mut self) -> Vec<u8> {
        let key = self.key();
        let is_number = key.starts_with("number");
        let word = match self.0.below(8) {
            0..=3 => "set",
            4 => "add",
            5 => "replace",
            // memcached writes a number in place only if no unsent response refers to it.
            6 if !is_number => "append",
            7 if !is_number => "prepend",
            _ => "cas",
        };
        let value = if is_number {
            self.0.one_of(&["0", "9", "10", "18446744073709551615", "18446744073709551616"]).into()
        } else {
            let bytes = *[0, 1, 10, 300, 3000, 30_000].get(self.0.below(6)).expect("six lengths");
            "v".repeat(bytes)
        };
        let flags = self.0.one_of(&["0", "1", "4294967295", "4294967296"]);
        let cas = if word == "cas" { " 1000000000000" } else { "" };
        let (exptime, noreply) = (self.exptime(), self.noreply());
        let bytes = value.len();
        format!("{word} {key} {flags} {exptime} {bytes}{cas}{noreply}\r\n{value}\r\n").into_bytes()
    }

    fn command(&mut self) -> Vec<u8> {
        let (key, noreply) = (self.key(), self.noreply());
        let line = match self.0.below(26) {
            20..=25 => return self.meta(),
            0..=5 => return self.store(),
            6..=8 => format!("get {key} {} {}", self.key(), self.key()),
            9 => format!("gets {key}  {} ", self.key()),
            10 => format!("gat {} {key} {}", self.exptime(), self.key()),
            11 => format!("touch {key} {}{noreply}", self.exptime()),
            12 | 13 => format!("delete {key}{noreply}"),
            14 => format!(
                "incr {key} {}{noreply}",
                self.0.one_of(&["0", "1", "5", "99", "18446744073709551615"])
            ),
            15 => format!("decr {key} {}{noreply}", self.0.one_of(&["0", "1", "5", "1000"])),
            16 if self.0.below(10) == 0 => format!("flush_all{noreply}"),
            _ => return self.nonsense().into_bytes(),
        };
        [line.as_bytes(), self.0.one_of(&["\r\n", "\n"]).as_bytes()].concat()
    }

    /// Returns a meta command, with flags that both versions support.
    fn meta(&mut self) -> Vec<u8> {
        let key = self.key();
        let mut flags = String::new();
        let mut add = |flag: String| flags.extend([" ", &flag]);
        for flag in ["k", "Oabc", "q", "c"] {
            if self.0.below(4) == 0 {
                add(flag.into());
            }
        }
        let line = match self.0.below(12) {
            0..=4 => {
                // A number that memcached did not write in place is a new item, which has not been
                // read.
                let is_text = !key.starts_with("number");
                for flag in ["v", "f", "t", "h", "u", "R30", "N100"] {
                    if self.0.below(4) == 0 && (is_text || flag != "h") {
                        add(flag.into());
                    }
                }
                if self.0.below(8) == 0 {
                    add(format!("T{}", self.exptime()));
                }
                format!("mg {key}{flags}")
            }
            5..=7 => return self.meta_store(&key, &flags),
            8 | 9 => {
                let rest = self.0.one_of(&["", "", " I", " I T100", " C1000000000000", " z"]);
                format!("md {key}{flags}{rest}")
            }
            10 => {
                let mut rest =
                    self.0.one_of(&["", " v", " MD v", " D5 v t", " N100 J7 v t", " Dx"]);
                // Do not let `N` create a number under a key of a text. Whether memcached later
                // converts it in place depends on its unsent responses, and the response to the
                // flag `h` would also differ.
                if !key.starts_with("number") && rest.starts_with(" N") {
                    rest = " D7";
                }
                format!("ma {key}{flags}{rest}")
            }
            // Always with `\r\n`: with a newline only, memcached 1.6.45 would refuse the line as
            // too short.
            _ => return b"mn\r\n".into(),
        };
        [line.as_bytes(), self.0.one_of(&["\r\n", "\n"]).as_bytes()].concat()
    }

    fn meta_store(&mut self, key: &str, flags: &str) -> Vec<u8> {
        let modes: &[&str] = if key.starts_with("number") {
            &["", "", " ME", " MR", " C1000000000000"]
        } else {
            &["", "", " ME", " MR", " MA", " MP", " C1000000000000", " MX", " Fx"]
        };
        let mode = self.0.one_of(modes);
        let rest = self.0.one_of(&["", " T0", " T100", " F7", " T-1"]);
        let value =
            if key.starts_with("number") { "10".into() } else { "v".repeat(self.0.below(400)) };
        format!("ms {key} {}{flags}{mode}{rest}\r\n{value}\r\n", value.len()).into_bytes()
    }

    /// Returns a malformed line, in some cases with text after it. A server may read this text as
    /// the next line, so the text is never a valid command.
    fn nonsense(&mut self) -> String {
        let (key, long) = (self.key(), "k".repeat(251));
        match self.0.below(12) {
            0 => "nonsense\r\n".into(),
            1 => format!("set {key} 0 0 -1\r\n"),
            2 => format!("set {key} 0 0 2147483647\r\n"),
            3 => format!("set {key} 0 0 5\r\nfar too long\r\n"),
            4 => format!("append {key} 0 0 0\r\nno end\r\n"),
            5 => format!("incr {key} x\r\n"),
            6 => format!("decr {key} -1\r\n"),
            7 => format!("touch {key} soon\r\n"),
            8 => format!("delete {key} 5\r\n"),
            // Not with get: memcached then drops unsent responses.
            9 => format!("delete {long}\r\n"),
            10 => format!("incr {long} 1\r\n"),
            _ => "GET key\r\n".into(),
        }
    }
}

/// Returns the lines of a response without the parts that may differ: cas tokens, elapsed seconds,
/// and the spaces after a number with the length that includes them.
fn comparable(answer: &[u8]) -> Result<Vec<String>> {
    let (mut rest, mut lines) = (answer, Vec::new());
    while let Some(end) = rest.windows(2).position(|end| end == b"\r\n") {
        let line = rest[..end].escape_ascii().to_string();
        rest = &rest[end + 2..];
        let words: Vec<_> = line.split(' ').collect();
        let (bytes, shown) = match words[0] {
            "VALUE" => (words.get(3), words[..3.min(words.len())].join(" ")),
            "VA" => {
                (words.get(1), format!("VA {}", without_tokens(words.get(2..).unwrap_or_default())))
            }
            _ => {
                lines.push(without_tokens(&words));
                continue;
            }
        };
        let bytes: usize = bytes.with_context(|| line.clone())?.parse()?;
        let value = rest.get(..bytes).with_context(|| line.clone())?;
        lines.push(format!("{shown} {}", value.trim_ascii_end().escape_ascii()));
        rest = &rest[bytes + 2..];
    }
    anyhow::ensure!(rest.is_empty(), "half a line: {}", rest.escape_ascii());
    Ok(lines)
}

/// Returns the tokens of a response without the numbers of `c` and `t`.
fn without_tokens(words: &[&str]) -> String {
    let shown = words.iter().map(|word| match word.split_at_checked(1) {
        Some((letter @ ("c" | "t"), number)) if number.parse::<u64>().is_ok_and(|it| it > 0) => {
            letter
        }
        _ => word,
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[test]
fn random_conversations_have_the_same_results_as_with_memcached() -> Result<()> {
    let text = Dialect { begin: (b"flush_all\r\n", b"OK\r\n"), end: b"quit\r\n", comparable };
    Pair::start(text)?.compare(CONVERSATIONS, |dice| {
        let mut requests = Requests(dice);
        (0..COMMANDS).map(|_| requests.command()).collect()
    })
}

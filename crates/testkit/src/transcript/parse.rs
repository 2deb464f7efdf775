//! Parses the lines of a transcript file.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::packet::Packet;
use super::template::Template;
use super::{Action, Audience, Step, Transcript};

impl Transcript {
    /// Parses a transcript. `path` is only for messages.
    ///
    /// # Errors
    /// Names the line that cannot be parsed.
    pub fn parse(path: &Path, text: &str) -> Result<Self> {
        let mut transcript =
            Self { path: path.into(), args: Vec::new(), only: Audience::All, steps: Vec::new() };
        let mut paragraph_has_reason = false;
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            if line.is_empty() {
                paragraph_has_reason = false;
            } else if line.starts_with('#') {
                paragraph_has_reason = true;
            } else {
                transcript
                    .take(number, line, paragraph_has_reason)
                    .with_context(|| format!("{}:{number}: {line:?}", path.display()))?;
            }
        }
        ensure!(!transcript.steps.is_empty(), "{}: the transcript has no steps", path.display());
        Ok(transcript)
    }

    fn take(&mut self, number: usize, line: &str, has_reason: bool) -> Result<()> {
        ensure!(!line.ends_with(' '), "the line ends with a space: write \\x20");
        let (tag, text) =
            line.split_once(':').context("expected `C:`, `S:`, `wait:` or `args:`")?;
        let text = text.strip_prefix(' ').unwrap_or(text);
        let step =
            |audience, connection, action| Step { line: number, audience, connection, action };
        match tag {
            "args" => {
                ensure!(self.steps.is_empty(), "the arguments come before everything else");
                self.args.extend(text.split_whitespace().map(String::from));
            }
            "only" => {
                self.only = audience(text)?;
                ensure!(has_reason, "`only` needs a comment above it with the reason");
            }
            "wait" => {
                let wait_ms = text.strip_suffix(" ms").and_then(|ms| ms.parse().ok());
                let wait = Duration::from_millis(
                    wait_ms.context("expected a wait such as `wait: 1100 ms`")?,
                );
                self.steps.push(step(Audience::All, 1, Action::Wait(wait)));
            }
            _ => {
                let (who, connection, audience) = speaker(tag)?;
                ensure!(
                    audience == Audience::All || has_reason,
                    "a line for one server needs a comment in its paragraph with the reason"
                );
                self.steps.push(step(audience, connection, action(who, text)?));
            }
        }
        Ok(())
    }
}

/// Parses the `S2[18]` before a colon.
fn speaker(tag: &str) -> Result<(char, u8, Audience)> {
    let (speaker, audience) = match tag.split_once('[') {
        None => (tag, Audience::All),
        Some((speaker, servers)) => {
            (speaker, audience(servers.strip_suffix(']').context("expected a `]`")?)?)
        }
    };
    let mut letters = speaker.chars();
    let who = letters.next().filter(|who| matches!(who, 'C' | 'S' | 'Q' | 'A'));
    let who = who.context("expected a line that begins with C, S, Q, A, wait, args, only or #")?;
    let connection = match letters.as_str() {
        "" => 1,
        digits => digits.parse().context("expected the number of a connection")?,
    };
    Ok((who, connection, audience))
}

/// Parses the servers to which a line or a transcript applies.
fn audience(text: &str) -> Result<Audience> {
    Ok(match text {
        "18" => Audience::Memcached18,
        "45" => Audience::Memcached45,
        "only 45" => Audience::Memcached45Only,
        "memcached" => Audience::Memcached,
        "larder" => Audience::Larder,
        _ => bail!("expected 18, 45, only 45, memcached or larder"),
    })
}

fn action(who: char, text: &str) -> Result<Action> {
    Ok(match (who, text) {
        ('C', "<close>") => Action::Close,
        ('C', "<no more>") => Action::SendNoMore,
        ('S', "<closed>") => Action::ExpectClosed,
        ('S', "<lines>") => Action::ExpectLines,
        ('A', "<closed>") => Action::ExpectClosed,
        ('A', "<answers>") => Action::ExpectAnswers,
        ('Q', _) => Action::Ask(Packet::parse(text)?),
        ('A', _) => Action::ExpectAnswer(Packet::parse(text)?),
        ('C', _) => Action::Send(Template::parse(text)?),
        _ => Action::Expect(Template::parse(text)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Subject;

    fn parse(text: &str) -> Result<Transcript> {
        Transcript::parse(Path::new("some.txt"), text)
    }

    #[test]
    fn steps_have_their_line_numbers() {
        let text = "args: -m 8\n\n# why\nC2: get k\nS2[18]: END\nwait: 20 ms\nS2: <closed>\n";
        let transcript = parse(text).unwrap();
        assert_eq!(transcript.args, ["-m", "8"]);
        let lines: Vec<_> =
            transcript.steps.iter().map(|step| (step.line, step.connection)).collect();
        assert_eq!(lines, [(4, 2), (5, 2), (6, 1), (7, 2)]);
        assert_eq!(transcript.steps[1].audience, Audience::Memcached18);
        assert!(matches!(transcript.steps[3].action, Action::ExpectClosed));
    }

    #[test]
    fn a_line_for_one_server_needs_a_reason() {
        let error = parse("C: get\n\nS[18]: ERROR\n").unwrap_err();
        assert!(format!("{error:#}").contains("some.txt:3"), "{error:#}");
        assert!(parse("C: get\n# Too few arguments.\nS[18]: ERROR\n").is_ok());
    }

    #[test]
    fn a_line_applies_to_the_servers_that_it_names() {
        let everyone = [Subject::Memcached, Subject::NewMemcached, Subject::Larder];
        for (name, expected) in [
            ("", [true, true, true]),
            ("[18]", [true, false, false]),
            ("[45]", [false, true, true]),
            ("[only 45]", [false, true, false]),
            ("[memcached]", [true, true, false]),
            ("[larder]", [false, false, true]),
        ] {
            let transcript = parse(&format!("# why\nS{name}: END\n")).unwrap();
            let audience = transcript.steps[0].audience;
            assert_eq!(everyone.map(|subject| audience.includes(subject)), expected, "{name:?}");
        }
        let of_both = parse("# why\nonly: memcached\nC: get k\n").unwrap();
        assert_eq!(of_both.only, Audience::Memcached);
    }

    #[test]
    fn an_invalid_line_is_refused() {
        for text in ["", "X: a\n", "C: a \n", "S[17]: a\n", "wait: 5\n", "C: a\nargs: -m 8\n"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}

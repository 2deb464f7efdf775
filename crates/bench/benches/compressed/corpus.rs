//! The values that are compressed.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use larder_bench::Draws;
use serde_json::Value;

/// Values of one kind. Values with the same prefix share a dictionary.
pub(crate) struct Corpus {
    pub(crate) name: String,
    /// The values of each prefix.
    pub(crate) prefixes: Vec<Vec<Vec<u8>>>,
}

/// Returns the descriptions of the crates that the workspace uses, as `cargo metadata` prints them:
/// objects with nested lists and texts, as an API returns them.
pub(crate) fn packages() -> Result<Corpus> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--locked", "--offline", "--format-version", "1"]);
    command.args(["--filter-platform", "x86_64-unknown-linux-gnu"]);
    let printed = command.output().context("cannot start cargo metadata")?;
    ensure!(printed.status.success(), "{command:?}: {}", String::from_utf8_lossy(&printed.stderr));
    let metadata: Value = serde_json::from_slice(&printed.stdout)?;
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    of_json("crates", packages.iter())
}

/// Returns the entries of the package-lock.json files of the repository.
pub(crate) fn locked_packages() -> Result<Corpus> {
    // Cargo starts a bench in the folder of its package.
    let folder = Path::new("../../node");
    let mut entries = Vec::new();
    for file in ["package-lock.json", "bench/package-lock.json"] {
        let text = std::fs::read_to_string(folder.join(file)).context(file)?;
        let locked: Value = serde_json::from_str(&text).context(file)?;
        let packages = locked["packages"].as_object().context("no packages")?;
        entries.extend(packages.values().cloned());
    }
    of_json("package-lock", entries.iter())
}

fn of_json<'v>(name: &str, values: impl Iterator<Item = &'v Value>) -> Result<Corpus> {
    let values = values.map(serde_json::to_vec).collect::<Result<Vec<_>, _>>()?;
    Ok(Corpus { name: name.to_owned(), prefixes: vec![values] })
}

/// Reads the quantiles of the sizes of real items, in bytes of key and value, and subtracts a key.
pub(crate) fn sizes(folder: &Path) -> Result<Vec<usize>> {
    const KEY_BYTES: usize = 30;
    let path = folder.join("sizes-kvcache_reg.txt");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    text.lines().map(|line| Ok(line.parse::<usize>()?.saturating_sub(KEY_BYTES).max(8))).collect()
}

/// Generates bytes that cannot be compressed, such as encrypted or compressed values.
pub(crate) fn random(sizes: &[usize], count: usize) -> Corpus {
    let mut draws = Draws::new(1);
    let values = (0..count)
        .map(|at| (0..sizes[at % sizes.len()]).map(|_| draws.next_number() as u8).collect())
        .collect();
    Corpus { name: "random bytes".to_owned(), prefixes: vec![values] }
}

/// Generates records of an API as JSON, with these sizes in turn: users, sessions and products,
/// each with a prefix. A record begins with the fields of its kind. The fields repeat with other
/// contents until the record has its size.
pub(crate) fn records(sizes: &[usize], count: usize) -> Corpus {
    let mut draws = Draws::new(2);
    let vocabulary = vocabulary(&mut draws);
    let prefixes = KINDS.map(|fields| {
        let sizes =
            (0..count / KINDS.len()).map(|_| sizes[draws.below(sizes.len() as u64) as usize]);
        let sizes: Vec<usize> = sizes.collect();
        sizes.iter().map(|bytes| record(fields, *bytes, &vocabulary, &mut draws)).collect()
    });
    let name = match sizes {
        [bytes] => format!("records of {bytes} B"),
        _ => "records, sizes of a trace".to_owned(),
    };
    Corpus { name, prefixes: prefixes.into() }
}

/// The contents of a field.
#[derive(Clone, Copy)]
enum Field {
    /// A random number of up to nine digits.
    Number,
    /// 16 random bytes in hexadecimal.
    Token,
    /// A second of one year.
    Time,
    /// One of four words.
    State,
    /// Some words.
    Text,
    /// An address with a word and a number.
    Address,
}

const KINDS: [&[(&str, Field)]; 3] = [
    &[
        ("id", Field::Number),
        ("name", Field::Text),
        ("email", Field::Address),
        ("created_at", Field::Time),
        ("status", Field::State),
        ("avatar_hash", Field::Token),
        ("bio", Field::Text),
    ],
    &[
        ("session", Field::Token),
        ("user_id", Field::Number),
        ("expires_at", Field::Time),
        ("csrf_token", Field::Token),
        ("state", Field::State),
    ],
    &[
        ("sku", Field::Number),
        ("title", Field::Text),
        ("price_cents", Field::Number),
        ("updated_at", Field::Time),
        ("image", Field::Address),
        ("description", Field::Text),
    ],
];

fn record(
    fields: &[(&str, Field)],
    bytes: usize,
    vocabulary: &[String],
    draws: &mut Draws,
) -> Vec<u8> {
    let mut text = String::from("{");
    for (round, (name, field)) in (0..).flat_map(|round| fields.iter().map(move |f| (round, f))) {
        let separator = if text.len() > 1 { "," } else { "" };
        let suffix = if round > 0 { round.to_string() } else { String::new() };
        text += &format!("{separator}\"{name}{suffix}\":{}", content(*field, vocabulary, draws));
        if text.len() + 1 >= bytes {
            break;
        }
    }
    text.push('}');
    text.into_bytes()
}

fn content(field: Field, vocabulary: &[String], draws: &mut Draws) -> String {
    let mut word = || &*vocabulary[((draws.below(4096) * draws.below(4096)) >> 12) as usize];
    match field {
        Field::Text => {
            let words: Vec<&str> = (0..6).map(|_| word()).collect();
            format!("\"{}\"", words.join(" "))
        }
        Field::Address => {
            let (name, host) = (word(), word());
            format!("\"https://{host}.example/{name}/{}\"", draws.below(1_000_000))
        }
        Field::Number => draws.below(1_000_000_000).to_string(),
        Field::Token => format!("\"{:016x}{:016x}\"", draws.next_number(), draws.next_number()),
        Field::Time => {
            let (month, day) = (draws.below(12) + 1, draws.below(28) + 1);
            let (hour, minute, second) = (draws.below(24), draws.below(60), draws.below(60));
            format!("\"2025-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z\"")
        }
        Field::State => {
            let states = ["active", "pending", "suspended", "deleted"];
            format!("\"{}\"", states[draws.below(4) as usize])
        }
    }
}

/// Makes 4096 words of two to four syllables. The first ones are drawn most often.
fn vocabulary(draws: &mut Draws) -> Vec<String> {
    const SYLLABLES: [&str; 24] = [
        "ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "qui", "ro", "su",
        "ta", "ve", "wi", "xo", "yu", "za", "ster", "ing", "al",
    ];
    let word = |draws: &mut Draws| {
        let count = 2 + draws.below(3);
        (0..count).map(|_| SYLLABLES[draws.below(24) as usize]).collect()
    };
    (0..4096).map(|_| word(draws)).collect()
}

//! Tests of this crate, played on memcached.

use std::path::Path;

use anyhow::Result;
use larder_testkit::server::{larderd, memcached};
use larder_testkit::transcript::{Split, Transcript, play};
use larder_testkit::{ServerUnderTest, Subject, Transport};

fn play_text(text: &str, split: Split) -> Result<()> {
    let transcript = Transcript::parse(Path::new("some.txt"), text)?;
    let server = ServerUnderTest::start(&memcached()?, Transport::Unix, &[])?;
    Ok(play(&transcript, &server, Subject::Memcached, split)?)
}

#[test]
fn a_correct_transcript_passes_in_every_split() {
    let text = "C: set k 0 0 3\nC: abc\nS: STORED\nC2: gets k\nS2: VALUE k 0 3 <cas1>\nS2: abc\n\
                S2: END\nC: cas k 0 0 1 <cas1>\nC: x\nS: STORED\nC2: quit\nS2: <closed>\n";
    for split in [Split::Whole, Split::Bytes, Split::Random { seed: 3 }] {
        play_text(text, split).unwrap();
    }
}

#[test]
fn a_wrong_transcript_fails_with_its_line_and_both_texts() {
    let failure = play_text("C: get k\n\nS: VALUE k 0 1\n", Split::Whole).unwrap_err().to_string();
    for part in ["some.txt:3", "memcached", "whole", "VALUE k 0 1", "END\\r\\n"] {
        assert!(failure.contains(part), "{failure}");
    }
}

#[test]
fn an_unexpected_answer_is_reported_at_the_end() {
    let failure = play_text("C: get k\n", Split::Whole).unwrap_err().to_string();
    assert!(failure.contains("at the end connection 1"), "{failure}");
}

#[test]
fn a_dropped_server_is_killed() {
    let server = ServerUnderTest::start(&memcached().unwrap(), Transport::Tcp, &[]).unwrap();
    assert!(server.rss_bytes().unwrap() > 1 << 20);
    assert!(server.descriptor_count().unwrap() > 3);
    let pid = server.pid();
    drop(server);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn the_error_of_a_server_that_does_not_start_quotes_its_output() {
    let error = ServerUnderTest::start(&memcached().unwrap(), Transport::Unix, &["-c", "0"]);
    let error = format!("{:#}", error.unwrap_err());
    assert!(error.contains("Maximum connections must be greater than 0"), "{error}");
}

#[test]
fn the_variable_larderd_overrides_the_binary_built_by_cargo() {
    let expected = std::env::var("LARDERD").unwrap_or_else(|_| "built".into());
    assert_eq!(larderd("built"), Path::new(&expected));
}

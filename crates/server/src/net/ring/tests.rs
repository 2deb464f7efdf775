//! Tests of a ring with the other ends of its sockets. They pass without checking anything if the
//! kernel does not allow io_uring.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use super::*;
use crate::buffers::output::tests::output_with_value;

const SECOND: Option<Duration> = Some(Duration::from_secs(1));
const BRIEFLY: Option<Duration> = Some(Duration::from_millis(20));

fn ring() -> Option<Ring> {
    match Ring::new() {
        Ok(mut ring) => {
            ring.enable().unwrap();
            Some(ring)
        }
        Err(error) => {
            larder_testkit::skip(format!("io_uring cannot be used here: {error}"));
            None
        }
    }
}

fn token(number: u64) -> Token {
    Token::from(number)
}

/// Returns the events of one wait.
fn wait(ring: &mut Ring, timeout: Option<Duration>) -> Vec<Event> {
    let mut events = Vec::new();
    ring.wait(timeout, &mut events).unwrap();
    events
}

#[test]
fn input_is_received_until_the_peer_closes() {
    let Some(mut ring) = ring() else { return };
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ring.receive(ours.as_fd(), token(7));
    for words in ["some", "words"] {
        theirs.write_all(words.as_bytes()).unwrap();
        let [Event::Received(of, lent)] = &mut wait(&mut ring, SECOND)[..] else { panic!() };
        assert_eq!((*of, ring.bytes(lent)), (token(7), words.as_bytes()));
        let lent = Lent { ..*lent };
        ring.give_back(lent);
    }
    drop(theirs);
    let events = wait(&mut ring, SECOND);
    let [Event::Ended(of, Reception::Over)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((*of, ring.under_way), (token(7), 0));
}

#[test]
fn nothing_is_lost_while_no_buffer_is_left() {
    let Some(mut ring) = ring() else { return };
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut lent = Vec::new();
    ring.receive(ours.as_fd(), token(1));
    // The buffers are read one by one, so each wait reports one.
    while lent.len() < usize::from(BUFFERS) {
        theirs.write_all(&[lent.len() as u8]).unwrap();
        for event in wait(&mut ring, SECOND) {
            let Event::Received(_, buffer) = event else { panic!("{event:?}") };
            lent.push(buffer);
        }
    }
    theirs.write_all(b"the rest").unwrap();
    let events = wait(&mut ring, SECOND);
    assert!(matches!(events[..], [Event::Ended(_, Reception::Starved)]), "{events:?}");
    for (buffer, number) in lent.drain(..).zip(0..) {
        assert_eq!(ring.bytes(&buffer), [number]);
        ring.give_back(buffer);
    }
    ring.receive(ours.as_fd(), token(1));
    let events = wait(&mut ring, SECOND);
    let [Event::Received(_, buffer)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(ring.bytes(buffer), b"the rest");
}

#[test]
fn an_output_is_returned_when_all_of_it_is_sent() {
    let bytes = vec![b'x'; 4 << 20];
    let whole = Output::from(bytes.clone());
    assert!(send_all(whole, &bytes).into_vec() == bytes);
}

#[test]
fn an_output_with_pieces_arrives_in_order() {
    let value: Vec<u8> = (0..900_000u32).map(|number| number as u8).collect();
    let (output, _cache) = output_with_value(b"head", &value, b"tail");
    send_all(output, &[b"head", &value[..], b"tail"].concat());
}

/// Sends an output in as many parts as necessary, and returns it.
fn send_all(mut output: Output, bytes: &[u8]) -> Output {
    let Some(mut ring) = ring() else { return output };
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let (mut reader, mut parts) = (None, 0);
    let len = bytes.len();
    while !output.is_sent() {
        ring.send(ours.as_fd(), token(3), output);
        let mut events = wait(&mut ring, Some(Duration::from_secs(20)));
        let Some(Event::Sent(of, back, Ok(1..))) = events.pop() else { panic!("{events:?}") };
        assert_eq!(of, token(3));
        (output, parts) = (back, parts + 1);
        // The peer begins to read only when the socket is full.
        let mut theirs = theirs.try_clone().unwrap();
        reader.get_or_insert_with(|| {
            std::thread::spawn(move || {
                let mut read = vec![0; len];
                theirs.read_exact(&mut read).unwrap();
                read
            })
        });
    }
    assert!(parts > 1, "no socket holds so much");
    assert!(reader.unwrap().join().unwrap() == bytes);
    assert_eq!(theirs.set_nonblocking(true).and_then(|()| theirs.read(&mut [0])).ok(), None);
    output
}

#[test]
fn a_value_is_received_to_its_place_in_a_cache() {
    let Some(mut ring) = ring() else { return };
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let cache = larder::Cache::builder().memory_bytes(16 << 20).open().unwrap();
    let value: Vec<u8> = (0..100_000u32).map(|number| number as u8).collect();
    let mut upload = cache.upload(b"k", value.len()).unwrap();
    let (mut arrived, mut behind) = (0, Vec::new());
    while let Some(direct_buffer) = upload.direct_buffer() {
        let (_, bytes) = direct_buffer.room().unwrap();
        let is_last = arrived + bytes == value.len();
        ring.receive_at(ours.as_fd(), token(9), DirectReceive::new(direct_buffer, bytes, is_last));
        theirs.write_all(&value[arrived..][..bytes]).unwrap();
        if is_last {
            theirs.write_all(b"\r\nget k\r\n").unwrap();
        }
        let mut events = wait(&mut ring, SECOND);
        let Some(Event::DirectDone(of, direct, Ok(bytes))) = events.pop() else {
            panic!("{events:?}")
        };
        assert_eq!(of, token(9));
        let (direct_buffer, value_bytes, more) = direct.into_parts(bytes);
        upload.complete_direct(direct_buffer, value_bytes);
        (arrived, behind) = (arrived + value_bytes, more);
    }
    assert_eq!((arrived, behind), (value.len(), b"\r\nget k\r\n".to_vec()));
    assert_eq!(cache.report().segments_pinned, 0);
    upload.store(&larder::StoreRequest::new(b"k", larder::StoreMode::Set)).unwrap();
    assert!(cache.get("k") == Some(value));
}

#[test]
fn the_place_of_a_value_is_pinned_during_a_direct_receive() {
    let Some(mut ring) = ring() else { return };
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let cache = larder::Cache::builder().memory_bytes(16 << 20).open().unwrap();
    let mut upload = cache.upload(b"k", 100_000).unwrap();
    let direct_buffer = upload.direct_buffer().unwrap();
    ring.receive_at(ours.as_fd(), token(9), DirectReceive::new(direct_buffer, 1000, false));
    assert!(wait(&mut ring, BRIEFLY).is_empty());
    drop(upload);
    assert_eq!(cache.report().segments_pinned, 1);
    drop(ring);
    assert_eq!(cache.report().segments_pinned, 0);
    cache.validate().unwrap();
}

#[test]
fn a_piece_is_held_until_it_is_sent() {
    let Some(mut ring) = ring() else { return };
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let value = vec![7; 900_000];
    let (output, cache) = output_with_value(b"", &value, b"");
    ring.send(ours.as_fd(), token(3), output);
    // The socket accepts a part. The rest is in progress when the ring is dropped.
    let mut events = wait(&mut ring, SECOND);
    let Some(Event::Sent(_, output, Ok(1..))) = events.pop() else { panic!("{events:?}") };
    ring.send(ours.as_fd(), token(3), output);
    assert!(cache.report().segments_pinned > 0);
    drop((ring, ours));
    assert_eq!(cache.report().segments_pinned, 0);
    let mut read = Vec::new();
    theirs.read_to_end(&mut read).unwrap();
    assert!(!read.is_empty());
    assert!(value.starts_with(&read));
}

#[test]
fn a_send_to_a_closed_peer_fails_and_returns_the_output() {
    let Some(mut ring) = ring() else { return };
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(theirs);
    ring.send(ours.as_fd(), token(3), Output::from(b"words".to_vec()));
    let events = wait(&mut ring, SECOND);
    assert!(matches!(events[..], [Event::Sent(_, _, Err(Errno::PIPE))]), "{events:?}");
}

#[test]
fn a_cancelled_operation_reports_no_event() {
    let Some(mut ring) = ring() else { return };
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ring.receive(ours.as_fd(), token(5));
    ring.poll(ours.as_fd(), 5, EventFlags::IN);
    assert!(wait(&mut ring, BRIEFLY).is_empty());
    ring.stop_receiving(token(5));
    ring.stop_polling(5);
    let events = wait(&mut ring, SECOND);
    assert!(matches!(events[..], [Event::Ended(_, Reception::Paused)]), "{events:?}");
    theirs.write_all(b"words").unwrap();
    assert!(wait(&mut ring, BRIEFLY).is_empty());
    ring.poll(ours.as_fd(), KEY_MAX, EventFlags::IN);
    let events = wait(&mut ring, SECOND);
    assert!(matches!(events[..], [Event::Ready(KEY_MAX, EventFlags::IN, true)]), "{events:?}");
}

#[test]
fn more_operations_can_be_submitted_than_the_queue_holds() {
    let Some(mut ring) = ring() else { return };
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let asked = 3 * u64::from(SUBMISSIONS);
    for key in 0..asked {
        ring.poll(ours.as_fd(), key, EventFlags::OUT);
    }
    let mut ready = 0;
    while ready < asked {
        ready += wait(&mut ring, SECOND).len() as u64;
    }
    assert_eq!((ready, ring.under_way), (asked, 0));
}

/// A multi-shot poll holds its socket until it is cancelled.
#[test]
fn hanging_up_a_socket_ends_all_its_operations() {
    let Some(mut ring) = ring() else { return };
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ring.poll_on(ours.as_fd(), 8, EventFlags::IN);
    ring.receive(ours.as_fd(), token(8));
    ring.receive_once(ours.as_fd(), token(9), BUFFER_BYTES);
    for _ in 0..2 {
        ring.send(ours.as_fd(), token(8), Output::from(vec![b'x'; 4 << 20]));
    }
    // The first send completes when the socket is full.
    assert_eq!(wait(&mut ring, BRIEFLY).len(), 1);
    let number = ours.as_raw_fd();
    ring.hang_up(HangUp::new(ours.into(), false), token(8));
    let mut events = Vec::new();
    while ring.under_way > 0 {
        let more = wait(&mut ring, SECOND);
        assert!(!more.is_empty(), "{} still under way", ring.under_way);
        events.extend(more);
    }
    let is_closed = |event: &Event| matches!(event, Event::Closed(of) if *of == number);
    assert!(events.iter().any(is_closed));
    theirs.read_to_end(&mut Vec::new()).unwrap();
}

/// A ring that is not enabled yet refuses to submit, as the kernel may do at any time when memory
/// is short.
#[test]
fn an_answer_that_cannot_be_submitted_goes_to_no_other_holder_of_the_descriptor() {
    let Ok(mut ring) = Ring::new() else { return };
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let number = ours.as_raw_fd();
    ring.send(ours.as_fd(), token(1), Output::from(b"secret".to_vec()));
    ring.hang_up(HangUp::new(ours.into(), false), token(1));
    assert!(ring.io.submit().is_err());
    let others: Vec<_> = (0..100).map(|_| UnixStream::pair().unwrap()).collect();
    let numbers = others.iter().flat_map(|(one, other)| [one.as_raw_fd(), other.as_raw_fd()]);
    assert!(!numbers.into_iter().any(|other| other == number), "{number} is used again");
    ring.enable().unwrap();
    let mut events = Vec::new();
    while ring.under_way > 0 {
        events.extend(wait(&mut ring, SECOND));
    }
    assert!(matches!(events[..], [Event::Sent(_, _, Ok(6)), Event::Closed(_)]), "{events:?}");
    let mut heard = String::new();
    theirs.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "secret");
    for (mut one, mut other) in others {
        for end in [&mut one, &mut other] {
            end.set_nonblocking(true).unwrap();
            assert!(end.read(&mut [0]).is_err());
        }
    }
}

#[test]
fn dropping_a_ring_cancels_its_operations() {
    let Some(mut ring) = ring() else { return };
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ring.receive(ours.as_fd(), token(1));
    // The socket accepts the first output. The second is in progress when the ring is dropped.
    for _ in 0..2 {
        ring.send(ours.as_fd(), token(1), Output::from(vec![b'x'; 4 << 20]));
    }
    assert_eq!(wait(&mut ring, BRIEFLY).len(), 1);
    assert!(ring.cancel_all());
    drop((ring, ours));
    let mut read = Vec::new();
    theirs.read_to_end(&mut read).unwrap();
    assert!(!read.is_empty());
    assert!(read.iter().all(|byte| *byte == b'x'));
}

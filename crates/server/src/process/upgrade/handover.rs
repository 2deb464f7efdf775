//! Handover: a server passes its listening sockets to its successor.
//!
//! The new process finds the channel as its standard input. The messages of the old process already
//! wait in it. They carry descriptors, so the processes need not agree on descriptor numbers. When
//! the new process serves, it responds with a single message.
//!
//! Only one process at a time can use the directory of `--tier-path`. A new process with this
//! option first sends another message that asks the old process to release the directory, and waits
//! for the response.
//!
//! The cache's memory, the sockets of the admin listener and the terms of the listeners come after
//! the message that ends the sockets. A version without support for these messages stops reading at
//! that point.

use std::env;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use larder::Inheritance;
use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, send, sendmsg,
    socketpair,
};
use rustix::process::{Pid, getppid};
use rustix::stdio::dup2_stdin;

use crate::failure::{EXIT_OS, Failure};
use crate::process::upgrade::inherited::InheritedSocket;
use crate::process::upgrade::listeners;
use crate::server::open::InheritedMemory;

/// Everything that a new process inherits.
#[derive(Debug)]
pub(crate) struct Handover {
    pub(crate) sockets: Vec<InheritedSocket>,
    pub(crate) memory: Option<InheritedMemory>,
    /// The sockets of the admin listener.
    pub(crate) admin: Vec<OwnedFd>,
    pub(crate) texts: Texts,
}

/// What the old server knows, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Texts {
    /// The servers of the cluster, as clients receive them.
    pub(crate) cluster: Option<String>,
    /// The limit on the lives of restored items.
    pub(crate) lives: Option<String>,
}

/// The old server's end of the channel.
#[derive(Debug)]
pub(crate) struct Channel(OwnedFd);

/// The new process's response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// No response so far.
    None,
    /// The new process serves.
    Ready,
    /// The new process can serve once this process has released its directory.
    AsksRelease,
    /// The new process will not respond any more.
    Gone,
}

impl Channel {
    /// Creates a channel that contains these sockets, the cache's memory if it can be handed over,
    /// and the sockets of the admin listener. `listeners` has a line for each of the sockets.
    /// Returns both ends. The second is for the new process.
    ///
    /// # Errors
    /// Returns the error of the system call.
    pub(crate) fn open(
        sockets: &[BorrowedFd<'_>],
        memory: Option<&InheritedMemory>,
        admin: &[BorrowedFd<'_>],
        listeners: &str,
    ) -> io::Result<(Self, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        for sockets in sockets.chunks(MESSAGE_SOCKETS_MAX) {
            send_message(&ours, MORE, sockets)?;
        }
        send_message(&ours, LAST, &[])?;
        if let Some(InheritedMemory { inheritance, readers }) = memory {
            let words = [MEMORY, readers.as_bytes()].concat();
            send_message(&ours, &words, &[inheritance.region.as_fd(), inheritance.locks.as_fd()])?;
        }
        // After the memory, because a version that understands the message with the memory, but not
        // this one, expects the memory first.
        for sockets in admin.chunks(MESSAGE_SOCKETS_MAX) {
            send_message(&ours, ADMIN, sockets)?;
        }
        let listeners = [LISTENERS, listeners.as_bytes()].concat();
        // Without them the new process does not log differences.
        if listeners.len() <= LISTENERS_BYTES_MAX {
            send_message(&ours, &listeners, &[])?;
        }
        Ok((Self(ours), theirs))
    }

    /// Adds the servers of the cluster, as clients receive them, so that their version does not go
    /// back.
    ///
    /// # Errors
    /// Returns the error of the system call.
    pub(crate) fn hand_cluster(&self, list: &[u8]) -> io::Result<()> {
        let words = [CLUSTER, list].concat();
        // Without them the new process reads the file or resolves the name itself.
        if words.len() <= LISTENERS_BYTES_MAX {
            send_message(&self.0, &words, &[])?;
        }
        Ok(())
    }

    /// Adds the limit on the lives of restored items, which also holds for the new process.
    ///
    /// # Errors
    /// Returns the error of the system call.
    pub(crate) fn hand_lives(&self, limit: &str) -> io::Result<()> {
        send_message(&self.0, &[LIVES, limit.as_bytes()].concat(), &[])
    }

    /// Returns the answer so far, without waiting.
    pub(crate) fn answer(&self) -> Answer {
        let mut word = [0; WORD_BYTES_MAX];
        match recv(&self.0, &mut word, RecvFlags::DONTWAIT) {
            Ok((bytes, _)) if word[..bytes] == *READY => Answer::Ready,
            Ok((bytes, _)) if word[..bytes] == *RELEASE => Answer::AsksRelease,
            Err(Errno::AGAIN | Errno::INTR) => Answer::None,
            _ => Answer::Gone,
        }
    }
}

impl Channel {
    /// Tells the new process that the directory is released.
    pub(crate) fn notify_released(&self) {
        // Fails if the new process has ended. The parent notices that separately.
        let _ = send(&self.0, RELEASED, SendFlags::NOSIGNAL);
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn send_message(channel: &OwnedFd, words: &[u8], sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MESSAGE_SOCKETS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !sockets.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(sockets));
    }
    // The new process has not started yet. If the message does not fit into the channel, waiting
    // would not help, because no process reads the channel yet.
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(channel, &[IoSlice::new(words)], &mut control, flags)?;
    Ok(())
}

/// The server that this process replaces.
#[derive(Debug)]
pub(crate) struct Predecessor {
    channel: OwnedFd,
    /// Its process id.
    pub(crate) pid: Option<Pid>,
}

impl Predecessor {
    /// Finds the server that has started this process as its successor, and receives its state;
    /// `None` if there is no such server. Standard input is empty afterwards.
    ///
    /// # Errors
    /// Fails if the channel or its messages are not as expected.
    pub(crate) fn find() -> Result<Option<(Self, Handover)>, Failure> {
        if !is_successor() {
            return Ok(None);
        }
        let failure = |error: io::Error| {
            let message =
                format_args!("{MARK} is set, but no server hands over its sockets: {error}");
            Failure::new(EXIT_OS, message)
        };
        let stdin = io::stdin();
        let handover = receive(stdin.as_fd()).map_err(failure)?;
        let channel = stdin.as_fd().try_clone_to_owned().map_err(failure)?;
        let null = File::open("/dev/null").map_err(failure)?;
        dup2_stdin(&null).map_err(|error| failure(error.into()))?;
        Ok(Some((Self { channel, pid: getppid() }, handover)))
    }

    /// Asks the predecessor to release its directory, and waits until it has done so. From then on
    /// the predecessor accepts no connections.
    ///
    /// # Errors
    /// Fails if the predecessor does not release a directory.
    pub(crate) fn ask_release(&self) -> io::Result<()> {
        send(&self.channel, RELEASE, SendFlags::NOSIGNAL)?;
        let mut word = [0; WORD_BYTES_MAX];
        loop {
            return match recv(&self.channel, &mut word, RecvFlags::empty()) {
                Ok((bytes, _)) if word[..bytes] == *RELEASED => Ok(()),
                // The predecessor has ended, which also releases the directory.
                Ok((0, _)) | Err(Errno::CONNRESET) => Ok(()),
                Ok(_) => Err(io::Error::other("the predecessor sent an unexpected response")),
                Err(Errno::INTR) => continue,
                Err(error) => Err(error.into()),
            };
        }
    }

    /// Notifies the predecessor that this process serves. From then on the predecessor accepts no
    /// connections.
    pub(crate) fn notify_ready(self) {
        // Fails if the predecessor has ended. This process serves in any case.
        let _ = send(&self.channel, READY, SendFlags::NOSIGNAL);
    }
}

/// True if this process was started as a successor.
pub(crate) fn is_successor() -> bool {
    env::var_os(MARK).is_some()
}

fn receive(channel: BorrowedFd<'_>) -> io::Result<Handover> {
    let mut sockets = receive_sockets(channel)?;
    let (mut memory, mut admin, mut texts) = (None, Vec::new(), Texts::default());
    let mut words = vec![0; LISTENERS_BYTES_MAX];
    loop {
        let (bytes, descriptors) = match receive_message(channel, &mut words) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            received => received?,
        };
        if &words[..bytes] == ADMIN {
            admin.extend(descriptors);
        } else if let Some(readers) = words[..bytes].strip_prefix(MEMORY) {
            memory = inherited_memory(readers, descriptors);
        } else if let Some(list) = words[..bytes].strip_prefix(CLUSTER) {
            texts.cluster = Some(String::from_utf8_lossy(list).into_owned());
        } else if let Some(limit) = words[..bytes].strip_prefix(LIVES) {
            texts.lives = Some(String::from_utf8_lossy(limit).into_owned());
        } else if let Some(lines) = words[..bytes].strip_prefix(LISTENERS) {
            let text = String::from_utf8_lossy(lines);
            let (is_given, lines) = listeners::read(&text);
            for (socket, line) in sockets.iter_mut().zip(lines) {
                socket.words = Some(line.to_owned());
                socket.is_given = is_given;
            }
        } else if bytes == 0 {
            // The old server has ended.
            break;
        }
        // A newer version may hand over more, which this version ignores.
    }
    Ok(Handover { sockets, memory, admin, texts })
}

fn inherited_memory(readers: &[u8], descriptors: Vec<OwnedFd>) -> Option<InheritedMemory> {
    let readers = String::from_utf8_lossy(readers).into_owned();
    let [region, locks] = <[OwnedFd; 2]>::try_from(descriptors).ok()?;
    Some(InheritedMemory { inheritance: Inheritance { region, locks }, readers })
}

fn receive_sockets(channel: BorrowedFd<'_>) -> io::Result<Vec<InheritedSocket>> {
    let mut inherited = Vec::new();
    loop {
        let mut words = [0; 64];
        let (bytes, descriptors) = receive_message(channel, &mut words)?;
        inherited.extend(descriptors.into_iter().map(|descriptor| {
            let name = "a socket of the predecessor".to_owned();
            // The message with the terms may change this. Older versions do not send it.
            InheritedSocket { descriptor, name, words: None, is_given: true }
        }));
        match &words[..bytes] {
            MORE => {}
            LAST => return Ok(inherited),
            _ => {
                return Err(io::Error::other(
                    "it sent a message that this version does not \
                                              understand",
                ));
            }
        }
    }
}

/// Receives the next message with its descriptors. Returns the length of its text.
///
/// # Errors
/// Fails if no message is available, or with the error of the system call.
pub(crate) fn receive_message(
    channel: BorrowedFd<'_>,
    words: &mut [u8],
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MESSAGE_SOCKETS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let message = recvmsg(channel, &mut [IoSliceMut::new(words)], &mut control, flags)?;
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptors = descriptors.flatten().collect();
    Ok((message.bytes, descriptors))
}

/// The variable that marks a successor process.
pub(crate) const MARK: &str = "LARDERD_SUCCEEDS";

/// The text of a message with sockets, and of the last such message. The number increases when the
/// meaning changes.
const MORE: &[u8] = b"larderd 1 sockets";
const LAST: &[u8] = b"larderd 1 all";

/// The beginning of the message with the cache's memory. The old server's `--local-readers`
/// follows.
const MEMORY: &[u8] = b"larderd 1 memory ";
/// The text of a message with sockets of the admin listener.
const ADMIN: &[u8] = b"larderd 1 admin";

/// The beginning of the message with the terms of the listeners; see `listeners.rs`.
const LISTENERS: &[u8] = b"larderd 1 listeners\n";

/// The beginning of the message with the servers of the cluster.
const CLUSTER: &[u8] = b"larderd 1 cluster ";

/// The beginning of the message with the limit on the lives of restored items.
const LIVES: &[u8] = b"larderd 1 lives ";

/// Maximum length of a message after those with sockets. A line has up to 100 bytes.
const LISTENERS_BYTES_MAX: usize = 64 << 10;

/// The new process's responses.
const READY: &[u8] = b"ready";
const RELEASE: &[u8] = b"release";
/// The old process's response to [`RELEASE`].
const RELEASED: &[u8] = b"released";
/// Maximum length of a response.
const WORD_BYTES_MAX: usize = 16;

/// Number of sockets per message. The system allows 253.
const MESSAGE_SOCKETS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn any_number_of_sockets_is_handed_over_and_answered() {
        for count in [0, 1, 64, 65, 150] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let fds = vec![listener.as_fd(); count];
            let (channel, theirs) =
                Channel::open(&fds, None, &fds, &("opened\n".to_owned() + &"a\n".repeat(count)))
                    .unwrap();
            assert_eq!(channel.answer(), Answer::None);
            channel.hand_cluster(b"7\na||1\n").unwrap();
            channel.hand_lives("7 8").unwrap();
            let Handover { sockets, memory, admin, texts } = receive(theirs.as_fd()).unwrap();
            assert!(memory.is_none());
            assert_eq!(texts.cluster.as_deref(), Some("7\na||1\n"));
            assert_eq!(texts.lives.as_deref(), Some("7 8"));
            assert_eq!((sockets.len(), admin.len()), (count, count));
            for socket in sockets {
                assert_eq!((socket.words.as_deref(), socket.is_given), (Some("a"), false));
                let socket = TcpListener::from(socket.descriptor);
                assert_eq!(socket.local_addr().unwrap(), listener.local_addr().unwrap());
            }
            Predecessor { channel: theirs, pid: None }.notify_ready();
            assert_eq!(channel.answer(), Answer::Ready);
            assert_eq!(channel.answer(), Answer::Gone);
        }
    }

    #[test]
    fn a_directory_is_released_before_the_new_process_is_ready() {
        let (channel, theirs) = Channel::open(&[], None, &[], "").unwrap();
        receive(theirs.as_fd()).unwrap();
        let successor = std::thread::spawn(move || {
            let predecessor = Predecessor { channel: theirs, pid: None };
            let released = predecessor.ask_release();
            predecessor.notify_ready();
            released
        });
        while channel.answer() != Answer::AsksRelease {}
        assert_eq!(channel.answer(), Answer::None, "it waits");
        channel.notify_released();
        successor.join().unwrap().unwrap();
        assert_eq!(channel.answer(), Answer::Ready);
        // The request cannot be sent if the old process has already ended.
        let (channel, theirs) = Channel::open(&[], None, &[], "").unwrap();
        receive(theirs.as_fd()).unwrap();
        drop(channel);
        assert!(
            Predecessor { channel: theirs, pid: None }.ask_release().is_err(),
            "no process receives the request"
        );
    }

    #[test]
    fn memory_follows_the_sockets_where_older_versions_do_not_read() {
        let cache =
            larder::Cache::builder().memory_bytes(1 << 20).inheritable(true).open().unwrap();
        cache.set("k", "v", None).unwrap();
        let inheritance = cache.inheritance().unwrap().unwrap();
        let memory = InheritedMemory { inheritance, readers: "group:www".to_owned() };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let admin = [listener.as_fd()];
        let (_channel, theirs) = Channel::open(&[], Some(&memory), &admin, "").unwrap();
        assert_eq!(receive_sockets(theirs.as_fd()).unwrap().len(), 0, "as older versions do");
        let mut words = [0; 512];
        let (bytes, descriptors) = receive_message(theirs.as_fd(), &mut words).unwrap();
        let readers = words[..bytes].strip_prefix(MEMORY).expect("as older versions do");
        let received = inherited_memory(readers, descriptors).unwrap();
        assert_eq!(received.readers, "group:www");
        let builder = larder::Cache::builder().memory_bytes(1 << 20);
        let other = builder.open_inherited(received.inheritance).unwrap();
        assert_eq!(other.get("k").as_deref(), Some(&b"v"[..]));
        // Messages that a newer version has added are ignored.
        let (channel, theirs) = Channel::open(&[], None, &[], "").unwrap();
        send_message(&channel.0, b"larderd 1 more", &[]).unwrap();
        assert!(receive(theirs.as_fd()).unwrap().memory.is_none());
    }

    #[test]
    fn a_channel_with_other_messages_is_refused() {
        let (channel, theirs) = Channel::open(&[], None, &[], "").unwrap();
        send(&theirs, b"read", SendFlags::NOSIGNAL).unwrap();
        assert_eq!(channel.answer(), Answer::Gone);
        let (_channel, theirs) = Channel::open(&[], None, &[], "").unwrap();
        receive(theirs.as_fd()).unwrap();
        assert!(receive(theirs.as_fd()).is_err(), "nothing more waits");
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        send_message(&ours, b"larderd 2 sockets", &[]).unwrap();
        assert!(receive(theirs.as_fd()).unwrap_err().to_string().contains("understand"));
    }
}

//! `larder top`: its numbers, and the state of the terminal after it ends.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use tempfile::TempDir;

use crate::admin::Managed;
use crate::bench_live::terminal;
use crate::larder;

/// Returns the number, without its unit, at the end of the line that begins with `name`.
#[track_caller]
fn number(text: &str, name: &str) -> f64 {
    let line = text.lines().find(|line| line.trim_start().starts_with(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in\n{text}"));
    let words = line.trim_start()[name.len()..].split_whitespace().next();
    words.and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no number in {line:?}"))
}

#[test]
fn a_snapshot_has_the_rates_of_a_second() {
    let managed = Managed::start(&["-c", "77"]);
    managed.store(&[b"hit"]);
    let mut stream = managed.fixture.server.connect().unwrap();
    let is_done = AtomicBool::new(false);
    let (text, gets) = thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut gets = 0;
            while !is_done.load(Relaxed) {
                // One of four keys exists.
                stream.ask(b"get hit a b c\r\n", b"END\r\n").unwrap();
                gets += 4;
                sleep(Duration::from_millis(5));
            }
            gets
        });
        let ran = managed.larder(&["top", "--once"]);
        is_done.store(true, Relaxed);
        (String::from_utf8(ran.printed()).unwrap(), load.join().unwrap())
    });
    let pid = managed.fixture.server.pid();
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("larderd ") && first.ends_with(": serving"), "{text}");
    assert!(first.contains(&format!("process {pid} at unix:")), "{text}");
    assert_eq!(number(&text, "hit ratio  "), 25.0, "{text}");
    assert_eq!(number(&text, "items"), 1.0, "{text}");
    assert_eq!(number(&text, "set"), 0.0, "a store before the second has no rate: {text}");
    let rate = number(&text, "requests per second");
    assert!(rate > 4.0 && rate <= f64::from(gets), "{rate} of {gets} in all: {text}");
    assert!(text.lines().any(|line| line.ends_with(" of 77")), "{text}");
    assert!(!text.contains('\u{1b}'), "a snapshot has no escape sequences: {text:?}");
}

#[test]
fn a_snapshot_of_a_near_cache_and_of_its_origin_shows_both_sides() {
    let origin = Managed::start(&["--followers", "2"]);
    let address = origin.fixture.address();
    let near = Managed::start(&["--origin", &address]);
    let snapshot =
        |of: &Managed| String::from_utf8(of.larder(&["top", "--once"]).printed()).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        // The admin listener answers before the cache is open.
        let ran = near.larder(&["top", "--once"]);
        let text = String::from_utf8_lossy(&ran.stdout).into_owned();
        if text.contains("reports its changes") {
            break;
        }
        assert!(Instant::now() < deadline, "{text}{}", ran.stderr);
    }
    let is_done = AtomicBool::new(false);
    let (at_near, at_origin) = thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = near.fixture.server.connect().unwrap();
            while !is_done.load(Relaxed) {
                stream.ask(b"set k 0 0 1\r\nv\r\n", b"STORED\r\n").unwrap();
                stream.ask(b"get k\r\n", b"END\r\n").unwrap();
                stream.ask(b"get k\r\n", b"END\r\n").unwrap();
                sleep(Duration::from_millis(5));
            }
        });
        let shown = (snapshot(&near), snapshot(&origin));
        is_done.store(true, Relaxed);
        shown
    });
    for name in ["fetched per second", "passed to it per second", "changes per second"] {
        assert!(number(&at_near, name) > 1.0, "{name}: {at_near}");
    }
    assert_eq!(number(&at_near, "failed requests"), 0.0, "{at_near}");
    assert_eq!(number(&at_origin, "near caches"), 1.0, "{at_origin}");
    for name in ["items fetched per second", "changes sent per second"] {
        assert!(number(&at_origin, name) > 1.0, "{name}: {at_origin}");
    }
    assert!(!at_origin.contains("Near cache") && !at_near.contains("Followers"));
}

#[test]
fn a_snapshot_needs_a_server_and_the_screen_a_terminal() {
    let managed = Managed::start(&[]);
    managed.larder(&["top"]).failed(2, "the output is not a terminal: larder top --once");
    let address = managed.fixture.address();
    larder(b"", &["top", "--once", "--server", &address]).failed(2, "--admin-listen");
}

/// `larder top` on a terminal.
struct Screen {
    tool: Child,
    master: File,
    /// Keeps the terminal open after the tool ends.
    _slave: File,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl Screen {
    /// Starts the tool and waits until it shows numbers.
    fn start(managed: &Managed) -> Self {
        let screen = Self::open(managed, Command::new(env!("CARGO_BIN_EXE_larder")));
        screen.wait_for("q quits");
        assert!(!is_cooked(&screen.master), "the screen takes each key");
        screen
    }

    /// Starts the tool through a command that takes its arguments.
    fn open(managed: &Managed, mut tool: Command) -> Self {
        let (master, slave) = terminal();
        let size = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).unwrap();
        assert!(is_cooked(&master), "a new terminal echoes and edits lines");
        let clone = || Stdio::from(slave.try_clone().unwrap());
        let tool = tool
            .args(["top", "--server", &managed.admin])
            .stdin(clone())
            .stdout(clone())
            .stderr(clone())
            .spawn()
            .unwrap();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let (taken, mut output) = (shown.clone(), master.try_clone().unwrap());
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(received @ 1..) = output.read(&mut piece) {
                taken.lock().unwrap().extend_from_slice(&piece[..received]);
            }
        });
        Self { tool, master, _slave: slave, shown }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    #[track_caller]
    fn wait_for(&self, words: &str) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !self.text().contains(words) {
            assert!(Instant::now() < deadline, "no {words:?} in {:?}", self.text());
            sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the end of the tool, and asserts that the terminal is as it was.
    #[track_caller]
    fn ended(mut self) -> ExitStatus {
        let status = self.tool.wait().unwrap();
        self.wait_for(LEAVE_SCREEN);
        if self.text().contains(HIDE_CURSOR) {
            self.wait_for(SHOW_CURSOR);
        }
        assert!(is_cooked(&self.master), "the terminal stays raw");
        assert!(!self.text().contains("\x1b]"), "the title changed: {:?}", self.text());
        status
    }
}

fn is_cooked(terminal: &File) -> bool {
    let modes = tcgetattr(terminal).unwrap().local_modes;
    modes.contains(LocalModes::ICANON | LocalModes::ECHO)
}

const ENTER_SCREEN: &str = "\x1b[?1049h";
const LEAVE_SCREEN: &str = "\x1b[?1049l";
const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";

#[test]
fn the_terminal_is_restored_after_each_kind_of_end() {
    let managed = Managed::start(&[]);
    managed.store(&[b"\x1b]0;title\x07"]);
    for key in [&b"q"[..], b"\x03"] {
        let mut screen = Screen::start(&managed);
        screen.master.write_all(key).unwrap();
        let status = screen.ended();
        assert_eq!(status.code(), Some(0), "after {key:?}");
    }
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let screen = Screen::start(&managed);
        kill_process(Pid::from_child(&screen.tool), signal).unwrap();
        assert_eq!(screen.ended().signal(), Some(signal.as_raw()));
    }
}

/// The kernel refuses a system call, so that the library that makes the call panics: either in a
/// second thread when the screen is already shown, or while the thread that takes samples waits for
/// a response.
#[test]
fn the_terminal_is_restored_after_a_panic() {
    if Command::new("strace").arg("-V").output().is_err() {
        larder_testkit::skip("strace, which makes system calls fail, is missing");
        return;
    }
    let managed = Managed::start(&[]);
    for (failure, panic, exit_code) in [
        ("?clone,?clone3:error=EAGAIN:when=2+", "failed to spawn thread", 101),
        ("?epoll_wait,?epoll_pwait:error=EBADF:when=20+", "polling the I/O driver", 2),
    ] {
        let mut tool = Command::new("strace");
        tool.args(["-f", "-o", "/dev/null", "-e", &format!("inject={failure}")]);
        tool.arg(env!("CARGO_BIN_EXE_larder"));
        let screen = Screen::open(&managed, tool);
        screen.wait_for(ENTER_SCREEN);
        screen.wait_for(panic);
        let shown = screen.shown.clone();
        assert_eq!(screen.ended().code(), Some(exit_code), "{failure}");
        let shown = String::from_utf8_lossy(&shown.lock().unwrap()).into_owned();
        // A second restore would move the cursor back over the message.
        assert_eq!(shown.matches(LEAVE_SCREEN).count(), 1, "{failure}: {shown:?}");
        let (message, leave) = (shown.find(panic), shown.find(LEAVE_SCREEN));
        assert!(message > leave, "the message lies on the screen that is left: {shown:?}");
    }
}

#[test]
fn a_server_that_ends_is_shown_and_its_successor_too() {
    let managed = Managed::start(&[]);
    let mut screen = Screen::start(&managed);
    let Managed { fixture, admin, folder } = managed;
    fixture.server.stop(Signal::TERM).unwrap();
    screen.wait_for("cannot connect to the admin listener");
    let next = Managed::start_at(admin, folder, &[]);
    screen.wait_for(&format!("{}", next.fixture.server.pid()));
    screen.master.write_all(b"q").unwrap();
    assert_eq!(screen.ended().code(), Some(0));
}

/// A separate tmux server, which ends with the test.
struct Tmux(TempDir);

impl Tmux {
    fn run(&self, args: &[&str]) -> String {
        let socket = self.0.path().join("tmux");
        let output =
            Command::new("tmux").arg("-u").arg("-S").arg(socket).args(args).output().unwrap();
        assert!(output.status.success(), "tmux {args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Waits until the content of the window is as expected.
    #[track_caller]
    fn wait_for(&self, expected: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let shown = self.run(&["capture-pane", "-p"]);
            if expected(&shown) {
                return shown;
            }
            assert!(Instant::now() < deadline, "the window shows\n{shown}");
            sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}

#[test]
fn the_layout_follows_the_size_of_the_terminal() {
    let managed = Managed::start(&[]);
    if Command::new("tmux").arg("-V").output().is_err() {
        return larder_testkit::skip("tmux, whose terminals have any size, is missing");
    }
    let tmux = Tmux(tempfile::tempdir().unwrap());
    let tool = format!("{} top --server {}", env!("CARGO_BIN_EXE_larder"), managed.admin);
    tmux.run(&["-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "40", &tool]);
    let side_by_side = "┌ Connections and workers ─";
    tmux.wait_for(|shown| shown.contains(side_by_side) && shown.contains("┌ Summary ─"));
    tmux.run(&["send-keys", "h"]);
    tmux.wait_for(|shown| shown.contains("┌ Hot keys by bytes ─") && !shown.contains("Summary"));
    tmux.run(&["send-keys", "h"]);
    tmux.run(&["resize-window", "-x", "60", "-y", "40"]);
    let is_below = |line: &str| line.starts_with("┌ Summary ─") && line.ends_with("─┐");
    let narrow = tmux.wait_for(|shown| shown.lines().nth(1).is_some_and(is_below));
    assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
}

//! Tests of the thread with files of a test.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use super::*;

/// A file whose content must be `good` and a number.
#[derive(Clone, Debug, Default)]
struct Number(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    path: PathBuf,
    loaded: Mutex<String>,
    attempts: AtomicUsize,
    failures: AtomicUsize,
}

impl Number {
    fn new(path: PathBuf) -> Self {
        Self(Arc::new(Inner { path, ..Inner::default() }))
    }

    fn wait_for(&self, content: &str) {
        let begun = Instant::now();
        while *self.0.loaded.lock().unwrap() != content {
            assert!(begun.elapsed() < Duration::from_secs(20), "{content} is not loaded");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Reloaded for Number {
    fn name(&self) -> &'static str {
        "numbers"
    }

    fn paths(&self) -> Vec<PathBuf> {
        vec![self.0.path.clone()]
    }

    fn reload(&self, _: Cause) -> Outcome {
        self.0.attempts.fetch_add(1, Relaxed);
        match fs::read_to_string(&self.0.path) {
            Ok(content) if content == *self.0.loaded.lock().unwrap() => Outcome::Unchanged,
            Ok(content) if content.starts_with("good") => {
                self.0.loaded.lock().unwrap().clone_from(&content);
                Outcome::Done(content)
            }
            Ok(content) => Outcome::Failed(content),
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }

    fn note_failure(&self) {
        self.0.failures.fetch_add(1, Relaxed);
    }
}

fn replace(path: &Path, content: &str) {
    let new = path.with_extension("new");
    fs::write(&new, content).unwrap();
    fs::rename(&new, path).unwrap();
}

#[test]
fn each_way_of_changing_a_file_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let version = |name: &str, content: &str| {
        let version = folder.path().join("certs").join(name);
        fs::create_dir_all(&version).unwrap();
        fs::write(version.join("file"), content).unwrap();
    };
    version("..1", "good 1");
    let path = |name: &str| folder.path().join("certs").join(name);
    symlink("..1", path("..data")).unwrap();
    symlink("..data/file", path("file")).unwrap();
    let number = Number::new(path("file"));
    let watcher = Watcher::start(vec![Box::new(number.clone())], Arc::default(), || {}).unwrap();
    number.wait_for("good 1");
    // The swap of kubelet.
    version("..2", "good 2");
    symlink("..2", path("..data_tmp")).unwrap();
    fs::rename(path("..data_tmp"), path("..data")).unwrap();
    fs::remove_dir_all(path("..1")).unwrap();
    number.wait_for("good 2");
    fs::write(path("..2/file"), "good 3").unwrap();
    number.wait_for("good 3");
    replace(&path("..2/file"), "good 4");
    number.wait_for("good 4");
    fs::remove_file(path("file")).unwrap();
    fs::write(path("file"), "good 5").unwrap();
    number.wait_for("good 5");
    fs::rename(path(""), folder.path().join("gone")).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    fs::create_dir(path("")).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    fs::write(path("file"), "good 6").unwrap();
    number.wait_for("good 6");
    assert_eq!(number.0.failures.load(Relaxed), 0, "a gap of moments is not a failure");
    drop(watcher);
}

#[test]
fn a_file_that_stays_unusable_is_one_failure_and_the_content_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "good 1").unwrap();
    let number = Number::new(path.clone());
    let watcher = Watcher::start(vec![Box::new(number.clone())], Arc::default(), || {}).unwrap();
    number.wait_for("good 1");
    fs::write(&path, "bad").unwrap();
    let begun = Instant::now();
    while number.0.failures.load(Relaxed) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "it is not a failure");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(begun.elapsed() > Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(*number.0.loaded.lock().unwrap(), "good 1");
    let attempts = number.0.attempts.load(Relaxed);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(number.0.attempts.load(Relaxed), attempts, "the thread waits for a change");
    replace(&path, "good 2");
    number.wait_for("good 2");
    drop(watcher);
}

#[test]
fn a_request_is_answered_and_a_read_that_hangs_does_not_delay_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "good 1").unwrap();
    let number = Number::new(path.clone());
    let answers = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&answers);
    let answered = move || {
        counted.fetch_add(1, Relaxed);
    };
    let watcher = Watcher::start(vec![Box::new(number.clone())], Arc::default(), answered).unwrap();
    number.wait_for("good 1");
    watcher.ask();
    let begun = Instant::now();
    while answers.load(Relaxed) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "no answer");
        std::thread::sleep(Duration::from_millis(5));
    }
    // To open a pipe without a writer takes forever.
    fs::remove_file(&path).unwrap();
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRUSR).unwrap();
    watcher.ask();
    std::thread::sleep(Duration::from_millis(500));
    assert!(watcher.shared.reading_since_us.load(Relaxed) > 0, "it reads");
    let begun = Instant::now();
    drop(watcher);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[test]
fn without_events_a_look_notices_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "good 1").unwrap();
    let number = Number::new(path.clone());
    let shared = Arc::new(Shared::new(Arc::default()).unwrap());
    let things: Vec<Box<dyn Reloaded>> = vec![Box::new(number.clone())];
    let mut thread = Thread::new(things, None, Arc::clone(&shared), Box::new(|| {}));
    thread.next_look = Instant::now() + Duration::from_secs(1);
    let running = std::thread::spawn(move || thread.run());
    number.wait_for("good 1");
    fs::write(&path, "good 2").unwrap();
    number.wait_for("good 2");
    shared.is_over.store(true, Relaxed);
    shared.waker.wake();
    running.join().unwrap();
}

//! Tests of when changed files are read.

use std::{fs, thread};

use larder_options::Options;
use rustls::server::ProducesTickets;
use tempfile::TempDir;

use super::*;

/// The files of a server.
struct Files {
    folder: TempDir,
}

impl Files {
    fn new() -> Self {
        let files = Self { folder: tempfile::tempdir().unwrap() };
        files.write();
        files
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Writes a new self-signed certificate.
    fn write(&self) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        fs::write(self.path("chain"), made.cert.pem()).unwrap();
        fs::write(self.path("key"), made.signing_key.serialize_pem()).unwrap();
    }

    fn load(&self) -> Certificates {
        fs::copy(self.path("chain"), self.path("ca")).unwrap();
        let (chain, key, ca) = (self.path("chain"), self.path("key"), self.path("ca"));
        let map = [
            ("enable_ssl", "true"),
            ("ssl_chain_cert", &*chain),
            ("ssl_key", &*key),
            ("ssl_ca_cert", &*ca),
            ("ssl_session_cache", "true"),
        ];
        let (options, _) = Options::from_map(map).unwrap();
        Certificates::load(&options.tls.unwrap()).unwrap()
    }
}

/// Refreshes until another change of the files would be visible in their stamps. Returns how many
/// refreshes read the files.
fn settle(certificates: &Certificates) -> usize {
    let begun = Instant::now();
    let mut readings = 0;
    while let RefreshResult::Read(_) = certificates.refresh(Refresh::IfStampsChanged) {
        readings += 1;
        assert!(begun.elapsed() < Duration::from_secs(30), "the files are read again and again");
        thread::sleep(Duration::from_millis(10));
    }
    readings
}

#[test]
fn files_are_read_again_only_if_they_have_changed() {
    let files = Files::new();
    let certificates = files.load();
    // The files are new, so another change might not be visible.
    assert!(settle(&certificates) > 0);
    for _ in 0..1000 {
        assert_eq!(certificates.refresh(Refresh::IfStampsChanged), RefreshResult::Unchanged(true));
    }
    assert_eq!(certificates.refresh(Refresh::Always), RefreshResult::Read(Ok(())));
    files.write();
    assert_eq!(certificates.refresh(Refresh::IfStampsChanged), RefreshResult::Read(Ok(())));
    fs::write(files.path("chain"), "no certificate").unwrap();
    let RefreshResult::Read(Err(error)) = certificates.refresh(Refresh::IfStampsChanged) else {
        panic!("it is read")
    };
    assert!(error.contains("chain"), "{error}");
    settle(&certificates);
    // The files are still wrong.
    assert_eq!(certificates.refresh(Refresh::IfStampsChanged), RefreshResult::Unchanged(false));
    fs::remove_file(files.path("chain")).unwrap();
    assert!(matches!(certificates.refresh(Refresh::IfStampsChanged), RefreshResult::Read(Err(_))));
    files.write();
    assert_eq!(certificates.refresh(Refresh::IfStampsChanged), RefreshResult::Read(Ok(())));
}

#[test]
fn ticket_keys_stay_unless_the_authorities_for_clients_change() {
    let files = Files::new();
    let certificates = files.load();
    let kinds =
        [ClientCertificates::None, ClientCertificates::Requested, ClientCertificates::Required];
    let tickets = || kinds.map(|asked| certificates.config(asked).unwrap().ticketer.clone());
    let same = |before: &[Arc<dyn ProducesTickets>; 3], after: [Arc<dyn ProducesTickets>; 3]| {
        [0, 1, 2].map(|at| Arc::ptr_eq(&before[at], &after[at]))
    };
    let before = tickets();
    files.write();
    assert_eq!(certificates.refresh(Refresh::IfStampsChanged), RefreshResult::Read(Ok(())));
    assert_eq!(same(&before, tickets()), [true; 3]);
    // A client admitted by a removed authority must show its certificate again.
    fs::copy(files.path("chain"), files.path("ca")).unwrap();
    assert_eq!(certificates.refresh(Refresh::IfStampsChanged), RefreshResult::Read(Ok(())));
    assert_eq!(same(&before, tickets()), [true, false, false]);
    let [_, requested, required] = tickets();
    assert!(!Arc::ptr_eq(&requested, &required));
}

#[test]
fn the_expiry_is_that_of_the_servers_own_certificate() {
    let files = Files::new();
    let certificate = |year: i32, key: &rcgen::KeyPair| {
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 5, 6);
        params.self_signed(key).unwrap().pem()
    };
    let key = rcgen::KeyPair::generate().unwrap();
    let other = certificate(2030, &rcgen::KeyPair::generate().unwrap());
    fs::write(files.path("key"), key.serialize_pem()).unwrap();
    fs::write(files.path("chain"), certificate(2031, &key) + &other).unwrap();
    let certificates = files.load();
    assert_eq!(certificates.expiry_secs(), Some(1_935_792_000));
    fs::write(files.path("chain"), certificate(2032, &key) + &other).unwrap();
    assert_eq!(certificates.refresh(Refresh::Always), RefreshResult::Read(Ok(())));
    assert_eq!(certificates.expiry_secs(), Some(1_935_792_000 + 366 * 86_400));
}

#[test]
fn certificates_that_are_not_valid_now_are_not_taken_up() {
    let files = Files::new();
    let key = rcgen::KeyPair::generate().unwrap();
    let write = |from: i32, to: i32| {
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(from, 5, 6);
        params.not_after = rcgen::date_time_ymd(to, 5, 6);
        fs::write(files.path("chain"), params.self_signed(&key).unwrap().pem()).unwrap();
        fs::write(files.path("key"), key.serialize_pem()).unwrap();
    };
    write(2000, 2001);
    let certificates = files.load();
    let warning = certificates.warning().expect("a start warns");
    assert!(warning.contains("has expired at 2001-05-06T00:00:00Z"), "{warning}");
    let refused = |from: i32, to: i32, words: &str| {
        write(from, to);
        for _ in 0..2 {
            let result = certificates.refresh(Refresh::IfContentsChanged);
            let RefreshResult::Read(Err(error)) = result else { panic!("{result:?}") };
            assert!(error.contains(words), "{error}");
        }
    };
    refused(2001, 2002, "has expired at 2002-05-06T00:00:00Z");
    refused(9000, 9001, "is not valid before 9000-05-06T00:00:00Z");
    assert_eq!(certificates.expiry_secs(), Some(989_107_200), "the first stays");
    write(2000, 9001);
    assert_eq!(certificates.refresh(Refresh::IfContentsChanged), RefreshResult::Read(Ok(())));
    assert_eq!(certificates.warning(), None);
    let unchanged = RefreshResult::Unchanged(true);
    assert_eq!(certificates.refresh(Refresh::IfContentsChanged), unchanged);
}

#[test]
fn the_end_of_a_certificate_is_announced_seven_days_before() {
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2030, 1, 1);
    params.not_after = rcgen::date_time_ymd(2030, 3, 1);
    let made = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
    let validity = Validity::of(made.der()).unwrap();
    let at = |secs_before_the_end: u64| {
        let ends = 1_898_553_600;
        validity.at(SystemTime::UNIX_EPOCH + Duration::from_secs(ends - secs_before_the_end))
    };
    const DAY: u64 = 86_400;
    assert_eq!(at(60 * DAY), State::NotYetValid);
    assert_eq!(at(7 * DAY), State::Valid);
    assert_eq!(at(7 * DAY - 1), State::EndsSoon { days_left: 6 });
    assert_eq!(at(0), State::EndsSoon { days_left: 0 });
}

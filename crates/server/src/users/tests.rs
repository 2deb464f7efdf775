//! Tests of users, their logins and their rights.

use std::fs::write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use argon2::password_hash::PasswordHasher;
use argon2::{Algorithm, Argon2, Params, Version};
use larder_protocol::{Denial, Permission, Response, Right, Scope};

use super::grant::Grant;
use super::login::Origin;
use super::user::{Tally, User};
use super::{LoginResult, Users};
use crate::waker::Waker;

/// Returns a hash of the password `sesame` that takes little memory.
fn sesame() -> String {
    let params = Params::new(64, 1, 1, None).unwrap();
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon2.hash_password_with_salt(b"sesame", b"larder's salt").unwrap().to_string()
}

impl Users {
    /// Returns users of a file with this text.
    pub(crate) fn of_text(text: &str) -> (tempfile::NamedTempFile, Self) {
        let file = tempfile::NamedTempFile::new().unwrap();
        write(file.path(), text).unwrap();
        let users = Self::open(file.path().to_owned()).unwrap();
        (file, users)
    }

    /// Begins a login.
    fn begin(&self, name: &str, password: &str) -> LoginResult {
        let waker = Arc::new(Waker::new().unwrap());
        self.login(name.as_bytes(), password.as_bytes(), Origin::default(), Some(&waker))
    }

    /// Logs in, and waits for the verification.
    fn log_in(&self, name: &str, password: &str) -> Option<Arc<User>> {
        let pending = match self.begin(name, password) {
            LoginResult::Admitted(user) => return Some(user),
            LoginResult::Busy => panic!("too many logins"),
            LoginResult::Pending(pending) => pending,
        };
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            match pending.result() {
                Some(outcome) => return outcome,
                None if Instant::now() > until => panic!("{name}: the login is not verified"),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

fn key(right: Right, key: &[u8]) -> Permission<'_> {
    Permission { right: Some(right), scope: Scope::Key(key) }
}

#[test]
fn only_the_right_password_logs_in() {
    let text = format!(
        "users = [ {{ name = \"hashed\", hash = \"{}\" }}, \
         {{ name = \"plain\", password = \"sesame\" }}, {{ name = \"certificate\" }} ]",
        sesame()
    );
    let (_file, users) = Users::of_text(&text);
    for (name, password, is_right) in [
        ("hashed", "sesame", true),
        ("hashed", "sesame!", false),
        ("hashed", "", false),
        ("plain", "sesame", true),
        ("plain", "sesam", false),
        ("certificate", "", false),
        ("certificate", "sesame", false),
        ("missing", "sesame", false),
        ("", "", false),
    ] {
        let user = users.log_in(name, password);
        assert_eq!(user.is_some(), is_right, "{name:?} {password:?}");
        if let Some(user) = user {
            assert_eq!(user.name(), name);
        }
    }
}

#[test]
fn a_verified_password_is_remembered_also_after_a_reload() {
    let text = format!("users = [ {{ name = \"a\", hash = \"{}\" }} ]", sesame());
    let (file, users) = Users::of_text(&text);
    assert!(matches!(users.begin("a", "sesame"), LoginResult::Pending(_)));
    users.log_in("a", "sesame").unwrap();
    assert!(matches!(users.begin("a", "sesame"), LoginResult::Admitted(_)));
    assert!(matches!(users.begin("a", "another"), LoginResult::Pending(_)));
    write(file.path(), format!("{text} # changed")).unwrap();
    assert_eq!(users.reload(true).unwrap(), Some(1));
    assert_eq!(users.reload(true).unwrap(), None, "nothing has changed");
    assert_eq!(users.reload(false).unwrap(), Some(1));
    assert!(matches!(users.begin("a", "sesame"), LoginResult::Admitted(_)));
}

#[test]
fn rights_and_prefixes_limit_a_user() {
    let (_file, users) = Users::of_text(
        "users = [ { name = \"none\" }, { name = \"reader\", rights = \"read\" }, \
         { name = \"shop\", rights = \"write\", prefixes = [\"shop:\", \"s\u{e9}\"] }, \
         { name = \"root\", rights = \"admin\" } ]",
    );
    let of = |name: &str| users.all().into_iter().find(|user| user.name() == name).unwrap();
    let denial = |name: &str, needed: Permission<'_>| of(name).denial(&needed, Right::Admin);
    let all = |right| Permission { right: Some(right), scope: Scope::AllItems };
    let prefix = |text: &'static str, base64| Permission {
        right: Some(Right::Write),
        scope: Scope::Prefix { text: text.as_bytes(), base64 },
    };
    let nothing = Permission { right: None, scope: Scope::Nothing };
    for (name, needed, expected) in [
        ("none", nothing, None),
        ("none", key(Right::Read, b"k"), Some(Denial::Right(Right::Read))),
        ("reader", key(Right::Read, b"k"), None),
        ("reader", key(Right::Write, b"k"), Some(Denial::Right(Right::Write))),
        ("reader", all(Right::Read), None),
        ("shop", key(Right::Write, b"shop:1"), None),
        ("shop", key(Right::Read, "s\u{e9}1".as_bytes()), None),
        ("shop", key(Right::Write, b"shop"), Some(Denial::ForeignKey)),
        ("shop", key(Right::Read, b"s"), Some(Denial::ForeignKey)),
        ("shop", prefix("shop:a", false), None),
        ("shop", prefix("c2hvcDph", true), None),
        ("shop", prefix("c2hvcDph", false), Some(Denial::ForeignKey)),
        ("shop", prefix("shop:a", true), Some(Denial::ForeignKey)),
        ("shop", all(Right::Read), Some(Denial::AllItems)),
        ("shop", all(Right::Admin), Some(Denial::Right(Right::Admin))),
        ("root", all(Right::Admin), None),
    ] {
        assert_eq!(denial(name, needed), expected, "{name}: {needed:?}");
    }
    let readonly = of("root").denial(&key(Right::Write, b"k"), Right::Read);
    assert_eq!(readonly, Some(Denial::ReadOnlyListener));
}

#[test]
fn a_grant_ends_with_its_user_and_follows_changed_rights() {
    let of = |password: &str, rights: &str| {
        format!("users = [ {{ name = \"a\", password = \"{password}\", rights = \"{rights}\" }} ]")
    };
    let (file, users) = Users::of_text(&of("sesame", "read"));
    let users = Arc::new(users);
    let user = users.log_in("a", "sesame").unwrap();
    let mut grant = Grant::of(&users, Arc::clone(&user), Right::Admin);
    let writes = key(Right::Write, b"k");
    assert!(grant.renew() && !grant.permits(&writes));
    assert_eq!(user.tally(Tally::Connections), 1);

    write(file.path(), of("sesame", "write")).unwrap();
    users.reload(true).unwrap();
    assert!(grant.renew() && grant.permits(&writes), "the user has more rights");
    assert_eq!(users.all()[0].tally(Tally::Connections), 1);

    write(file.path(), "users = [").unwrap();
    users.reload(true).unwrap_err();
    assert!(grant.renew() && grant.permits(&writes), "half of a file changes nothing");

    write(file.path(), of("another", "write")).unwrap();
    users.reload(true).unwrap();
    assert!(!grant.renew(), "the password has changed");
    assert!(!grant.renew());

    let user = users.log_in("a", "another").unwrap();
    let mut grant = Grant::of(&users, user, Right::Admin);
    write(file.path(), "users = [ { name = \"b\" } ]").unwrap();
    users.reload(true).unwrap();
    assert!(!grant.renew(), "the user is gone");
}

/// A login is verified while the file is replaced: the grant must not keep the old user.
#[test]
fn a_grant_of_a_user_of_an_older_file_is_renewed() {
    let (file, users) = Users::of_text("users = [ { name = \"a\", password = \"sesame\" } ]");
    let users = Arc::new(users);
    let user = users.log_in("a", "sesame").unwrap();
    write(file.path(), "users = [ { name = \"b\" } ]").unwrap();
    users.reload(true).unwrap();
    assert!(!Grant::of(&users, user, Right::Admin).renew());
}

#[test]
fn the_rate_is_shared_by_all_connections_of_a_user() {
    use larder_protocol::{Command, ServerError};
    let (_file, users) = Users::of_text(
        "users = [ { name = \"a\", password = \"s\", rights = \"read\", rate = 5 } ]",
    );
    let users = Arc::new(users);
    let user = users.log_in("a", "s").unwrap();
    let grants = [0, 1].map(|_| Grant::of(&users, Arc::clone(&user), Right::Admin));
    let get = Command::Get { key: b"k", with_cas: false, exptime: None };
    let refused: Vec<_> = (0..10).filter_map(|at| grants[at % 2].judge(&get)).collect();
    assert!((4..=5).contains(&refused.len()), "{refused:?}");
    assert!(refused.iter().all(|refusal| *refusal == Response::from(ServerError::RateLimit)));
    assert_eq!(user.tally(Tally::Limited), refused.len() as u64);
}

#[test]
fn certificates_and_tokens_find_their_users() {
    let token = "0123456789-0123456789-0123456789";
    let (_file, users) = Users::of_text(&format!(
        "users = [ {{ name = \"spiffe://example.org/web\" }}, {{ name = \"b\", token = \"{token}\" }} ]"
    ));
    let named = users.of_certificate(["web.example", "spiffe://example.org/web"]).unwrap();
    assert_eq!(named.name(), "spiffe://example.org/web");
    assert!(users.of_certificate(["web.example"]).is_none());
    assert_eq!(users.of_token(token.as_bytes()).unwrap().name(), "b");
    assert!(users.of_token(&token.as_bytes()[1..]).is_none());
}

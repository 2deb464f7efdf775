//! Metrics of the users with the most refusals, with `--user-metrics`.

use std::cmp::Reverse;
use std::sync::Arc;

use super::family::{Kind, Page};
use crate::users::Users;
use crate::users::user::{Tally, User};

/// Appends a family for each kind of refusal, with a sample for each of the users with the most
/// refusals. A user without any has no sample. A counter of a user never decreases, also if the
/// user was not among them in the meantime.
pub(super) fn show(users: &Users, page: &mut Page) {
    let users = most_refused(users.all());
    for (name, help, tally) in FAMILIES {
        let samples = users
            .iter()
            .map(|user| (vec![("user", user.name().to_owned())], user.tally(tally).to_string()));
        page.family(name, Kind::Counter, help, &samples.collect::<Vec<_>>());
    }
}

fn most_refused(users: Vec<Arc<User>>) -> Vec<Arc<User>> {
    let refusals = |user: &User| FAMILIES.iter().map(|(.., tally)| user.tally(*tally)).sum::<u64>();
    // The numbers may grow during the sort.
    let mut users: Vec<_> = users.into_iter().map(|user| (refusals(&user), user)).collect();
    users.retain(|(refusals, _)| *refusals > 0);
    users.sort_by_key(|(refusals, _)| Reverse(*refusals));
    users.truncate(USERS_MAX);
    users.into_iter().map(|(_, user)| user).collect()
}

/// The name and help of each family, and its value for a user.
const FAMILIES: [(&str, &str, Tally); 3] = [
    (
        "larder_user_not_permitted_total",
        "Commands refused because of the rights of a user, for the 50 users with most refusals.",
        Tally::Denied,
    ),
    (
        "larder_user_rate_limited_total",
        "Commands refused because a user exceeded its rate, for these users.",
        Tally::Limited,
    ),
    (
        "larder_user_failed_logins_total",
        "Logins with a wrong password, for these users.",
        Tally::FailedLogins,
    ),
];

/// How many users have samples.
const USERS_MAX: usize = 50;

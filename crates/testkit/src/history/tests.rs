//! Minimal histories: each breaks one promise, or is valid although it looks odd.

use super::{Did, Event, History, Place, Promise, Resting, Shown, Version};

const ORIGIN: usize = 0;
const A: usize = 1;
const B: usize = 2;
const MS: u64 = 1_000_000;
const MAX_STALE: u64 = 100;

/// A history of one key at the origin and two near caches. Times are milliseconds.
struct Scene(History);

fn shown(write: u64, cas: u64) -> Shown {
    Shown { version: Version::of(write), cas: (cas > 0).then_some(cas) }
}

fn count(write: u64, count: u64) -> Shown {
    Shown { version: Version { write, count }, cas: None }
}

impl Scene {
    fn new() -> Self {
        let place = |(name, max_stale): (&str, u64)| Place {
            name: name.to_owned(),
            max_stale: max_stale * MS,
        };
        let places = [("the origin", 0), ("near cache A", MAX_STALE), ("near cache B", MAX_STALE)];
        Self(History {
            places: places.map(place).into(),
            keys: vec!["key".to_owned()],
            ..History::default()
        })
    }

    fn event(mut self, place: usize, times: [u64; 2], did: Did) -> Self {
        let [begun, answered] = times.map(|time| time * MS);
        let name = "command";
        self.0.events.push(Event { client: place, place, key: 0, name, begun, answered, did });
        self
    }

    fn set(self, place: usize, times: [u64; 2], shown: Shown) -> Self {
        self.event(place, times, Did::Wrote(shown))
    }

    fn get(self, place: usize, times: [u64; 2], shown: Shown) -> Self {
        self.event(place, times, Did::Read(Some(shown)))
    }

    fn miss(self, place: usize, times: [u64; 2]) -> Self {
        self.event(place, times, Did::Read(None))
    }

    fn delete(self, place: usize, times: [u64; 2]) -> Self {
        self.event(place, times, Did::Removed)
    }

    fn rest(mut self, there: Option<Shown>, origin: Option<Shown>) -> Self {
        self.0.resting.push(Resting { place: A, key: 0, there, origin });
        self
    }

    #[track_caller]
    fn passes(self) {
        let found = self.0.judge();
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    /// Asserts that the only violation is of this promise, and that its explanation contains this
    /// text.
    #[track_caller]
    fn breaks(self, promise: Promise, explanation: &str) {
        let found = self.0.judge();
        let text: Vec<String> = found.iter().map(ToString::to_string).collect();
        let text = text.join("\n");
        assert_eq!(found.len(), 1, "{text}");
        assert_eq!(found[0].promise, promise, "{text}");
        assert!(text.contains(explanation), "{text}");
    }
}

#[test]
fn a_read_may_return_the_old_value_until_it_is_stale() {
    let scene = || Scene::new().set(ORIGIN, [1, 2], shown(1, 1)).set(ORIGIN, [3, 4], shown(2, 2));
    scene().get(A, [50, 51], shown(1, 1)).get(A, [104, 105], shown(1, 1)).passes();
    scene()
        .get(A, [105, 106], shown(1, 1))
        .breaks(Promise::Bounded, "earlier  3.000000 to 4.000000 ms: client 0 at the origin");
}

#[test]
fn a_read_never_returns_less_than_the_last_one() {
    let scene = || Scene::new().set(ORIGIN, [1, 2], shown(1, 1)).set(ORIGIN, [3, 4], shown(2, 2));
    let scene = || scene().get(A, [5, 6], shown(2, 2));
    scene().get(A, [6, 8], shown(1, 1)).passes();
    scene().get(B, [7, 8], shown(1, 1)).passes();
    scene()
        .get(A, [7, 8], shown(1, 1))
        .breaks(Promise::NeverBack, "the read 7.000000 to 8.000000 ms: client 1 at near cache A");
}

#[test]
fn a_read_never_returns_less_than_a_write_through_its_place() {
    let scene = || Scene::new().set(A, [1, 2], shown(1, 0)).set(A, [3, 9], shown(2, 0));
    scene().get(A, [5, 6], shown(2, 0)).get(A, [7, 8], shown(2, 0)).passes();
    scene().get(A, [5, 6], shown(1, 0)).passes();
    scene().get(A, [10, 11], shown(1, 0)).breaks(Promise::NeverBack, "stored v2");
    scene().get(B, [10, 11], shown(1, 0)).passes();
}

#[test]
fn tokens_order_concurrent_writes() {
    let scene = || Scene::new().set(A, [1, 9], shown(1, 7)).set(B, [1, 9], shown(2, 5));
    let ordered = || scene().get(A, [10, 11], shown(1, 7));
    ordered().get(A, [12, 13], shown(1, 7)).passes();
    ordered().get(B, [12, 13], shown(2, 5)).passes();
    ordered()
        .get(A, [12, 13], shown(2, 5))
        .breaks(Promise::NeverBack, "token 5 is older than 7: nothing can have removed the item");
    ordered().get(B, [120, 121], shown(2, 5)).breaks(Promise::Bounded, "token 5 is older than 7");
    // Without a token in the answer, an answer to another command has it.
    ordered().get(A, [12, 13], shown(2, 0)).breaks(Promise::NeverBack, "token 5 is older than 7");
}

#[test]
fn a_removal_may_explain_a_lower_token() {
    let scene = || {
        let scene = Scene::new().set(ORIGIN, [1, 9], shown(1, 7)).set(B, [1, 9], shown(2, 5));
        scene.get(A, [10, 11], shown(1, 7)).get(A, [12, 13], shown(2, 5))
    };
    scene().delete(B, [2, 3]).passes();
    scene().event(B, [2, 3000], Did::MayHaveRemoved).passes();
    // These removals were executed before both writes, or after both.
    let writes = || Scene::new().set(ORIGIN, [3, 9], shown(1, 7)).set(B, [3, 9], shown(2, 5));
    let writes = || writes().get(A, [10, 11], shown(1, 7)).get(A, [12, 13], shown(2, 5));
    writes().delete(ORIGIN, [1, 2]).breaks(Promise::NeverBack, "token 5 is older than 7");
    writes().delete(B, [14, 15]).breaks(Promise::NeverBack, "token 5 is older than 7");
}

#[test]
fn tokens_begin_again_after_a_restart() {
    Scene::new()
        .set(ORIGIN, [1, 2], shown(1, 1000))
        .get(A, [3, 4], shown(1, 1000))
        .delete(ORIGIN, [5, 15])
        .set(ORIGIN, [14, 16], shown(2, 3))
        .get(A, [17, 18], shown(1, 1000))
        .get(A, [19, 20], shown(2, 3))
        .passes();
    Scene::new()
        .set(ORIGIN, [1, 2], shown(1, 1000))
        .delete(ORIGIN, [5, 15])
        .set(ORIGIN, [16, 17], shown(2, 3))
        .get(A, [19, 20], shown(2, 3))
        .get(A, [21, 22], shown(1, 1000))
        .breaks(Promise::NeverBack, "the older item was stored before 2.000000 ms");
}

#[test]
fn an_origin_that_lost_everything_is_stale_for_a_bounded_time() {
    let scene = || Scene::new().set(ORIGIN, [1, 2], shown(1, 1)).delete(ORIGIN, [5, 15]);
    scene().get(A, [115, 116], shown(1, 1)).passes();
    scene().get(A, [116, 117], shown(1, 1)).breaks(Promise::Bounded, "removed the item");
}

#[test]
fn a_miss_needs_a_removal() {
    Scene::new().miss(A, [1, 2]).set(ORIGIN, [3, 4], shown(1, 1)).miss(A, [5, 6]).passes();
    let scene = || Scene::new().set(ORIGIN, [1, 2], shown(1, 1));
    scene().miss(A, [102, 103]).passes();
    scene().miss(A, [103, 104]).breaks(Promise::Bounded, "no command can have removed the item");
    let seen = || scene().get(A, [3, 4], shown(1, 1)).miss(A, [5, 6]);
    seen().breaks(Promise::NeverBack, "answered no item");
    seen().delete(ORIGIN, [6, 7]).breaks(Promise::NeverBack, "no command can have removed");
    seen().delete(ORIGIN, [5, 7]).passes();
    seen().event(B, [2, 10_000], Did::MayHaveRemoved).passes();
}

#[test]
fn a_removal_that_was_over_explains_no_miss() {
    let scene = || Scene::new().set(ORIGIN, [1, 2], shown(1, 1)).delete(ORIGIN, [3, 4]);
    let scene = || scene().set(A, [5, 6], shown(2, 2));
    scene().miss(A, [5, 8]).passes();
    scene().miss(A, [7, 8]).breaks(Promise::NeverBack, "stored v2");
    scene().miss(B, [7, 8]).passes();
    scene().miss(B, [107, 108]).breaks(Promise::Bounded, "stored v2");
}

#[test]
fn a_read_after_a_miss_returns_something_newer() {
    let scene = || Scene::new().set(ORIGIN, [1, 2], shown(1, 1)).get(A, [3, 4], shown(1, 1));
    let scene = || scene().delete(ORIGIN, [5, 6]).miss(A, [7, 8]);
    scene().get(A, [7, 9], shown(1, 1)).passes();
    scene().get(B, [9, 10], shown(1, 1)).passes();
    scene().get(A, [9, 10], shown(1, 1)).breaks(Promise::NeverBack, "answered no item");
    scene().set(B, [5, 6], shown(2, 1)).get(A, [9, 10], shown(2, 1)).passes();
    // The miss may show the absence before the first write.
    let early = Scene::new().set(ORIGIN, [1, 2], shown(1, 1)).delete(ORIGIN, [5, 6]);
    early.miss(A, [7, 8]).get(A, [9, 10], shown(1, 1)).passes();
}

#[test]
fn a_removal_through_a_place_is_seen_there() {
    let scene = || Scene::new().set(ORIGIN, [1, 2], shown(1, 1)).delete(A, [3, 4]);
    scene().get(B, [5, 6], shown(1, 1)).passes();
    scene().get(A, [5, 6], shown(1, 1)).breaks(Promise::NeverBack, "removed the item");
    scene().get(B, [105, 106], shown(1, 1)).breaks(Promise::Bounded, "removed the item");
}

#[test]
fn a_write_without_an_answer_takes_effect_late_or_never() {
    let lost = Did::MayHaveWritten(Version::of(2));
    let scene = || Scene::new().set(ORIGIN, [1, 2], shown(1, 1)).event(A, [3, 4], lost);
    scene().get(A, [500, 501], shown(1, 1)).get(A, [900, 901], shown(2, 2)).passes();
    scene().set(ORIGIN, [5, 6], shown(3, 2)).get(A, [900, 901], shown(2, 3)).passes();
    scene()
        .get(A, [10, 11], shown(2, 2))
        .get(A, [12, 13], shown(1, 1))
        .breaks(Promise::NeverBack, "has no answer, may have stored v2");
    // It was stored before its first answer, so a write after that is newer.
    scene()
        .get(B, [10, 11], shown(2, 2))
        .set(ORIGIN, [12, 13], shown(3, 3))
        .get(A, [114, 115], shown(2, 2))
        .breaks(Promise::Bounded, "first shown 10.000000 to 11.000000 ms");
}

#[test]
fn lower_counts_are_older() {
    let scene = || {
        let scene = Scene::new().set(ORIGIN, [1, 2], count(1, 0));
        scene.set(ORIGIN, [3, 9], count(1, 2)).set(B, [3, 9], count(1, 1))
    };
    scene().get(A, [4, 5], count(1, 1)).get(A, [6, 7], count(1, 2)).passes();
    scene()
        .get(A, [4, 5], count(1, 2))
        .get(A, [6, 7], count(1, 1))
        .breaks(Promise::NeverBack, "a lower count is older");
    let lost = scene().event(A, [3, 4], Did::MayHaveCounted);
    lost.get(A, [900, 901], count(1, 3)).passes();
    scene().get(A, [10, 11], count(1, 3)).breaks(Promise::Written, "v1+3");
}

#[test]
fn the_origin_is_a_register() {
    let scene = || Scene::new().set(A, [1, 4], shown(1, 1)).set(B, [2, 5], shown(2, 2));
    scene().get(ORIGIN, [3, 4], shown(1, 1)).get(ORIGIN, [5, 6], shown(2, 2)).passes();
    scene().get(ORIGIN, [6, 7], shown(1, 1)).breaks(Promise::Bounded, "token 1 is older than 2");
}

#[test]
fn an_answer_shows_only_values_of_its_key() {
    Scene::new().get(A, [1, 2], shown(1, 1)).breaks(Promise::Written, "answered v1 (token 1)");
    let early = Scene::new().get(A, [1, 2], shown(1, 1)).set(A, [3, 4], shown(1, 1));
    early.breaks(Promise::Written, "1.000000 to 2.000000 ms");
}

#[test]
fn a_write_that_is_repeated_is_found() {
    let lost = Did::MayHaveWritten(Version::of(1));
    Scene::new()
        .event(A, [1, 2], lost)
        .get(A, [3, 4], shown(1, 5))
        .set(B, [5, 6], shown(2, 6))
        .get(A, [7, 8], shown(2, 6))
        .get(B, [9, 10], shown(1, 7))
        .0
        .judge()
        .iter()
        .find(|violation| violation.promise == Promise::Once)
        .expect("the write was executed twice");
}

#[test]
fn a_copy_at_rest_is_current() {
    let scene = || Scene::new().set(ORIGIN, [1, 2], shown(1, 1));
    scene().rest(Some(shown(1, 1)), Some(shown(1, 1))).passes();
    scene().rest(Some(shown(1, 0)), Some(shown(1, 1))).passes();
    scene().rest(None, None).passes();
    scene().rest(Some(shown(1, 1)), None).breaks(Promise::AtRest, "the origin has no item");
    scene().rest(None, Some(shown(1, 1))).breaks(Promise::AtRest, "the answer is no item");
    scene()
        .rest(Some(shown(1, 1)), Some(shown(2, 2)))
        .breaks(Promise::AtRest, "the origin has v2 (token 2)");
    scene()
        .rest(Some(shown(1, 1)), Some(shown(1, 2)))
        .breaks(Promise::AtRest, "the answer is v1 (token 1)");
}

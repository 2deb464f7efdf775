use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use serde::Deserialize;

use super::*;
use crate::api::load::HASH_START;

fn shape<V: DeserializeOwned>() -> u64 {
    hash_of::<V>(HASH_START)
}

/// Declares types with the same name, each in a module, and returns their shapes.
macro_rules! shapes_of_user {
    ($($body:tt)*) => {
        [$({
            #[derive(Deserialize)]
            #[allow(dead_code, reason = "only the shape is used")]
            struct User $body
            shape::<User>()
        }),*]
    };
}

#[test]
fn the_hash_of_a_type_never_changes() {
    let [user] = shapes_of_user!({ name: String, visits: u32, tags: Vec<Option<u8>> });
    assert_eq!(user, 11_188_616_604_604_746_698);
}

#[test]
fn a_change_of_a_struct_changes_its_shape() {
    let mut shapes = shapes_of_user!(
        { name: String, visits: u32 }
        { name: String, visits: u64 }
        { visits: u32, name: String }
        { name: String, visit: u32 }
        { name: String, visits: u32, age: u8 }
        { name: Option<String>, visits: u32 }
        { name: Vec<String>, visits: u32 }
        { name: [String; 2], visits: u32 }
        { name: BTreeMap<u8, String>, visits: u32 }
        { name: (String,), visits: u32 }
        { name: String, visits: Option<u32> }
        { name: String, visits: Vec<Vec<u32>> }
        { name: String, visits: Vec<Vec<u64>> }
    )
    .to_vec();
    let count = shapes.len();
    shapes.sort_unstable();
    shapes.dedup();
    assert_eq!(shapes.len(), count);
}

#[test]
fn types_with_the_same_encoding_and_other_names_have_other_shapes() {
    #[derive(Deserialize)]
    #[allow(dead_code, reason = "only the shape is used")]
    struct Celsius(f64);
    #[derive(Deserialize)]
    #[allow(dead_code, reason = "only the shape is used")]
    struct Fahrenheit(f64);
    assert_ne!(shape::<Celsius>(), shape::<Fahrenheit>());
    assert_ne!(shape::<Celsius>(), shape::<f64>());
    assert_eq!(shape::<HashMap<String, u8>>(), shape::<BTreeMap<String, u8>>());
}

macro_rules! shapes_of_event {
    ($($body:tt)*) => {
        [$({
            #[derive(Deserialize)]
            #[allow(dead_code, reason = "only the shape is used")]
            enum Event $body
            shape::<Event>()
        }),*]
    };
}

#[test]
fn a_change_of_any_variant_changes_the_shape() {
    let mut shapes = shapes_of_event!(
        { Login, Logout { secs: u32 }, Moved(u8, u8) }
        { Login, Logout { secs: u64 }, Moved(u8, u8) }
        { Login, Logout { secs: u32 }, Moved(u8, u16) }
        { Logout { secs: u32 }, Login, Moved(u8, u8) }
        { Login, Logout { secs: u32 }, Moved(u8, u8), Other }
        { Login(u8), Logout { secs: u32 }, Moved(u8, u8) }
        { Login, Logout { seconds: u32 }, Moved(u8, u8) }
    )
    .to_vec();
    let count = shapes.len();
    shapes.sort_unstable();
    shapes.dedup();
    assert_eq!(shapes.len(), count);
}

#[test]
fn the_variants_of_an_enum_in_a_variant_are_found() {
    macro_rules! nested {
        ($last:ty) => {{
            #[derive(Deserialize)]
            #[allow(dead_code, reason = "only the shape is used")]
            enum Inner {
                A,
                B,
                C($last),
            }
            #[derive(Deserialize)]
            #[allow(dead_code, reason = "only the shape is used")]
            enum Outer {
                Nothing,
                Something(Inner),
            }
            shape::<Vec<Outer>>()
        }};
    }
    assert_ne!(nested!(u8), nested!(u16));
}

#[test]
fn types_that_contain_themselves_have_a_shape() {
    #[derive(Deserialize)]
    #[allow(dead_code, reason = "only the shape is used")]
    struct Tree {
        children: Vec<Self>,
        others: BTreeMap<String, Self>,
        parent: Option<Box<Self>>,
    }
    #[derive(Deserialize)]
    #[allow(dead_code, reason = "only the shape is used")]
    enum Sum {
        Number(i64),
        Of(Box<Self>, Box<Self>),
    }
    assert_eq!(shape::<Tree>(), shape::<Tree>());
    assert_ne!(shape::<Tree>(), shape::<Sum>());
}

#[test]
fn types_of_the_standard_library_have_a_shape() {
    let shapes = [shape::<IpAddr>(), shape::<Duration>(), shape::<std::num::NonZeroU8>()];
    assert!(shapes.iter().all(|shape| *shape != HASH_START));
}

//! Arbitrary operations at arbitrary times have the same outcome on a cache and on a plain map, and
//! leave the cache's memory valid.
#![no_main]

#[path = "../../crates/larder/tests/it/pair/mod.rs"]
#[expect(dead_code, reason = "the model's test alone follows evictions")]
mod pair;

use arbitrary::{Result, Unstructured};
use larder::{Direction, ReadOptions, Stale, StoreMode};
use libfuzzer_sys::fuzz_target;
use pair::{Operation, Pair, Token, Ttl, Value, With, key_of};

fuzz_target!(|input: &[u8]| {
    let mut input = Unstructured::new(input);
    let mut pair = Pair::new(16 << 20, input.arbitrary().unwrap_or(false));
    while !input.is_empty()
        && let Ok(operation) = any_operation(&mut input)
    {
        pair.run(&operation);
    }
    for key in 0..KEY_COUNT {
        pair.assert_same(&key_of(key));
    }
    pair.cache.validate().expect("the cache's memory is valid");
});

fn any_operation(input: &mut Unstructured<'_>) -> Result<Operation> {
    let key = input.int_in_range(0..=KEY_COUNT - 1)?;
    Ok(match input.int_in_range(0..=16)? {
        0 => Operation::Get(key),
        1..=4 => Operation::Store {
            key,
            mode: *input.choose(&MODES)?,
            with: any_with(input)?,
            flags: input.arbitrary()?,
            ttl: any_ttl(input)?,
            token_sent: input.arbitrary()?,
            stale: *input.choose(&[Stale::Never, Stale::IfOlder, Stale::Always])?,
            uploaded: input.arbitrary()?,
            value: any_value(input)?,
        },
        5 => Operation::Delete(key, any_token(input)?),
        6 => Operation::Touch(key, any_ttl(input)?),
        7 | 8 => Operation::Arithmetic {
            key,
            direction: *input.choose(&[Direction::Increment, Direction::Decrement])?,
            delta: input.arbitrary()?,
            with: any_with(input)?,
            ttl: any_ttl_or_none(input)?,
        },
        9 => Operation::Tick(input.int_in_range(1..=8)?),
        10 => Operation::ClearIn(input.int_in_range(0..=6)?),
        11 => Operation::Clear,
        12 => Operation::Read(
            key,
            ReadOptions { noted: input.arbitrary()?, value: input.arbitrary()? },
        ),
        13 => Operation::Peek(key),
        14 => Operation::Claim(key, any_token(input)?),
        15 => Operation::MarkStale(key, any_with(input)?, any_ttl_or_none(input)?),
        _ => Operation::Maintain,
    })
}

fn any_token(input: &mut Unstructured<'_>) -> Result<Token> {
    Ok(*input.choose(&[Token::None, Token::Current, Token::Lower, Token::Higher])?)
}

fn any_with(input: &mut Unstructured<'_>) -> Result<With> {
    Ok(With { token: any_token(input)?, version: input.arbitrary()? })
}

fn any_ttl_or_none(input: &mut Unstructured<'_>) -> Result<Option<Ttl>> {
    Ok(if input.arbitrary()? { Some(any_ttl(input)?) } else { None })
}

fn any_ttl(input: &mut Unstructured<'_>) -> Result<Ttl> {
    Ok(match input.int_in_range(0..=3)? {
        0 | 1 => Ttl::Never,
        2 => Ttl::Past,
        _ => Ttl::Secs(input.int_in_range(1..=20)?),
    })
}

fn any_value(input: &mut Unstructured<'_>) -> Result<Value> {
    Ok(match input.int_in_range(0..=3)? {
        0 => Value::Number(input.arbitrary()?),
        1 => Value::Bytes(input.int_in_range(0..=40_000)?),
        _ => Value::Bytes(input.int_in_range(0..=300)?),
    })
}

const KEY_COUNT: u8 = 24;
const MODES: [StoreMode; 5] =
    [StoreMode::Set, StoreMode::Add, StoreMode::Replace, StoreMode::Append, StoreMode::Prepend];

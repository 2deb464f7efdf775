use anyhow::Result;
use larder_loadgen::address::Address;
use crate::outcome::Outcome;
use super::Arguments;
pub(super) fn run(_address: &Address, _arguments: &Arguments) -> Result<Outcome> { unimplemented!() }

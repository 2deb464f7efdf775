use std::path::Path;
use anyhow::Result;
use crate::outcome::Outcome;
use super::Arguments;
pub(super) fn run(_path: &Path, _arguments: &Arguments) -> Result<Outcome> { unimplemented!() }

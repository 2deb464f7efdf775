//! The rows.

/// What a thread counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// placeholder
    CmdGet,
}
impl Counter {
    /// How many there are.
    pub const COUNT: usize = 1;
}
/// What is measured when asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gauge {
    /// placeholder
    Pid,
}
/// Which `stats` command shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// `stats`
    General,
    /// `stats larder`
    Larder,
}
/// Where its value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// sum over threads
    Counter(Counter),
    /// asked
    Gauge(Gauge),
}
/// A row.
#[derive(Clone, Copy, Debug)]
pub struct Stat {
    /// Name on the wire.
    pub name: &'static str,
    /// Source.
    pub source: Source,
    /// Section.
    pub section: Section,
    /// Meaning, one sentence with unit.
    pub doc: &'static str,
}
/// All rows in the order of `stats`.
pub const TABLE: &[Stat] = &[];

//! The rules of a load.

crate::rules! {
    NoteBeforeRelease => "a leader whose loader failed leaves its note before it ends the lease",
    NoteAfterLease => "a caller reads the note after it has tried to take the lease",
    FailedAfterBegin => "a caller ignores a load that failed before the caller began",
    LookAfterLease => "a caller looks for the value again after it has taken the lease",
    BasisBeforeLoader => "a leader takes the basis of its store before it calls its loader",
    CancelLeavesNoNote => "a cancelled load leaves no note",
}

/// The rules in force.
pub(super) type Rules = crate::Rules<Rule>;

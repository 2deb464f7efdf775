//! The rules of the protocol. Each rule is a switch.

use crate::rules;

rules! {
    // The tool.
    DropBucket => "a change message drops every copied key of its bucket",
    SkipOverlapped => "a value is not stored if a change message arrived after its fetch was sent",
    OneConnection => "stores and drops travel on one connection, in their order",
    HeardBeforeEnd => "the copy ends after every change before the end was reported",
    // The target.
    RecordBeforeChange => "a change of a client is recorded before it is made",
    CheckAndStoreTogether => "the check and the store of a copied item are one step",
    LossUndoes => "a copy that ends without `end` removes what it stored",
    FlushEnds => "a flush ends the copy before it removes items",
}

/// The rules in force.
pub(crate) type Rules = crate::Rules<Rule>;

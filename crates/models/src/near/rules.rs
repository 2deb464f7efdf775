//! The rules of the protocol. Each rule is a switch.

use crate::rules;

rules! {
    // The origin.
    InterestBeforeRead => "a fetch notes its interest before the origin reads the item",
    PublishBeforeLook => "a writer publishes its change before it looks at the interest",
    OwnWritesAreTold => "the origin tells a change to the near cache that asked for it, also",
    RemovalTellsEach => "a removal by prefix tells each item when its walk removes it",
    FlushTellsAll => "a flush tells every subscription that everything may have changed",
    SlotTellsAll => "a change tells every subscription of an interested slot",
    FullRingFlushes => "a full ring becomes one message that everything may have changed",
    OneProcessTells => "no subscription exists while two processes serve one cache",
    SignalAfterRings => "the answer to `alive` follows everything that the rings contained",
    TokensAreNew => "a token is never used again",
    // Copies.
    KeepUnlessInvalidated => "no invalidation of its bucket since the fetch began: the value stays",
    KeepIsOneStep => "the check and the store of a copy are one step under the bucket's lock",
    CountBeforeDrop => "an invalidation counts before it drops",
    InvalidateBucket => "an invalidation concerns every key of the bucket",
    TokenIsCurrent => "a value is kept only if its subscription is the current one",
    TokenIsKnown => "a value is kept only if the origin knew its subscription",
    // The near cache's answers.
    AnswerInvalidates => "an answer to a command invalidates its keys before the client sees it",
    FlushInvalidates => "the answer to a flush invalidates everything before the client sees it",
    LossInvalidates => "a lost answer invalidates the keys of its command",
    FetchesInOrder => "the fetches of a key use one connection, which keeps their order",
    LateIsIgnored => "the answer of a flight that was given up is ignored",
    UnkeptDrops => "a value that is not kept drops the copy of its key",
    // The stream.
    LostStreamEmpties => "a lost stream empties the near cache",
    FreshFromSending => "freshness begins when `alive` was sent, not when its answer arrived",
    FreshBeforeLook => "a reader loads until when the cache is fresh before it looks for a copy",
    ClockAfterCopy => "a reader compares the clock after it copied the value",
    JoinWhileYoung => "a reader joins a flight only if it began at most max-stale ago",
}

/// The rules in force.
pub(crate) type Rules = crate::Rules<Rule>;

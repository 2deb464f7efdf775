//! The rules of the protocol. Each rule is a switch. The code names a rule where it enforces it, in
//! a comment `// Rule: name`.

use larder_models::rules;

rules! {
    // Answers.
    AnswerWaitsForKey => "an answer waits until the last record logged for its key is durable",
    AnswerWaitsForFlush => "an answer waits until the newest flush is durable",
    AnswerAfterSync => "answers go out after the sync, not after the write",
    // Writers.
    ReserveBeforeSlot => "the slot is stored after the log has space for the record",
    DeleteIsLogged => "a delete appends a tombstone",
    ChangeIsLogged => "a touch or a counter writes a new record, never two words in place",
    FlushIsOneStep => "a flush appends its record and raises the flush address in one step",
    // The flusher.
    WriteInOrder => "units are written in the order of their addresses",
    SealBeforeWrite => "a unit accepts no more records after it was written",
    HeaderBeforeNext => "a segment's header is durable before the next segment is written",
    BuffersUntilSynced => "a buffer is kept until its unit is synced",
    SummaryAfterSync => "a segment's summary is written after everything in the segment is synced",
    ErrorIsFinal => "after a failed sync the process neither writes nor syncs",
    // Readers.
    ReadBracket => "a read from disk checks the segment's number before and after",
    BufferBracket => "a read from a log buffer checks the buffer's unit before and after",
    PromoteBracket => "a promotion checks the slot and the segment's number under the lock",
    // Reclaim.
    ReclaimFromTail => "reclaim takes the oldest segment",
    JudgeAfterReserve => "reclaim evaluates a record after reserving space for its copy",
    EmptyDeadSlot => "reclaim empties the slot of an expired or flushed record",
    GiveUpAfterSync => "a source is freed when everything up to its last evaluation is synced",
    EraseBeforeReuse => "a freed segment's header is overwritten and synced before reuse",
    EraseBeforeNext => "an erasure is synced before the next source is freed",
    // The delayed flush.
    DelayIsLogged => "a delayed flush is logged when it is requested",
    HeadersRepeatDelay => "a segment's header repeats the delayed flush",
    HeaderAsBegun => "a header repeats the delay that was pending when its segment began",
    DueBeforeRecords => "a flush that falls due is logged before any later record",
    DueBeforeReads => "a flush that falls due is logged before any later answer",
    // Dictionaries.
    DictionaryBeforeManifest => "a dictionary is durable before the manifest names it",
    DictionaryBeforeRecord => "the manifest names a dictionary, durably, before a record does",
    // Starting.
    ManifestIsDurable => "the manifest is durable before the start continues",
    LeaseBeforeNumber => "a segment gets a number that the manifest has leased",
    LeaseIsDurable => "the lease is durable before its numbers are used",
    NumbersAreNew => "segment numbers are never used again",
    ReadAroundCache => "recovery reads around the kernel's cache",
    EraseAboveCut => "recovery erases the segments above the cut",
    AboveBeforeCut => "the segments above the cut are erased, durably, before the cut is void",
    VoidAtCut => "recovery voids the rest of the segment at the cut",
    VoidShuts => "recovery reads nothing after a void unit of a segment",
    SyncBeforeServing => "recovery syncs everything that it read or voided before it serves",
    EndAfterSync => "the manifest names the end of the log after that sync",
}

/// The rules in force.
pub(crate) type Rules = larder_models::Rules<Rule>;

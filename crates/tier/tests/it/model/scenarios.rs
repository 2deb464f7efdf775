//! The scenarios, the smallest first. Together they need every rule. The first scenario that needs
//! a rule names it.

use super::client::Op::{Delay, Delete, Flush, Get, Set, SetExpiring, Touch};
use super::rules::Rule::*;
use super::scenario::{Budget, Scenario};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "expiry and reclaim",
        programs: &[&[
            SetExpiring { key: 0, id: 1 },
            Set { key: 1, id: 2 },
            Set { key: 1, id: 3 },
            Get { key: 0 },
        ]],
        keys: 2,
        budget: Budget { reclaims: 1, evictions: 1, strike: true, ..Budget::NONE },
        breaks_without: &[EmptyDeadSlot],
        ..Scenario::BASE
    },
    Scenario {
        name: "a write, a delete and a read over power losses",
        programs: &[&[Set { key: 0, id: 1 }, Delete { key: 0 }], &[Get { key: 0 }, Get { key: 0 }]],
        budget: Budget { power_losses: 2, ..Budget::NONE },
        breaks_without: &[
            AnswerWaitsForKey,
            AnswerAfterSync,
            ReserveBeforeSlot,
            DeleteIsLogged,
            SealBeforeWrite,
            ManifestIsDurable,
            VoidAtCut,
            SyncBeforeServing,
        ],
        ..Scenario::BASE
    },
    Scenario {
        name: "a clean stop",
        programs: &[&[Set { key: 0, id: 1 }, Set { key: 0, id: 2 }, Get { key: 0 }]],
        budget: Budget { stops: 1, power_losses: 2, ..Budget::NONE },
        breaks_without: &[NumbersAreNew],
        ..Scenario::BASE
    },
    Scenario {
        name: "two dictionaries over power losses",
        programs: &[&[Set { key: 0, id: 1 }, Set { key: 0, id: 2 }, Set { key: 0, id: 3 }]],
        waits: false,
        budget: Budget { trainings: 2, kills: 1, power_losses: 2, ..Budget::NONE },
        breaks_without: &[DictionaryBeforeManifest, DictionaryBeforeRecord],
        ..Scenario::BASE
    },
    Scenario {
        name: "a sync that fails",
        programs: &[
            &[Set { key: 0, id: 1 }, Set { key: 0, id: 2 }],
            &[Get { key: 0 }, Get { key: 0 }],
        ],
        budget: Budget { failed_syncs: 1, kills: 1, power_losses: 1, ..Budget::NONE },
        breaks_without: &[ErrorIsFinal, ReadAroundCache],
        ..Scenario::BASE
    },
    Scenario {
        name: "summaries over power losses",
        programs: &[&[Set { key: 0, id: 1 }, Delete { key: 0 }, Set { key: 0, id: 2 }]],
        waits: false,
        units: 1,
        budget: Budget { summaries: 2, power_losses: 2, ..Budget::NONE },
        breaks_without: &[SummaryAfterSync],
        ..Scenario::BASE
    },
    Scenario {
        name: "summaries and reclaim over a power loss",
        programs: &[&[
            Set { key: 0, id: 1 },
            Set { key: 1, id: 2 },
            Delete { key: 0 },
            Set { key: 1, id: 3 },
        ]],
        keys: 2,
        units: 1,
        extents: 4,
        budget: Budget { summaries: 2, reclaims: 1, power_losses: 1, ..Budget::NONE },
        ..Scenario::BASE
    },
    Scenario {
        name: "a delayed flush over a power loss",
        programs: &[&[
            Set { key: 0, id: 1 },
            Delay,
            Get { key: 0 },
            Set { key: 0, id: 2 },
            Get { key: 0 },
        ]],
        budget: Budget { power_losses: 1, strike: true, set_back: true, ..Budget::NONE },
        breaks_without: &[AnswerWaitsForFlush, DelayIsLogged, DueBeforeRecords, DueBeforeReads],
        ..Scenario::BASE
    },
    Scenario {
        name: "a flush with concurrent writers, reclaim and power loss",
        programs: &[&[Set { key: 0, id: 1 }, Set { key: 0, id: 2 }, Get { key: 0 }], &[Flush]],
        budget: Budget { reclaims: 1, power_losses: 1, ..Budget::NONE },
        breaks_without: &[FlushIsOneStep, WriteInOrder, BuffersUntilSynced, GiveUpAfterSync],
        ..Scenario::BASE
    },
    Scenario {
        name: "a write that fails",
        programs: &[&[Set { key: 0, id: 1 }, Set { key: 0, id: 2 }], &[Get { key: 0 }]],
        budget: Budget { failed_writes: 1, kills: 1, power_losses: 1, ..Budget::NONE },
        ..Scenario::BASE
    },
    Scenario {
        name: "a lease that is used up",
        programs: &[&[
            Set { key: 0, id: 1 },
            Set { key: 0, id: 2 },
            Set { key: 0, id: 3 },
            Delete { key: 0 },
            Set { key: 0, id: 4 },
        ]],
        units: 1,
        extents: 4,
        waits: false,
        budget: Budget { power_losses: 2, ..Budget::NONE },
        breaks_without: &[HeaderBeforeNext, LeaseBeforeNumber, LeaseIsDurable],
        ..Scenario::BASE
    },
    Scenario {
        name: "valid units after a void one",
        programs: &[&[Set { key: 0, id: 1 }, Delete { key: 0 }, Set { key: 0, id: 2 }]],
        waits: false,
        units: 3,
        budget: Budget { power_losses: 3, ..Budget::NONE },
        breaks_without: &[VoidShuts],
        ..Scenario::BASE
    },
    Scenario {
        name: "kills, then a power loss",
        programs: &[
            &[Set { key: 0, id: 1 }, Set { key: 0, id: 2 }],
            &[Get { key: 0 }, Get { key: 0 }],
        ],
        budget: Budget { kills: 2, power_losses: 1, ..Budget::NONE },
        breaks_without: &[EndAfterSync],
        ..Scenario::BASE
    },
    Scenario {
        name: "reclaim of a segment while a client reads it",
        programs: &[
            &[
                Set { key: 0, id: 1 },
                Set { key: 0, id: 2 },
                Set { key: 1, id: 3 },
                Set { key: 1, id: 4 },
                Set { key: 0, id: 5 },
            ],
            &[Get { key: 0 }],
        ],
        keys: 2,
        extents: 3,
        budget: Budget { reclaims: 1, evictions: 1, ..Budget::NONE },
        breaks_without: &[ReadBracket, BufferBracket],
        ..Scenario::BASE
    },
    Scenario {
        name: "a touch of an evicted item",
        programs: &[
            &[Set { key: 0, id: 1 }, Touch { key: 0, id: 2 }],
            &[Set { key: 0, id: 3 }, Get { key: 0 }],
        ],
        budget: Budget { evictions: 2, power_losses: 1, ..Budget::NONE },
        breaks_without: &[ChangeIsLogged, PromoteBracket],
        ..Scenario::BASE
    },
    Scenario {
        name: "reclaim with a concurrent writer",
        programs: &[&[
            Set { key: 0, id: 1 },
            Set { key: 0, id: 2 },
            Set { key: 1, id: 3 },
            Set { key: 1, id: 4 },
            Delete { key: 0 },
            Get { key: 0 },
        ]],
        keys: 2,
        extents: 4,
        budget: Budget { reclaims: 2, power_losses: 1, ..Budget::NONE },
        breaks_without: &[ReclaimFromTail, JudgeAfterReserve, EraseBeforeReuse, EraseBeforeNext],
        ..Scenario::BASE
    },
    Scenario {
        name: "a delayed flush and reclaim",
        programs: &[&[
            Delay,
            Set { key: 0, id: 1 },
            Set { key: 0, id: 2 },
            Set { key: 0, id: 3 },
            Set { key: 0, id: 4 },
            Set { key: 0, id: 5 },
            Get { key: 0 },
        ]],
        extents: 4,
        budget: Budget { reclaims: 1, power_losses: 1, strike: true, ..Budget::NONE },
        breaks_without: &[HeadersRepeatDelay, HeaderAsBegun],
        ..Scenario::BASE
    },
    Scenario {
        name: "an erasure whose sync fails",
        programs: &[&[
            Set { key: 0, id: 1 },
            Set { key: 0, id: 2 },
            Delete { key: 0 },
            Set { key: 1, id: 3 },
            Set { key: 1, id: 4 },
        ]],
        keys: 2,
        budget: Budget { reclaims: 2, failed_syncs: 1, kills: 1, power_losses: 1, ..Budget::NONE },
        ..Scenario::BASE
    },
    Scenario {
        name: "two writers on two keys over power losses",
        programs: &[
            &[Set { key: 0, id: 1 }, Set { key: 0, id: 2 }, Set { key: 0, id: 3 }],
            &[Set { key: 1, id: 4 }, Delete { key: 1 }],
        ],
        keys: 2,
        budget: Budget { power_losses: 2, ..Budget::NONE },
        breaks_without: &[EraseAboveCut, AboveBeforeCut],
        ..Scenario::BASE
    },
    Scenario {
        name: "answers that wait for nothing",
        programs: &[&[
            Set { key: 0, id: 1 },
            Set { key: 0, id: 2 },
            Set { key: 0, id: 3 },
            Set { key: 0, id: 4 },
            Set { key: 0, id: 5 },
        ]],
        waits: false,
        extents: 4,
        budget: Budget { power_losses: 3, ..Budget::NONE },
        ..Scenario::BASE
    },
];

//! The scenarios. Together they need every rule.

use super::rules::Rule::*;
use super::scenario::Op::{Change, Flush, Look, Read, RemovePrefix, Write};
use super::scenario::{Budget, Scenario};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "a fetch and a change",
        programs: &[&[Read { near: 0, key: 0 }], &[Change { key: 0 }]],
        breaks_without: &[InterestBeforeRead, PublishBeforeLook, KeepUnlessInvalidated],
        ..Scenario::BASE
    },
    Scenario {
        name: "a write through a near cache, and reads",
        programs: &[
            &[Write { near: 0, key: 0 }, Read { near: 0, key: 0 }],
            &[Read { near: 0, key: 0 }],
        ],
        breaks_without: &[AnswerInvalidates],
        ..Scenario::BASE
    },
    Scenario {
        name: "two workers of the near cache between look and store",
        programs: &[
            &[Read { near: 0, key: 0 }, Read { near: 0, key: 0 }],
            &[Read { near: 0, key: 0 }],
            &[Change { key: 0 }],
        ],
        breaks_without: &[KeepIsOneStep, CountBeforeDrop],
        ..Scenario::BASE
    },
    Scenario {
        name: "an answer between the steps of a keep, with a local reader looking",
        programs: &[
            &[Write { near: 0, key: 0 }, Look { near: 0, key: 0 }],
            &[Read { near: 0, key: 0 }],
            &[Look { near: 0, key: 0 }],
        ],
        breaks_without: &[AnswerInvalidates, KeepIsOneStep],
        ..Scenario::BASE
    },
    Scenario {
        name: "a detached flight that is newer than the current one",
        programs: &[
            &[Read { near: 0, key: 0 }, Read { near: 0, key: 0 }],
            &[Read { near: 0, key: 0 }],
            &[Change { key: 0 }],
        ],
        budget: Budget { ticks: 2, ..Budget::NONE },
        breaks_without: &[FetchesInOrder],
        ..Scenario::BASE
    },
    Scenario {
        name: "a flight that was given up, and its late answer",
        programs: &[
            &[Read { near: 0, key: 0 }, Read { near: 0, key: 0 }, Read { near: 0, key: 0 }],
            &[Change { key: 0 }],
        ],
        budget: Budget { timeouts: 1, ..Budget::NONE },
        breaks_without: &[LateIsIgnored],
        ..Scenario::BASE
    },
    Scenario {
        name: "a fetch of one key, then writes of another key of its bucket and of it",
        programs: &[&[Read { near: 0, key: 0 }, Write { near: 0, key: 1 }], &[Change { key: 0 }]],
        keys: 2,
        breaks_without: &[InvalidateBucket, OwnWritesAreTold],
        ..Scenario::BASE
    },
    Scenario {
        name: "a write whose answer is lost",
        programs: &[
            &[Write { near: 0, key: 0 }, Read { near: 0, key: 0 }],
            &[Read { near: 0, key: 0 }],
        ],
        budget: Budget { losses: 1, ..Budget::NONE },
        ..Scenario::BASE
    },
    Scenario {
        name: "a write that is executed after its connection was lost",
        programs: &[
            &[Write { near: 0, key: 0 }, Read { near: 0, key: 0 }],
            &[Read { near: 0, key: 0 }],
        ],
        late: true,
        budget: Budget { losses: 1, ..Budget::NONE },
        breaks_without: &[OwnWritesAreTold],
        ..Scenario::BASE
    },
    Scenario {
        name: "an upgrade with a client on each process",
        programs: &[
            &[Read { near: 0, key: 0 }, Read { near: 0, key: 0 }],
            &[Write { near: 0, key: 0 }],
            &[Change { key: 0 }],
        ],
        budget: Budget { upgrades: 1, ..Budget::NONE },
        breaks_without: &[OneProcessTells],
        ..Scenario::BASE
    },
    Scenario {
        name: "a token that comes back",
        programs: &[&[Read { near: 0, key: 0 }], &[Change { key: 0 }]],
        budget: Budget { cuts: 2, ..Budget::NONE },
        breaks_without: &[TokensAreNew, TokenIsCurrent, LostStreamEmpties],
        ..Scenario::BASE
    },
    Scenario {
        name: "an answer to `alive` that waited in a buffer",
        programs: &[&[Read { near: 0, key: 0 }, Look { near: 0, key: 0 }], &[Change { key: 0 }]],
        budget: Budget { ticks: 3, alives: 2, ..Budget::NONE },
        breaks_without: &[FreshFromSending, SignalAfterRings, FreshBeforeLook],
        ..Scenario::BASE
    },
    Scenario {
        name: "a flight that takes too long",
        programs: &[&[Read { near: 0, key: 0 }], &[Read { near: 0, key: 0 }], &[Change { key: 0 }]],
        budget: Budget { ticks: 2, ..Budget::NONE },
        breaks_without: &[JoinWhileYoung],
        ..Scenario::BASE
    },
    Scenario {
        name: "a value that is not kept, while the stream is late",
        programs: &[
            &[Read { near: 0, key: 0 }, Read { near: 0, key: 0 }, Read { near: 0, key: 0 }],
            &[Change { key: 0 }],
        ],
        budget: Budget { ticks: 2, alives: 1, cuts: 1, ..Budget::NONE },
        breaks_without: &[UnkeptDrops],
        ..Scenario::BASE
    },
    Scenario {
        name: "a removal by prefix that is behind a fetch",
        programs: &[&[Read { near: 0, key: 0 }, Read { near: 0, key: 1 }], &[RemovePrefix]],
        keys: 2,
        buckets: [0, 1],
        breaks_without: &[RemovalTellsEach],
        ..Scenario::BASE
    },
    Scenario {
        name: "a ring that is full",
        programs: &[
            &[Read { near: 0, key: 0 }],
            &[Read { near: 0, key: 1 }],
            &[Change { key: 0 }],
            &[Change { key: 1 }],
        ],
        keys: 2,
        buckets: [0, 1],
        ring: 1,
        breaks_without: &[FullRingFlushes],
        ..Scenario::BASE
    },
    Scenario {
        name: "a flush at the origin",
        programs: &[&[Read { near: 0, key: 0 }], &[Flush { near: None }]],
        breaks_without: &[FlushTellsAll, PublishBeforeLook],
        ..Scenario::BASE
    },
    Scenario {
        name: "a flush through a near cache",
        programs: &[
            &[Read { near: 0, key: 0 }, Read { near: 0, key: 1 }],
            &[Flush { near: Some(0) }, Read { near: 0, key: 1 }],
        ],
        keys: 2,
        buckets: [0, 1],
        breaks_without: &[FlushInvalidates],
        ..Scenario::BASE
    },
    Scenario {
        name: "two near caches that share a slot",
        programs: &[
            &[Read { near: 0, key: 0 }],
            &[Read { near: 1, key: 0 }],
            &[Write { near: 0, key: 0 }, Read { near: 0, key: 0 }],
        ],
        nears: 2,
        slots: 1,
        breaks_without: &[SlotTellsAll],
        ..Scenario::BASE
    },
    Scenario {
        name: "readers and writers of one bucket",
        programs: &[
            &[Read { near: 0, key: 0 }, Read { near: 0, key: 1 }],
            &[Write { near: 0, key: 1 }, Look { near: 0, key: 0 }],
            &[Change { key: 0 }, Read { near: 0, key: 0 }],
        ],
        keys: 2,
        ..Scenario::BASE
    },
    Scenario {
        name: "a lost answer, with a clock",
        programs: &[
            &[Read { near: 0, key: 0 }, Look { near: 0, key: 0 }],
            &[Write { near: 0, key: 0 }, Read { near: 0, key: 0 }],
        ],
        late: true,
        budget: Budget { losses: 1, ticks: 2, alives: 1, ..Budget::NONE },
        ..Scenario::BASE
    },
    Scenario {
        name: "an upgrade, with a clock",
        programs: &[
            &[Read { near: 0, key: 0 }, Read { near: 0, key: 0 }],
            &[Change { key: 0 }, Look { near: 0, key: 0 }],
        ],
        budget: Budget { upgrades: 1, ticks: 2, alives: 1, ..Budget::NONE },
        ..Scenario::BASE
    },
];

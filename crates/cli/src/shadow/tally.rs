//! Counts of compared and not compared requests, and samples of the differences.

use std::time::{Duration, Instant};

macro_rules! kinds {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// All kinds, in the order of the report.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the name in reports.
            pub(crate) const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }
    };
}

kinds! {
    /// A difference that has no known reason.
    Difference {
        /// The values or counters differ.
        Value "value",
        /// The client flags differ.
        Flags "flags",
        /// The outcomes differ, for example `STORED` and `EXISTS`.
        Status "status",
        /// The times to live differ by more than the tolerance.
        Ttl "ttl",
        /// Only the candidate responds with an error.
        ErrorAtCandidate "error_at_candidate",
        /// Only the live server responds with an error.
        ErrorAtLive "error_at_live",
        /// Both respond with an error, but with different ones.
        ErrorText "error_text",
        /// The candidate's bytes are not a response to the request.
        Malformed "malformed",
    }
}

kinds! {
    /// A difference with a known reason.
    Explained {
        /// The live server has the item, the candidate does not.
        HitAtLiveOnly "hit_at_live_only",
        /// The candidate has the item, the live server does not.
        HitAtCandidateOnly "hit_at_candidate_only",
        /// Another connection changed the same key at the same time.
        Raced "raced",
        /// An earlier explained difference has left different items in the two servers.
        Diverged "diverged",
        /// Requests before this one were not sent to the candidate.
        AfterGap "after_gap",
        /// The response contains facts about the server: its version, statistics, times.
        Volatile "volatile",
        /// The candidate's token is not known.
        Cas "cas_not_comparable",
        /// Quiet requests whose responses do not name the request.
        Unidentified "unidentified",
    }
}

kinds! {
    /// The reason why requests are not compared.
    Uncompared {
        /// The candidate does not accept connections.
        Unreachable "candidate_unreachable",
        /// The candidate does not read or answer, and a limit of memory or time was reached.
        Slow "candidate_too_slow",
        /// The candidate closed the connection.
        Closed "candidate_closed",
        /// The candidate's connection was given up after a malformed response.
        Abandoned "after_malformed",
        /// The comparer could not keep up, or a response has not matched its request.
        LostTrack "lost_track",
        /// The subcommand does not send such requests to the candidate.
        Withheld "not_sent",
        /// The live server has not answered.
        Unanswered "live_unanswered",
        /// The run ended before the candidate answered.
        Ended "end_of_run",
    }
}

/// One difference, for the report.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// Its kind.
    pub(crate) kind: Difference,
    /// The name of the command.
    pub(crate) command: &'static str,
    /// The key or its hash.
    pub(crate) key: String,
    /// The live server's response, in short.
    pub(crate) live: String,
    /// The candidate's response, in short.
    pub(crate) candidate: String,
}

/// The counts of a run.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Begin of the run.
    pub(crate) begun: Instant,
    /// Connections of clients.
    pub(crate) connections: u64,
    /// Connections whose bytes are not understood, so that none of their requests are compared.
    pub(crate) unknown_connections: u64,
    /// Requests; each key of a get counts as a request.
    pub(crate) requests: u64,
    /// Requests with the same response.
    pub(crate) identical: u64,
    /// Counts by [`Explained`].
    pub(crate) explained: [u64; Explained::ALL.len()],
    /// Counts by [`Difference`].
    pub(crate) differences: [u64; Difference::ALL.len()],
    /// Counts by [`Uncompared`].
    pub(crate) uncompared: [u64; Uncompared::ALL.len()],
    /// Of the items that only the live server has: those that both had stored in this run.
    pub(crate) lost_at_candidate: u64,
    /// Compared reads that hit and that miss, at the live server and at the candidate.
    pub(crate) hits: [u64; 2],
    /// See [`Self::hits`].
    pub(crate) misses: [u64; 2],
    /// Connections to the candidate that were opened.
    pub(crate) candidate_connects: u64,
    /// Connections to the candidate that failed, or that were given up.
    pub(crate) candidate_failures: u64,
    /// How often bytes were missing in the comparer, or did not belong to any request.
    pub(crate) gaps: u64,
    /// The largest memory of queued requests and responses, in bytes.
    pub(crate) queued_bytes_max: usize,
    /// The first differences.
    pub(crate) samples: Vec<Sample>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            connections: 0,
            unknown_connections: 0,
            requests: 0,
            identical: 0,
            explained: [0; _],
            differences: [0; _],
            uncompared: [0; _],
            lost_at_candidate: 0,
            hits: [0; 2],
            misses: [0; 2],
            candidate_connects: 0,
            candidate_failures: 0,
            gaps: 0,
            queued_bytes_max: 0,
            samples: Vec::new(),
        }
    }
}

impl Tally {
    /// Counts a request that is not compared.
    pub(crate) fn skip(&mut self, reason: Uncompared, count: u64) {
        self.uncompared[reason as usize] += count;
    }

    /// Counts an explained difference.
    pub(crate) fn explain(&mut self, kind: Explained) {
        self.explained[kind as usize] += 1;
    }

    /// Counts a difference. Keeps it as a sample if there are few of its kind.
    pub(crate) fn differ(&mut self, sample: Sample) {
        let count = &mut self.differences[sample.kind as usize];
        *count += 1;
        if *count <= SAMPLES_PER_KIND {
            self.samples.push(sample);
        }
    }

    /// Returns the number of differences without a known reason.
    pub(crate) fn difference_count(&self) -> u64 {
        self.differences.iter().sum()
    }

    /// Returns the number of requests that were compared.
    pub(crate) fn compared_count(&self) -> u64 {
        self.identical + self.explained.iter().sum::<u64>() + self.difference_count()
    }

    /// Returns the number of requests that were not compared.
    pub(crate) fn uncompared_count(&self) -> u64 {
        self.uncompared.iter().sum()
    }

    /// Returns one line for the terminal.
    pub(crate) fn progress(&self) -> String {
        format!(
            "{} s: {} requests, {} compared, {} differences, {} explained, {} not compared",
            self.elapsed().as_secs(),
            self.requests,
            self.compared_count(),
            self.difference_count(),
            self.explained.iter().sum::<u64>(),
            self.uncompared_count(),
        )
    }

    /// Returns the time since the begin of the run.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }
}

/// The number of differences of one kind that a report shows.
const SAMPLES_PER_KIND: u64 = 10;

//! The table of flags, shared by the parser and docs/protocol.md.

/// A flag.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Its letter.
    pub letter: u8,
    /// The token that follows the letter; empty: none.
    pub token: &'static str,
    /// The commands that use it: `g`et, `s`et, `d`elete, `a`rithmetic. The other commands accept
    /// and ignore it.
    pub commands: &'static str,
    /// Its effect.
    pub meaning: &'static str,
}

macro_rules! flags {
    ($($letter:literal $token:literal $commands:literal $meaning:literal;)*) => {
        /// All flags.
        pub const FLAGS: &[Flag] = &[$(Flag {
            letter: $letter,
            token: $token,
            commands: $commands,
            meaning: $meaning,
        },)*];
    };
}

flags! {
    b'b' "" "gsda" "The key is in base64. The item is stored under the decoded bytes.";
    b'c' "" "gsa" "Return the cas token; 0 if nothing was stored.";
    b'C' "cas" "gsda" "Only an item with this cas token. In a get: omit the value of an item with \
        this cas token.";
    b'D' "delta" "a" "The amount to add or subtract; default 1.";
    b'E' "cas" "gsda" "The cas token of the item if the command stores or changes it.";
    b'f' "" "g" "Return the client flags.";
    b'F' "flags" "s" "The client flags; default 0.";
    b'h' "" "g" "Return 1 if the item was read before, otherwise 0.";
    b'I' "" "sd" "Set: if `C` is older than the item's cas token, store anyway and mark the item \
        stale. Delete: keep the item and mark it stale.";
    b'J' "number" "a" "The initial value of a counter that is created; default 0.";
    b'k' "" "gsda" "Return the key.";
    b'l' "" "g" "Return the seconds since the last store or read of the item.";
    b'L' "token" "" "A hint for routers on the way, ignored.";
    b'M' "mode" "sa" "Set: `E` add, `A` append, `P` prepend, `R` replace, `S` set. Arithmetic: `I` \
        or `+` increment, `D` or `-` decrement.";
    b'N' "exptime" "gsa" "Create a missing item with this exptime: empty for a get, which also \
        receives the recache token; with the value for an append or prepend; with `J` for \
        arithmetic.";
    b'O' "opaque" "gsda" "Return this token, at most 31 bytes.";
    b'P' "token" "" "A hint for routers on the way, ignored.";
    b'q' "" "gsda" "Suppress the expected response: the miss of a get, the success of other \
        commands, except for a counter that arithmetic created.";
    b'R' "exptime" "g" "Request the recache token if the item expires before this exptime.";
    b's' "" "gs" "Return the length of the value.";
    b't' "" "ga" "Return the time to live in seconds, -1 if the item does not expire.";
    b'T' "exptime" "gsda" "Set the exptime of the item. In a delete, only with `I` or `x`.";
    b'u' "" "g" "Do not count the get as a read.";
    b'v' "" "ga" "Return the value.";
    b'x' "" "d" "Keep the item, but clear its value, client flags and exptime.";
    b'_' "" "g" "Leave the recache token to other clients. memcached does not know this flag, and the \
        other commands refuse it.";
}

/// A set of letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Letters(u128);

impl Letters {
    /// The letters of all flags.
    pub(super) const KNOWN: Self = {
        let (mut letters, mut rest) = (0, FLAGS);
        while let [flag, others @ ..] = rest {
            letters |= 1 << flag.letter;
            rest = others;
        }
        Self(letters)
    };

    /// The letters that every command accepts.
    pub(super) const OF_ALL: Self = Self(Self::KNOWN.0 & !(1 << b'_'));

    #[inline]
    pub(super) fn has(self, letter: u8) -> bool {
        letter < 128 && self.0 >> letter & 1 == 1
    }

    #[inline]
    pub(super) fn add(&mut self, letter: u8) {
        self.0 |= 1 << (letter & 127);
    }
}

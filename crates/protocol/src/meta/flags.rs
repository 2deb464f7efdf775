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
    b'b' "" "gsda" "The key is base64. The item is stored under the bytes that it stands for.";
    b'c' "" "gsa" "Answer with the cas token; 0 where nothing was stored.";
    b'C' "cas" "gsda" "Only the item with this cas token. In a get: leave out the value of the item with this cas token.";
    b'D' "delta" "a" "How far the counter moves; 1 without it.";
    b'E' "cas" "gsda" "The cas token that the item gets if it is stored or changed.";
    b'f' "" "g" "Answer with the client flags.";
    b'F' "flags" "s" "The client flags; 0 without it.";
    b'h' "" "g" "Answer with 1 if the item had been read before, else 0.";
    b'I' "" "sd" "Set: where `C` is older than the item, store all the same and mark the item stale. Delete: keep the item and mark it stale.";
    b'J' "number" "a" "Where the counter begins if it is created; 0 without it.";
    b'k' "" "gsda" "Answer with the key.";
    b'l' "" "g" "Answer with the seconds since the item was last stored or read.";
    b'L' "token" "" "A hint for routers on the way, ignored.";
    b'M' "mode" "sa" "Set: `E` add, `A` append, `P` prepend, `R` replace, `S` set. Arithmetic: `I` or `+` increment, `D` or `-` decrement.";
    b'N' "exptime" "gsa" "Create the item if there is none, with this exptime: empty, for a get, which also wins the right to fill it; with the value, for an append or prepend; with `J`, for arithmetic.";
    b'O' "opaque" "gsda" "Answer with this, at most 31 bytes.";
    b'P' "token" "" "A hint for routers on the way, ignored.";
    b'q' "" "gsda" "Do not answer as expected: a get does not tell of a miss, the others not of success, but arithmetic tells of a counter that it created.";
    b'R' "exptime" "g" "Win the right to fetch the item anew if it dies before this.";
    b's' "" "gs" "Answer with the length of the value.";
    b't' "" "ga" "Answer with the seconds that the item has to live, -1 for ever.";
    b'T' "exptime" "gsda" "Give the item this exptime. A delete, only with `I` or `x`.";
    b'u' "" "g" "Do not count this as a read.";
    b'v' "" "ga" "Answer with the value.";
    b'x' "" "d" "Keep the item, but without value, client flags and exptime.";
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

    #[inline]
    pub(super) fn has(self, letter: u8) -> bool {
        letter < 128 && self.0 >> letter & 1 == 1
    }

    #[inline]
    pub(super) fn add(&mut self, letter: u8) {
        self.0 |= 1 << (letter & 127);
    }
}

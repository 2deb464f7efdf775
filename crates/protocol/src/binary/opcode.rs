//! What a request asks for: its second byte.

/// Fetch an item.
pub const GET: u8 = 0x00;
/// Store always.
pub const SET: u8 = 0x01;
/// Store if there is no such item.
pub const ADD: u8 = 0x02;
/// Store if there is such an item.
pub const REPLACE: u8 = 0x03;
/// Remove an item.
pub const DELETE: u8 = 0x04;
/// Count up.
pub const INCREMENT: u8 = 0x05;
/// Count down.
pub const DECREMENT: u8 = 0x06;
/// Close the connection.
pub const QUIT: u8 = 0x07;
/// Make everything invisible.
pub const FLUSH: u8 = 0x08;
/// [`GET`], quiet.
pub const GETQ: u8 = 0x09;
/// Are you there?
pub const NOOP: u8 = 0x0a;
/// Which version is this?
pub const VERSION: u8 = 0x0b;
/// [`GET`], with the key in the answer.
pub const GETK: u8 = 0x0c;
/// [`GETK`], quiet.
pub const GETKQ: u8 = 0x0d;
/// Put a value behind an item's.
pub const APPEND: u8 = 0x0e;
/// Put a value before an item's.
pub const PREPEND: u8 = 0x0f;
/// Show statistics.
pub const STAT: u8 = 0x10;
/// [`SET`], quiet. Those up to [`FLUSHQ`] are quiet too.
pub const SETQ: u8 = 0x11;
/// [`ADD`], quiet.
pub const ADDQ: u8 = 0x12;
/// [`REPLACE`], quiet.
pub const REPLACEQ: u8 = 0x13;
/// [`DELETE`], quiet.
pub const DELETEQ: u8 = 0x14;
/// [`INCREMENT`], quiet.
pub const INCREMENTQ: u8 = 0x15;
/// [`DECREMENT`], quiet.
pub const DECREMENTQ: u8 = 0x16;
/// [`QUIT`], quiet.
pub const QUITQ: u8 = 0x17;
/// [`FLUSH`], quiet.
pub const FLUSHQ: u8 = 0x18;
/// [`APPEND`], quiet.
pub const APPENDQ: u8 = 0x19;
/// [`PREPEND`], quiet.
pub const PREPENDQ: u8 = 0x1a;
/// Give an item a new exptime.
pub const TOUCH: u8 = 0x1c;
/// Fetch an item and give it a new exptime.
pub const GAT: u8 = 0x1d;
/// [`GAT`], quiet.
pub const GATQ: u8 = 0x1e;
/// Which mechanisms of authentication are there?
pub const SASL_LIST: u8 = 0x20;
/// This is who I am.
pub const SASL_AUTH: u8 = 0x21;
/// The next step of an authentication.
pub const SASL_STEP: u8 = 0x22;
/// [`GAT`], with the key in the answer.
pub const GATK: u8 = 0x23;
/// [`GATK`], quiet.
pub const GATKQ: u8 = 0x24;

/// The opcode that asks for the same and whose outcome is always told; itself, if that is how it is.
pub const fn aloud(opcode: u8) -> u8 {
    match opcode {
        GETQ => GET,
        GETKQ => GETK,
        GATQ => GAT,
        GATKQ => GATK,
        SETQ..=FLUSHQ => opcode - SETQ + SET,
        APPENDQ | PREPENDQ => opcode - APPENDQ + APPEND,
        _ => opcode,
    }
}

/// Does it hide a miss, or a success?
pub const fn is_quiet(opcode: u8) -> bool {
    aloud(opcode) != opcode
}

/// Does its answer name the key?
pub const fn names_key(opcode: u8) -> bool {
    matches!(opcode, GETK | GETKQ | GATK | GATKQ)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quiet_opcode_has_one_that_is_not() {
        let quiet = [
            (GETQ, GET),
            (GETKQ, GETK),
            (GATQ, GAT),
            (GATKQ, GATK),
            (SETQ, SET),
            (ADDQ, ADD),
            (REPLACEQ, REPLACE),
            (DELETEQ, DELETE),
            (INCREMENTQ, INCREMENT),
            (DECREMENTQ, DECREMENT),
            (QUITQ, QUIT),
            (FLUSHQ, FLUSH),
            (APPENDQ, APPEND),
            (PREPENDQ, PREPEND),
        ];
        for opcode in 0..=u8::MAX {
            let expected = quiet.iter().find(|(quiet, _)| *quiet == opcode);
            assert_eq!(aloud(opcode), expected.map_or(opcode, |(_, aloud)| *aloud), "{opcode:#x}");
            assert_eq!(is_quiet(opcode), expected.is_some(), "{opcode:#x}");
        }
    }
}

//! Opcodes: the second byte of a request.

/// Fetches an item.
pub const GET: u8 = 0x00;
/// Stores unconditionally.
pub const SET: u8 = 0x01;
/// Stores if the item does not exist.
pub const ADD: u8 = 0x02;
/// Stores if the item exists.
pub const REPLACE: u8 = 0x03;
/// Removes an item.
pub const DELETE: u8 = 0x04;
/// Increments a counter.
pub const INCREMENT: u8 = 0x05;
/// Decrements a counter.
pub const DECREMENT: u8 = 0x06;
/// Closes the connection.
pub const QUIT: u8 = 0x07;
/// Invalidates all items.
pub const FLUSH: u8 = 0x08;
/// [`GET`], quiet.
pub const GETQ: u8 = 0x09;
/// Does nothing, but the server responds.
pub const NOOP: u8 = 0x0a;
/// Returns the server's version.
pub const VERSION: u8 = 0x0b;
/// [`GET`], with the key in the response.
pub const GETK: u8 = 0x0c;
/// [`GETK`], quiet.
pub const GETKQ: u8 = 0x0d;
/// Appends to the value of an item.
pub const APPEND: u8 = 0x0e;
/// Prepends to the value of an item.
pub const PREPEND: u8 = 0x0f;
/// Returns statistics.
pub const STAT: u8 = 0x10;
/// [`SET`], quiet. The opcodes up to [`FLUSHQ`] are also quiet.
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
/// Sets an item's exptime.
pub const TOUCH: u8 = 0x1c;
/// Fetches an item and sets its exptime.
pub const GAT: u8 = 0x1d;
/// [`GAT`], quiet.
pub const GATQ: u8 = 0x1e;
/// Lists the authentication mechanisms.
pub const SASL_LIST: u8 = 0x20;
/// Begins an authentication.
pub const SASL_AUTH: u8 = 0x21;
/// Continues an authentication.
pub const SASL_STEP: u8 = 0x22;
/// [`GAT`], with the key in the response.
pub const GATK: u8 = 0x23;
/// [`GATK`], quiet.
pub const GATKQ: u8 = 0x24;
/// Returns a part of the configuration of a cluster. Not an opcode of memcached.
pub const CONFIG_GET: u8 = 0x60;

/// Returns the opcode of the same command without the quiet property.
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

/// True if the server does not report misses or success for the opcode.
pub const fn is_quiet(opcode: u8) -> bool {
    aloud(opcode) != opcode
}

/// True if the response includes the key.
pub const fn names_key(opcode: u8) -> bool {
    matches!(opcode, GETK | GETKQ | GATK | GATKQ)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quiet_opcode_has_a_counterpart_that_is_not_quiet() {
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

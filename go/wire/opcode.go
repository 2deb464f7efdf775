package wire

import "fmt"

// Opcode is a command of the binary protocol.
type Opcode uint8

// The commands that memcached implements or names. The codecs accept other numbers too.
const (
	OpGet           Opcode = 0x00
	OpSet           Opcode = 0x01
	OpAdd           Opcode = 0x02
	OpReplace       Opcode = 0x03
	OpDelete        Opcode = 0x04
	OpIncrement     Opcode = 0x05
	OpDecrement     Opcode = 0x06
	OpQuit          Opcode = 0x07
	OpFlush         Opcode = 0x08
	OpGetQ          Opcode = 0x09
	OpNoOp          Opcode = 0x0a
	OpVersion       Opcode = 0x0b
	OpGetK          Opcode = 0x0c
	OpGetKQ         Opcode = 0x0d
	OpAppend        Opcode = 0x0e
	OpPrepend       Opcode = 0x0f
	OpStat          Opcode = 0x10
	OpSetQ          Opcode = 0x11
	OpAddQ          Opcode = 0x12
	OpReplaceQ      Opcode = 0x13
	OpDeleteQ       Opcode = 0x14
	OpIncrementQ    Opcode = 0x15
	OpDecrementQ    Opcode = 0x16
	OpQuitQ         Opcode = 0x17
	OpFlushQ        Opcode = 0x18
	OpAppendQ       Opcode = 0x19
	OpPrependQ      Opcode = 0x1a
	OpVerbosity     Opcode = 0x1b
	OpTouch         Opcode = 0x1c
	OpGAT           Opcode = 0x1d
	OpGATQ          Opcode = 0x1e
	OpSASLListMechs Opcode = 0x20
	OpSASLAuth      Opcode = 0x21
	OpSASLStep      Opcode = 0x22
	OpGATK          Opcode = 0x23
	OpGATKQ         Opcode = 0x24
	OpRGet          Opcode = 0x30
	OpRSet          Opcode = 0x31
	OpRSetQ         Opcode = 0x32
	OpRAppend       Opcode = 0x33
	OpRAppendQ      Opcode = 0x34
	OpRPrepend      Opcode = 0x35
	OpRPrependQ     Opcode = 0x36
	OpRDelete       Opcode = 0x37
	OpRDeleteQ      Opcode = 0x38
	OpRIncr         Opcode = 0x39
	OpRIncrQ        Opcode = 0x3a
	OpRDecr         Opcode = 0x3b
	OpRDecrQ        Opcode = 0x3c
)

var opcodeNames = map[Opcode]string{
	OpGet: "GET", OpSet: "SET", OpAdd: "ADD", OpReplace: "REPLACE", OpDelete: "DELETE", OpIncrement: "INCREMENT",
	OpDecrement: "DECREMENT", OpQuit: "QUIT", OpFlush: "FLUSH", OpGetQ: "GETQ", OpNoOp: "NOOP", OpVersion: "VERSION",
	OpGetK: "GETK", OpGetKQ: "GETKQ", OpAppend: "APPEND", OpPrepend: "PREPEND", OpStat: "STAT", OpSetQ: "SETQ",
	OpAddQ: "ADDQ", OpReplaceQ: "REPLACEQ", OpDeleteQ: "DELETEQ", OpIncrementQ: "INCREMENTQ", OpDecrementQ: "DECREMENTQ",
	OpQuitQ: "QUITQ", OpFlushQ: "FLUSHQ", OpAppendQ: "APPENDQ", OpPrependQ: "PREPENDQ", OpVerbosity: "VERBOSITY",
	OpTouch: "TOUCH", OpGAT: "GAT", OpGATQ: "GATQ", OpSASLListMechs: "SASL_LIST_MECHS", OpSASLAuth: "SASL_AUTH",
	OpSASLStep: "SASL_STEP", OpGATK: "GATK", OpGATKQ: "GATKQ", OpRGet: "RGET", OpRSet: "RSET", OpRSetQ: "RSETQ",
	OpRAppend: "RAPPEND", OpRAppendQ: "RAPPENDQ", OpRPrepend: "RPREPEND", OpRPrependQ: "RPREPENDQ", OpRDelete: "RDELETE",
	OpRDeleteQ: "RDELETEQ", OpRIncr: "RINCR", OpRIncrQ: "RINCRQ", OpRDecr: "RDECR", OpRDecrQ: "RDECRQ",
}

// String returns the name in memcached's header, or the number of an unknown command.
func (o Opcode) String() string {
	if name, ok := opcodeNames[o]; ok {
		return name
	}
	return fmt.Sprintf("0x%02x", uint8(o))
}

// IsQuiet reports whether a server responds only to the unusual outcome: to hits if the command
// reads, and otherwise to errors.
func (o Opcode) IsQuiet() bool { return o.Loud() != o }

// Loud returns the opcode of the same command with a response to each outcome: OpGet for OpGetQ.
func (o Opcode) Loud() Opcode {
	switch {
	case o >= OpSetQ && o <= OpFlushQ:
		return o - OpSetQ + OpSet
	case o == OpAppendQ || o == OpPrependQ:
		return o - OpAppendQ + OpAppend
	case o >= OpRSet && o <= OpRDecrQ && o%2 == 0:
		return o - 1
	case o == OpGetQ:
		return OpGet
	case o == OpGetKQ || o == OpGATQ || o == OpGATKQ:
		return o - 1
	}
	return o
}

// BinaryStatus is the status of a response of the binary protocol.
type BinaryStatus uint16

// The statuses of memcached.
const (
	StatusOK             BinaryStatus = 0x00
	StatusNotFound       BinaryStatus = 0x01
	StatusExists         BinaryStatus = 0x02
	StatusTooLarge       BinaryStatus = 0x03
	StatusInvalid        BinaryStatus = 0x04
	StatusNotStored      BinaryStatus = 0x05
	StatusNonNumeric     BinaryStatus = 0x06
	StatusAuthError      BinaryStatus = 0x20
	StatusAuthContinue   BinaryStatus = 0x21
	StatusUnknownCommand BinaryStatus = 0x81
	StatusOutOfMemory    BinaryStatus = 0x82
)

// String returns the text that memcached writes into the body of such a response, or the number of
// the status.
func (s BinaryStatus) String() string {
	switch s {
	case StatusOK:
		return "OK"
	case StatusNotFound:
		return "Not found"
	case StatusExists:
		return "Data exists for key."
	case StatusTooLarge:
		return "Too large."
	case StatusInvalid:
		return "Invalid arguments"
	case StatusNotStored:
		return "Not stored."
	case StatusNonNumeric:
		return "Non-numeric server-side value for incr or decr"
	case StatusAuthError:
		return "Auth failure."
	case StatusAuthContinue:
		return "Continue"
	case StatusUnknownCommand:
		return "Unknown command"
	case StatusOutOfMemory:
		return "Out of memory"
	}
	return fmt.Sprintf("status 0x%04x", uint16(s))
}

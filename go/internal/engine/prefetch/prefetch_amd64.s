#include "textflag.h"

// The assembler does not support this instruction.
#define PREFETCHW_AX BYTE $0x0f; BYTE $0x0d; BYTE $0x08

// func Read(at uintptr)
TEXT ·Read(SB), NOSPLIT, $0-8
	MOVQ at+0(FP), AX
	PREFETCHT0 (AX)
	RET

// func Write(at uintptr)
TEXT ·Write(SB), NOSPLIT, $0-8
	MOVQ at+0(FP), AX
	PREFETCHW_AX
	RET

// func WriteBehind(tail *uintptr, bytes int)
TEXT ·WriteBehind(SB), NOSPLIT, $0-16
	MOVQ tail+0(FP), AX
	MOVQ bytes+8(FP), CX
	MOVQ (AX), AX
	ADDQ AX, CX
	ANDQ $~63, AX

line:
	PREFETCHW_AX
	ADDQ $64, AX
	CMPQ AX, CX
	JCS  line
	RET

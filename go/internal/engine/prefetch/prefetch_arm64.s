#include "textflag.h"

// func Read(at uintptr)
TEXT ·Read(SB), NOSPLIT, $0-8
	MOVD at+0(FP), R0
	PRFM (R0), PLDL1KEEP
	RET

// func Write(at uintptr)
TEXT ·Write(SB), NOSPLIT, $0-8
	MOVD at+0(FP), R0
	PRFM (R0), PSTL1KEEP
	RET

// func WriteBehind(tail *uintptr, bytes int)
TEXT ·WriteBehind(SB), NOSPLIT, $0-16
	MOVD tail+0(FP), R0
	MOVD bytes+8(FP), R1
	MOVD (R0), R0
	ADD  R0, R1
	AND  $~63, R0

line:
	PRFM (R0), PSTL1KEEP
	ADD  $64, R0
	CMP  R1, R0
	BLO  line
	RET

#include "textflag.h"

// SSE2 is part of every amd64 processor. All three take eight 16-bit samples a round.

// func floatsSSE(dst *float32, src *int16, eights int)
TEXT ·floatsSSE(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ eights+16(FP), CX

floats:
	TESTQ     CX, CX
	JZ        floatsDone
	MOVOU     (SI), X0
	MOVO      X0, X1
	PUNPCKLWL X0, X0         // each sample in the upper half of 32 bits
	PUNPCKHWL X1, X1
	PSRAL     $16, X0        // and at its place, with its sign
	PSRAL     $16, X1
	CVTPL2PS  X0, X0
	CVTPL2PS  X1, X1
	MOVUPS    X0, (DI)
	MOVUPS    X1, 16(DI)
	ADDQ      $16, SI
	ADDQ      $32, DI
	DECQ      CX
	JMP       floats

floatsDone:
	RET

// func unzipSSE(even, odd *float32, src *int16, eights int)
TEXT ·unzipSSE(SB), NOSPLIT, $0-32
	MOVQ even+0(FP), DI
	MOVQ odd+8(FP), DX
	MOVQ src+16(FP), SI
	MOVQ eights+24(FP), CX

unzip:
	TESTQ    CX, CX
	JZ       unzipDone
	MOVOU    (SI), X0        // four pairs, the even sample in the lower half
	MOVO     X0, X1
	PSLLL    $16, X0
	PSRAL    $16, X0
	PSRAL    $16, X1
	CVTPL2PS X0, X0
	CVTPL2PS X1, X1
	MOVUPS   X0, (DI)
	MOVUPS   X1, (DX)
	ADDQ     $16, SI
	ADDQ     $16, DI
	ADDQ     $16, DX
	DECQ     CX
	JMP      unzip

unzipDone:
	RET

// func zipSSE(dst *int16, even *float32, odd *int16, eights int)
TEXT ·zipSSE(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ even+8(FP), SI
	MOVQ odd+16(FP), DX
	MOVQ eights+24(FP), CX

zip:
	TESTQ     CX, CX
	JZ        zipDone
	MOVUPS    (SI), X0
	MOVUPS    16(SI), X1
	CVTPS2PL  X0, X0
	CVTPS2PL  X1, X1
	PACKSSLW  X1, X0
	MOVOU     (DX), X2
	MOVO      X0, X3
	PUNPCKLWL X2, X0
	PUNPCKHWL X2, X3
	MOVOU     X0, (DI)
	MOVOU     X3, 16(DI)
	ADDQ      $32, SI
	ADDQ      $16, DX
	ADDQ      $32, DI
	DECQ      CX
	JMP       zip

zipDone:
	RET

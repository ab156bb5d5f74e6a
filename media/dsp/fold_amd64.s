#include "textflag.h"

// func foldSSE(dst *int16, src, mid *float32, taps *foldTaps, blocks int)
//
// Sixteen outputs a round, four in each of X0 to X3. SSE2 is part of every amd64 processor.
TEXT ·foldSSE(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ mid+16(FP), DX
	MOVQ taps+24(FP), R8
	MOVQ blocks+32(FP), CX

block:
	TESTQ  CX, CX
	JZ     done
	MOVUPS (R8), X8          // the tap in the middle
	MOVUPS (DX), X0
	MOVUPS 16(DX), X1
	MOVUPS 32(DX), X2
	MOVUPS 48(DX), X3
	MULPS  X8, X0
	MULPS  X8, X1
	MULPS  X8, X2
	MULPS  X8, X3
	LEAQ   16(R8), R9
	MOVQ   SI, R10           // the window from its beginning
	LEAQ   108(SI), R11      // and from its end, 27 samples on
	MOVQ   $14, AX

tap:
	MOVUPS (R9), X8
	MOVUPS (R10), X4
	MOVUPS 16(R10), X5
	MOVUPS 32(R10), X6
	MOVUPS 48(R10), X7
	MOVUPS (R11), X9
	MOVUPS 16(R11), X10
	MOVUPS 32(R11), X11
	MOVUPS 48(R11), X12
	ADDPS  X9, X4
	ADDPS  X10, X5
	ADDPS  X11, X6
	ADDPS  X12, X7
	MULPS  X8, X4
	MULPS  X8, X5
	MULPS  X8, X6
	MULPS  X8, X7
	ADDPS  X4, X0
	ADDPS  X5, X1
	ADDPS  X6, X2
	ADDPS  X7, X3
	ADDQ   $16, R9
	ADDQ   $4, R10
	SUBQ   $4, R11
	DECQ   AX
	JNZ    tap

	CVTPS2PL X0, X0          // rounds to the nearest
	CVTPS2PL X1, X1
	CVTPS2PL X2, X2
	CVTPS2PL X3, X3
	PACKSSLW X1, X0          // saturates
	PACKSSLW X3, X2
	MOVOU    X0, (DI)
	MOVOU    X2, 16(DI)
	ADDQ     $32, DI
	ADDQ     $64, SI
	ADDQ     $64, DX
	DECQ     CX
	JMP      block

done:
	RET

// func dotSSE(x, y *float32, fours int) float32
TEXT ·dotSSE(SB), NOSPLIT, $0-28
	MOVQ  x+0(FP), SI
	MOVQ  y+8(FP), DI
	MOVQ  fours+16(FP), CX
	XORPS X0, X0
	XORPS X1, X1

pair:
	CMPQ   CX, $2
	JL     last
	MOVUPS (SI), X2
	MOVUPS (DI), X3
	MOVUPS 16(SI), X4
	MOVUPS 16(DI), X5
	MULPS  X3, X2
	MULPS  X5, X4
	ADDPS  X2, X0
	ADDPS  X4, X1
	ADDQ   $32, SI
	ADDQ   $32, DI
	SUBQ   $2, CX
	JMP    pair

last:
	TESTQ  CX, CX
	JZ     sum
	MOVUPS (SI), X2
	MOVUPS (DI), X3
	MULPS  X3, X2
	ADDPS  X2, X0

sum:
	ADDPS   X1, X0
	MOVHLPS X0, X1           // the upper two to the lower two
	ADDPS   X1, X0
	MOVAPS  X0, X1
	SHUFPS  $1, X1, X1
	ADDSS   X1, X0
	MOVSS   X0, ret+24(FP)
	RET

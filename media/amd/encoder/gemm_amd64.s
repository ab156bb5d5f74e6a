#include "textflag.h"

// Both kernels add up outer products: of each row of b, a panel's 16 columns, with a column of a. Strides are in bytes.

// ROW6 multiplies b's row in Y0 and Y1 with a value of a and adds to lo and hi.
#define ROW6(a, lo, hi) \
	VBROADCASTSS a, Y2 \
	VFMADD231PS Y0, Y2, lo \
	VFMADD231PS Y1, Y2, hi

#define ZERO(y) VXORPS y, y, y

#define STORE6(lo, hi) \
	VMOVUPS lo, (DI) \
	VMOVUPS hi, 32(DI) \
	ADDQ    R9, DI

// func tileAVX2(k int, a *float32, strideA int, b, c *float32, strideC int)
TEXT ·tileAVX2(SB), NOSPLIT, $0-48
	MOVQ k+0(FP), CX
	MOVQ a+8(FP), SI
	MOVQ strideA+16(FP), R8
	MOVQ b+24(FP), BX
	MOVQ c+32(FP), DI
	MOVQ strideC+40(FP), R9
	LEAQ (SI)(R8*2), R10
	ADDQ R8, R10             // the fourth row
	ZERO(Y4)
	ZERO(Y5)
	ZERO(Y6)
	ZERO(Y7)
	ZERO(Y8)
	ZERO(Y9)
	ZERO(Y10)
	ZERO(Y11)
	ZERO(Y12)
	ZERO(Y13)
	ZERO(Y14)
	ZERO(Y15)

next:
	VMOVUPS (BX), Y0
	VMOVUPS 32(BX), Y1
	ROW6((SI), Y4, Y5)
	ROW6((SI)(R8*1), Y6, Y7)
	ROW6((SI)(R8*2), Y8, Y9)
	ROW6((R10), Y10, Y11)
	ROW6((R10)(R8*1), Y12, Y13)
	ROW6((R10)(R8*2), Y14, Y15)
	ADDQ    $4, SI
	ADDQ    $4, R10
	ADDQ    $64, BX
	DECQ    CX
	JNZ     next

	STORE6(Y4, Y5)
	STORE6(Y6, Y7)
	STORE6(Y8, Y9)
	STORE6(Y10, Y11)
	STORE6(Y12, Y13)
	STORE6(Y14, Y15)
	VZEROUPPER
	RET

// ROW12 does so with b's rows in Z0 and Z1, of two panels.
#define ROW12(a, lo, hi) \
	VBROADCASTSS a, Z2 \
	VFMADD231PS Z0, Z2, lo \
	VFMADD231PS Z1, Z2, hi

#define ZERO512(z) VPXORD z, z, z

#define STORE12(lo, hi) \
	VMOVUPS lo, (DI) \
	VMOVUPS hi, 64(DI) \
	ADDQ    R9, DI

// func tileAVX512(k int, a *float32, strideA int, b0, b1, c *float32, strideC int)
TEXT ·tileAVX512(SB), NOSPLIT, $0-56
	MOVQ k+0(FP), CX
	MOVQ a+8(FP), SI
	MOVQ strideA+16(FP), R8
	MOVQ b0+24(FP), BX
	MOVQ b1+32(FP), DX
	MOVQ c+40(FP), DI
	MOVQ strideC+48(FP), R9
	LEAQ (R8)(R8*2), R13     // three rows
	LEAQ (SI)(R13*1), R10    // the fourth row
	LEAQ (R10)(R13*1), R11   // the seventh
	LEAQ (R11)(R13*1), R12   // the tenth
	ZERO512(Z4)
	ZERO512(Z5)
	ZERO512(Z6)
	ZERO512(Z7)
	ZERO512(Z8)
	ZERO512(Z9)
	ZERO512(Z10)
	ZERO512(Z11)
	ZERO512(Z12)
	ZERO512(Z13)
	ZERO512(Z14)
	ZERO512(Z15)
	ZERO512(Z16)
	ZERO512(Z17)
	ZERO512(Z18)
	ZERO512(Z19)
	ZERO512(Z20)
	ZERO512(Z21)
	ZERO512(Z22)
	ZERO512(Z23)
	ZERO512(Z24)
	ZERO512(Z25)
	ZERO512(Z26)
	ZERO512(Z27)

next:
	VMOVUPS (BX), Z0
	VMOVUPS (DX), Z1
	ROW12((SI), Z4, Z5)
	ROW12((SI)(R8*1), Z6, Z7)
	ROW12((SI)(R8*2), Z8, Z9)
	ROW12((R10), Z10, Z11)
	ROW12((R10)(R8*1), Z12, Z13)
	ROW12((R10)(R8*2), Z14, Z15)
	ROW12((R11), Z16, Z17)
	ROW12((R11)(R8*1), Z18, Z19)
	ROW12((R11)(R8*2), Z20, Z21)
	ROW12((R12), Z22, Z23)
	ROW12((R12)(R8*1), Z24, Z25)
	ROW12((R12)(R8*2), Z26, Z27)
	ADDQ    $4, SI
	ADDQ    $4, R10
	ADDQ    $4, R11
	ADDQ    $4, R12
	ADDQ    $64, BX
	ADDQ    $64, DX
	DECQ    CX
	JNZ     next

	STORE12(Z4, Z5)
	STORE12(Z6, Z7)
	STORE12(Z8, Z9)
	STORE12(Z10, Z11)
	STORE12(Z12, Z13)
	STORE12(Z14, Z15)
	STORE12(Z16, Z17)
	STORE12(Z18, Z19)
	STORE12(Z20, Z21)
	STORE12(Z22, Z23)
	STORE12(Z24, Z25)
	STORE12(Z26, Z27)
	VZEROUPPER
	RET

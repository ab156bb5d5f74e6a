#include "textflag.h"

// R is a coefficient of a table, eight times.
#define R(i) (32*i)(DX)

// RATIO makes of eight x in Y0 the rational function of the table at DX. It uses Y1 to Y3.
#define RATIO \
	VMINPS      R(0), Y0, Y0 \
	VMAXPS      R(1), Y0, Y0 \
	VMULPS      Y0, Y0, Y1 \
	VMOVUPS     R(2), Y2 \
	VFMADD213PS R(3), Y1, Y2 \
	VFMADD213PS R(4), Y1, Y2 \
	VFMADD213PS R(5), Y1, Y2 \
	VFMADD213PS R(6), Y1, Y2 \
	VFMADD213PS R(7), Y1, Y2 \
	VFMADD213PS R(8), Y1, Y2 \
	VMOVUPS     R(9), Y3 \
	VFMADD213PS R(10), Y1, Y3 \
	VFMADD213PS R(11), Y1, Y3 \
	VFMADD213PS R(12), Y1, Y3 \
	VFMADD213PS R(13), Y1, Y3 \
	VMULPS      Y2, Y0, Y0 \
	VDIVPS      Y3, Y0, Y0

// func tanhAVX2(x *float32, eights int, table *lanes)
TEXT ·tanhAVX2(SB), NOSPLIT, $0-24
	MOVQ x+0(FP), SI
	MOVQ eights+8(FP), CX
	MOVQ table+16(FP), DX

next:
	VMOVUPS (SI), Y0
	RATIO
	VMOVUPS Y0, (SI)
	ADDQ    $32, SI
	DECQ    CX
	JNZ     next
	VZEROUPPER
	RET

// func geluAVX2(x, bias *float32, eights int, table *lanes)
TEXT ·geluAVX2(SB), NOSPLIT, $0-32
	MOVQ x+0(FP), SI
	MOVQ bias+8(FP), DI
	MOVQ eights+16(FP), CX
	MOVQ table+24(FP), DX
	VMOVUPS R(14), Y6        // 1/√2
	VMOVUPS R(15), Y7        // 1/2

next:
	VMOVUPS     (SI), Y4
	VADDPS      (DI), Y4, Y4
	VMULPS      Y6, Y4, Y0
	RATIO
	VMULPS      Y7, Y4, Y4
	VFMADD213PS Y4, Y4, Y0   // x/2·erf + x/2
	VMOVUPS     Y0, (SI)
	ADDQ        $32, SI
	ADDQ        $32, DI
	DECQ        CX
	JNZ         next
	VZEROUPPER
	RET

// func softmaxAVX2(x *float32, eights int, table *lanes) float32
TEXT ·softmaxAVX2(SB), NOSPLIT, $0-28
	MOVQ x+0(FP), SI
	MOVQ eights+8(FP), CX
	MOVQ table+16(FP), DX

	// The largest, in all of Y4.
	MOVQ    SI, DI
	MOVQ    CX, BX
	VMOVUPS (DI), Y4

largest:
	VMAXPS       (DI), Y4, Y4
	ADDQ         $32, DI
	DECQ         BX
	JNZ          largest
	VPERM2F128   $1, Y4, Y4, Y5
	VMAXPS       Y5, Y4, Y4
	VPERMILPS    $0x4e, Y4, Y5
	VMAXPS       Y5, Y4, Y4
	VPERMILPS    $0xb1, Y4, Y5
	VMAXPS       Y5, Y4, Y4

	VMOVUPS R(0), Y7         // the lowest argument
	VMOVUPS R(1), Y8         // 1/ln 2
	VMOVUPS R(2), Y9         // ln 2, most of it
	VMOVUPS R(3), Y10        // and the rest
	VMOVUPS R(10), Y11       // 1
	VXORPS  Y6, Y6, Y6       // the sums

next:
	VMOVUPS      (SI), Y0
	VSUBPS       Y4, Y0, Y0
	VMAXPS       Y7, Y0, Y0
	VMULPS       Y8, Y0, Y1
	VROUNDPS     $0, Y1, Y1  // to the nearest whole number: the power of two
	VFNMADD231PS Y9, Y1, Y0
	VFNMADD231PS Y10, Y1, Y0
	VMOVUPS      R(4), Y2
	VFMADD213PS  R(5), Y0, Y2
	VFMADD213PS  R(6), Y0, Y2
	VFMADD213PS  R(7), Y0, Y2
	VFMADD213PS  R(8), Y0, Y2
	VFMADD213PS  R(9), Y0, Y2
	VFMADD213PS  Y11, Y0, Y2 // ((…)·x + 1)·x + 1
	VFMADD213PS  Y11, Y0, Y2
	VCVTPS2DQ    Y1, Y1
	VPSLLD       $23, Y1, Y1
	VPADDD       Y1, Y2, Y2  // to the exponent
	VADDPS       Y2, Y6, Y6
	VMOVUPS      Y2, (SI)
	ADDQ         $32, SI
	DECQ         CX
	JNZ          next

	VEXTRACTF128 $1, Y6, X0
	VADDPS       X6, X0, X0
	VPERMILPS    $0x4e, X0, X1
	VADDPS       X1, X0, X0
	VPERMILPS    $0xb1, X0, X1
	VADDSS       X1, X0, X0
	VMOVSS       X0, ret+24(FP)
	VZEROUPPER
	RET

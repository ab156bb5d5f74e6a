// Package encoder turns speech into frames that say what is said: it is the encoder of Moonshine Tiny, a model that recognises English speech (Jeffries
// et al., "Moonshine: Speech Recognition for Live Transcription and Voice Commands", arXiv:2410.15608; MIT licence, LICENSE.moonshine), without the decoder
// that would make text of them.
//
// An [Encoder] takes up to MaxSamples mono samples of 8 kHz and gives Width values a frame. A frame covers 56 ms and begins 24 ms after the one before:
// 1 s gives 40 frames, 2.84 s 117. Any frame depends on all of the samples. The path:
//
//   - The samples are scaled to one RMS, since the model follows loudness, and doubled to 16 kHz by a half-band filter.
//   - A convolution of 127 samples every 64 (4 ms), tanh, and a norm over all of it; a convolution of 7 steps every 3 to 576 channels; one of 3 every 2
//     back to Width. After each of these two a GELU.
//   - Six transformer layers, each with a norm before attention (8 heads of 36, of which 32 turn with the position) and one before a feed-forward part
//     (1152 wide, GELU). At the end a norm.
//
// weights.bin has the weights of the published 8-bit model. Products are of float32, so results are those of that model without its rounding of
// activations to 8 bits.
//
// All is Go, but for the inner loops on amd64: a product's tiles for AVX2 and AVX-512, and the functions between products for AVX2. A processor without
// these takes twenty times as long as AVX2; [Fast] says so.
//
// Read it in this order: encoder.go (what a user sees), resample.go, layers.go and attention.go (the path), gemm.go (products), functions.go and
// kernels_amd64.go (the inner loops), weights.go.
package encoder

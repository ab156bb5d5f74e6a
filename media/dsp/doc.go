// Package dsp has the arithmetic of audio: G.711, conversion of sample rates, concealment of lost packets and comfort noise. Audio is mono, in
// samples of 16 bits. Everything that runs per frame allocates nothing once its buffers have grown, and belongs to one stream.
//
// What is vectorised has a Go version beside it, which the tests hold the assembly to and other processors than amd64 use.
package dsp

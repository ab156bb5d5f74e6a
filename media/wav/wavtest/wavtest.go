// Package wavtest builds WAV files for tests, and reads them by a parser of its own.
package wavtest

import (
	"bytes"
	"encoding/binary"
	"slices"
	"time"
)

// Samples builds a file of 16-bit PCM.
func Samples(rate, channels int, interleaved []int16) []byte {
	le, size := binary.LittleEndian, 2*len(interleaved)
	b := le.AppendUint32([]byte("RIFF"), uint32(36+size))
	b = le.AppendUint32(append(b, "WAVEfmt "...), 16)
	b = le.AppendUint16(le.AppendUint16(b, formatPCM), uint16(channels))
	b = le.AppendUint32(le.AppendUint32(b, uint32(rate)), uint32(rate*2*channels))
	b = le.AppendUint16(le.AppendUint16(b, uint16(2*channels)), 16)
	b = le.AppendUint32(append(b, "data"...), uint32(size))
	for _, v := range interleaved {
		b = le.AppendUint16(b, uint16(v))
	}
	return b
}

// PCM builds a file of 8 kHz, 16 bit, every sample with the value given.
func PCM(channels int, length time.Duration, value int16) []byte {
	return Samples(8000, channels, slices.Repeat([]int16{value}, int(length.Seconds()*8000)*channels))
}

// ULaw builds a stereo file of mu-law, every byte with the value given.
func ULaw(length time.Duration, value byte) []byte {
	frames := int(length.Seconds() * 8000)
	le := binary.LittleEndian
	b := le.AppendUint32([]byte("RIFF"), uint32(50+2*frames))
	b = le.AppendUint32(append(b, "WAVEfmt "...), 18)
	for _, v := range []uint16{7, 2, 8000, 0, 16000, 0, 2, 8, 0} {
		b = le.AppendUint16(b, v)
	}
	b = le.AppendUint32(append(b, "fact\x04\x00\x00\x00"...), uint32(frames))
	b = le.AppendUint32(append(b, "data"...), uint32(2*frames))
	return append(b, bytes.Repeat([]byte{value}, 2*frames)...)
}

// Patched is a file with another number at a place of its header.
func Patched(b []byte, at int, value uint32) []byte {
	b = bytes.Clone(b)
	binary.LittleEndian.PutUint32(b[at:], value)
	return b
}

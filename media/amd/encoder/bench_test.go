package encoder

import (
	"fmt"
	"testing"
)

// BenchmarkEncode says how much of a core the encoder takes, by length.
func BenchmarkEncode(b *testing.B) {
	for name, k := range variants() {
		for _, ms := range []int{1000, 1500, 2000, 2840} {
			b.Run(fmt.Sprintf("%s/%dms", name, ms), func(b *testing.B) {
				e := newEncoder(k)
				pcm := speech(8 * ms)
				b.ReportAllocs()
				for b.Loop() {
					e.Encode(pcm)
				}
			})
		}
	}
}

// BenchmarkLoad is what the first encoder takes in addition.
func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		load(packed)
	}
}

// BenchmarkNew says how much memory an encoder takes.
func BenchmarkNew(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		New()
	}
}

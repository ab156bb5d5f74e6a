package wav

import "bytes"

// File is a whole file in memory, its samples interleaved.
type File struct {
	Rate, Channels int
	Samples        []int16
}

// Parse reads a WAV file of 16-bit PCM or G.711. It returns ErrFormat for anything else.
func Parse(b []byte) (File, error) {
	info, err := Scan(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return File{}, err
	}
	raw := b[info.DataAt : info.DataAt+info.DataLen]
	return File{Rate: info.Rate, Channels: info.Channels, Samples: info.AppendTo(make([]int16, 0, len(raw)*8/info.Bits), raw)}, nil
}

// Channel gives the samples of one channel, counted from 0; none when the file has no such channel.
func (w File) Channel(n int) []int16 {
	if n < 0 || n >= w.Channels {
		return nil
	}
	out := make([]int16, 0, len(w.Samples)/w.Channels)
	for i := n; i < len(w.Samples); i += w.Channels {
		out = append(out, w.Samples[i])
	}
	return out
}

// Encode is a file of mono samples of 8 kHz, in 16-bit PCM.
func Encode(pcm []int16) []byte {
	lay := pcmLayout().Mono()
	b := make([]byte, 0, lay.header+lay.FrameSize*int64(len(pcm)))
	return lay.AppendSamples(lay.AppendHeader(b, int64(len(pcm))), pcm)
}

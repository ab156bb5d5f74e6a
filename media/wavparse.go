package media

import "bytes"

// WAV is a whole file in memory, its samples interleaved.
type WAV struct {
	Rate, Channels int
	Samples        []int16
}

// ParseWAV reads a WAV file of 16-bit PCM or G.711. It returns ErrWAV for anything else.
func ParseWAV(b []byte) (WAV, error) {
	info, err := scanWAV(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return WAV{}, err
	}
	raw := b[info.dataAt : info.dataAt+info.dataLen]
	return WAV{Rate: info.rate, Channels: info.channels, Samples: info.samples(make([]int16, 0, len(raw)*8/info.bits), raw)}, nil
}

// Channel gives the samples of one channel, counted from 0; none when the file has no such channel.
func (w WAV) Channel(n int) []int16 {
	if n < 0 || n >= w.Channels {
		return nil
	}
	out := make([]int16, 0, len(w.Samples)/w.Channels)
	for i := n; i < len(w.Samples); i += w.Channels {
		out = append(out, w.Samples[i])
	}
	return out
}

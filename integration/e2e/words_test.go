package e2e

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/twilio"
)

const (
	// words is how often the voice agent of a test speaks.
	words = 8
	// wordFrames is how many frames of 20 ms a word has. Each is louder than the one before by louder, so that one hears which are missing.
	wordFrames = 20
	louder     = 1.15
	softest    = 1000
)

// aWord is a word in μ-law.
func aWord() []byte {
	var pcm []int16
	for i := range wordFrames {
		for k := range dsp.FrameSamples {
			pcm = append(pcm, int16(softest*math.Pow(louder, float64(i))*math.Sin(2*math.Pi*float64(k)/8)))
		}
	}
	audio := make([]byte, len(pcm))
	dsp.EncodeULaw(audio, pcm)
	return audio
}

// wordFrame is which frame of a word a packet has, -1 for silence.
func wordFrame(pcm []int16) int {
	peak := 0.0
	for _, v := range pcm {
		peak = max(peak, math.Abs(float64(v)))
	}
	if peak < softest/2 {
		return -1
	}
	return int(math.Round(math.Log(peak/softest) / math.Log(louder)))
}

// Whoever is called hears each word of the voice agent from its beginning to its end, the first one too.
func TestWordsAreHeardWhole(t *testing.T) {
	onEachSwitchAlone(t, func(t *testing.T, c *customer) {
		bot := newTwilioBot(t)
		bot.first = aWord()
		number := fmt.Sprintf("98%06d64", rand.IntN(1e6)) // rings long, so that all is on its tape
		campaign, _ := c.twilioCampaign(t, bot, number, nil)
		eventually(t, 20*time.Second, "the callee is called", func() bool {
			_, err := c.phones().Tape(t.Context(), number)
			return err == nil
		})
		s := bot.next(t)
		for i := range words {
			if i > 0 {
				s.send(t, twilio.EventMedia, "media", map[string]string{"payload": base64.StdEncoding.EncodeToString(aWord())})
			}
			s.mark(t, "said")
			s.marked(t, i+1)
			var heard []int
			quiet := 0
			eventually(t, 20*time.Second, "silence after the word", func() bool {
				packets, err := c.phones().Tape(t.Context(), number)
				require.NoError(t, err)
				for _, p := range packets {
					if f := wordFrame(p.Samples()); f >= 0 {
						heard, quiet = append(heard, f), 0
					} else {
						quiet++
					}
				}
				return len(heard) > 0 && quiet > 15
			})
			require.GreaterOrEqual(t, len(heard), wordFrames, "word %d: %v", i+1, heard)
			for f := range wordFrames {
				require.Equal(t, f, heard[f], "word %d: %v", i+1, heard)
			}
		}
		c.hangUp(t, number)
		c.ended(t, campaign, 1, 20*time.Second)
	})
}

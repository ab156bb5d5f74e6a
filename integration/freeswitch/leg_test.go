package freeswitch_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ringmaster/ringmaster/conf"
	"github.com/ringmaster/ringmaster/integration/freeswitch"
	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/switchctl/esl"
)

const (
	variable = "RINGMASTER_FREESWITCH"
	soon     = 30 * time.Second
	rate     = 16000 // of the voice agent
)

func TestMain(m *testing.M) {
	// sipgo answers a retransmission that comes while its listener closes from a new socket, which it then never closes.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/emiago/sipgo/sip.(*TransportUDP).readUDPConnection"))
}

// ear is a voice agent that keeps what it hears, and says two tones all the while.
type ear struct {
	mu    sync.Mutex
	audio []byte
}

// seconds is how long the agent speaks, all of it sent at once.
const seconds = 30

// chord is what it says: 1 kHz and 6 kHz at the same level.
func chord() []byte {
	b := make([]byte, 0, 2*seconds*rate)
	for i := range seconds * rate {
		t := 2 * math.Pi * float64(i) / rate
		b = binary.LittleEndian.AppendUint16(b, uint16(int16(4000*math.Sin(1000*t)+4000*math.Sin(6000*t))))
	}
	return b
}

func (e *ear) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	up := websocket.Upgrader{Subprotocols: []string{media.SubprotocolAlpha}}
	c, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	if err := c.WriteMessage(websocket.BinaryMessage, chord()); err != nil {
		return
	}
	for {
		typ, b, err := c.ReadMessage()
		if err != nil {
			return
		}
		if typ == websocket.BinaryMessage {
			e.mu.Lock()
			e.audio = append(e.audio, b...)
			e.mu.Unlock()
		}
	}
}

// level is the newest second's power at a frequency, in dB relative to a full-scale sine; −200 as long as there is none.
func (e *ear) level(hz float64) float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.audio) < 2*rate {
		return -200
	}
	return level(e.audio[len(e.audio)-2*rate:], hz, rate)
}

// level is the power of little-endian samples at a frequency, in dB relative to a full-scale sine.
func level(pcm []byte, hz, perSecond float64) float64 {
	n := float64(len(pcm) / 2)
	var re, im float64
	for i := range len(pcm) / 2 {
		s := float64(int16(binary.LittleEndian.Uint16(pcm[2*i:])))
		s *= 0.5 - 0.5*math.Cos(2*math.Pi*float64(i)/n)
		re += s * math.Cos(2*math.Pi*hz*float64(i)/perSecond)
		im += s * math.Sin(2*math.Pi*hz*float64(i)/perSecond)
	}
	return 20 * math.Log10(max(4*math.Hypot(re, im)/n/32768, 1e-10))
}

// realSwitch is the FreeSWITCH to run; a test that has none is skipped.
func realSwitch(t *testing.T) string {
	t.Helper()
	binary := os.Getenv(variable)
	if binary == "" {
		t.Skip("NO REAL SWITCH: set " + variable + "=/path/to/freeswitch to run this")
	}
	return binary
}

// TestLegs has the switch call a session in each codec, play it two tones, record the two that come back, and exchange reports
// with it. The tones at 6 kHz are heard on the wide legs alone, in both directions.
func TestLegs(t *testing.T) { //nolint:tparallel // one switch, one call after another
	t.Parallel()
	binary := realSwitch(t)
	dir := t.TempDir()
	sw, err := freeswitch.Start(t.Context(), freeswitch.Config{Binary: binary, Dir: dir, Params: conf.Params{
		ESLIP: "127.0.0.1", ESLPassword: "secret", SocketAddr: "127.0.0.1:9", SIPIP: "127.0.0.1", CarrierNets: []string{"127.0.0.0/8"},
		CDRDir: filepath.Join(dir, "cdr"), DirectoryURL: "http://127.0.0.1:9/",
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sw.Stop()) })
	conn, err := esl.Dial(t.Context(), sw.ESLAddr(), sw.Params.ESLPassword, esl.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	srv, err := media.New(media.Config{
		SIPAddr: "127.0.0.1:0", RTPPortMin: 20000, RTPPortMax: 21999,
		DialGuard: netguard.Policy{AllowLoopback: true}, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	require.NoError(t, srv.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		require.NoError(t, srv.Close(ctx))
	})
	for _, tc := range []struct {
		codec, name string
		wide        bool
	}{
		{"PCMU", "PCMU", false},
		{"PCMA", "PCMA", false},
		{"L16@8000h@20i@1c", "L16", false},
		{"L16@16000h@20i@1c", "L16", true},
		{"L16@24000h@20i@1c", "L16", true},
		{"L16@48000h@10i@1c", "L16", true},
	} {
		t.Run(tc.codec, func(t *testing.T) { //nolint:paralleltest // one switch, one call after another
			agent := new(ear)
			web := httptest.NewServer(agent)
			t.Cleanup(web.Close)
			id := "leg" + strings.Map(func(r rune) rune {
				if r == '@' {
					return '-'
				}
				return r
			}, tc.codec)
			sess, err := srv.Open(t.Context(), media.SessionSpec{
				ID: id, CallID: id, URL: "ws" + strings.TrimPrefix(web.URL, "http"), Audio: media.AudioFormat{SampleRateHz: rate},
				Metadata: json.RawMessage("{}"),
			})
			require.NoError(t, err)
			t.Cleanup(func() { sess.Close(media.CloseHangup) })
			reply, err := conn.API(t.Context(), fmt.Sprintf(
				"originate {absolute_codec_string='%s',rtcp_audio_interval_msec=1000}sofia/external/%s@%s &playback(tone_stream://%%(30000,0,1000,6000))",
				tc.codec, id, srv.SIPAddr()))
			require.NoError(t, err)
			require.Contains(t, reply, "+OK")
			answered, ok := (<-sess.Events()).(media.LegAnswered)
			require.True(t, ok)
			require.Equal(t, tc.name, answered.Codec)
			require.Eventually(t, func() bool {
				return agent.level(1000) > -30 && sess.Stats().Quality.Outbound.Measured && sess.Stats().Quality.Inbound.Measured
			}, soon, 50*time.Millisecond, "level %.1f, %+v", agent.level(1000), sess.Stats())
			if tc.wide {
				require.InDelta(t, agent.level(1000), agent.level(6000), 3)
			} else {
				require.Less(t, agent.level(6000), -60.0)
			}
			low, high := callerHears(t, conn, strings.TrimSpace(strings.TrimPrefix(reply, "+OK")), dir)
			require.InDelta(t, -18.3, low, 1)
			if tc.wide {
				require.InDelta(t, low, high, 1)
			} else {
				require.Less(t, high, low-40, "G.711 has harmonics of its own")
			}
			st := sess.Stats()
			t.Logf("%s: the agent hears 1 kHz at %.1f dB, 6 kHz at %.1f dB, the caller at %.1f and %.1f dB, %+v",
				tc.codec, agent.level(1000), agent.level(6000), low, high, st.Quality)
			// 4.4 and none late on an idle machine.
			require.Greater(t, st.Quality.Inbound.MOS, 3.6)
			require.Greater(t, st.Quality.Outbound.MOS, 3.6)
			require.LessOrEqual(t, st.Late, st.PacketsIn/20)
		})
	}
}

// callerHears has the switch record a second of what comes to it on a channel, and returns the levels of 1 kHz and of 6 kHz, or of
// the latter's alias where it can't be.
func callerHears(t *testing.T, conn *esl.Conn, channel, dir string) (low, high float64) {
	t.Helper()
	path := filepath.Join(dir, channel+".wav")
	for _, cmd := range []string{
		"uuid_setvar " + channel + " RECORD_READ_ONLY true", "uuid_record " + channel + " start " + path,
	} {
		reply, err := conn.API(t.Context(), cmd)
		require.NoError(t, err)
		require.Contains(t, reply, "+OK", cmd)
	}
	const header = 44
	var perSecond, enough int
	require.Eventually(t, func() bool {
		b, err := os.ReadFile(path)
		if err != nil || len(b) < header {
			return false
		}
		perSecond = int(binary.LittleEndian.Uint32(b[24:]))
		enough = header + 2*perSecond*3/2
		return len(b) >= enough
	}, soon, 50*time.Millisecond, "the recording of %s does not grow", channel)
	reply, err := conn.API(t.Context(), "uuid_record "+channel+" stop "+path)
	require.NoError(t, err)
	require.Contains(t, reply, "+OK")
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.EqualValues(t, 1, binary.LittleEndian.Uint16(b[22:]), "one channel")
	pcm := b[enough-2*perSecond : enough]
	low = level(pcm, 1000, float64(perSecond))
	if perSecond <= 12000 {
		return low, level(pcm, 2000, float64(perSecond))
	}
	return low, level(pcm, 6000, float64(perSecond))
}

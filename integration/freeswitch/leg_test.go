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

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ear is a voice agent that keeps what it hears.
type ear struct {
	mu    sync.Mutex
	audio []byte
}

func (e *ear) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	up := websocket.Upgrader{Subprotocols: []string{media.SubprotocolAlpha}}
	c, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
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
	var re, im float64
	for i := range rate {
		s := float64(int16(binary.LittleEndian.Uint16(e.audio[len(e.audio)-2*rate+2*i:])))
		s *= 0.5 - 0.5*math.Cos(2*math.Pi*float64(i)/rate)
		re += s * math.Cos(2*math.Pi*hz*float64(i)/rate)
		im += s * math.Sin(2*math.Pi*hz*float64(i)/rate)
	}
	return 20 * math.Log10(max(4*math.Hypot(re, im)/rate/32768, 1e-10))
}

// TestLegs has the switch call a session in each codec, play it a tone, and exchange reports with it. The tone at
// 6 kHz is heard on the wide legs alone.
func TestLegs(t *testing.T) { //nolint:tparallel // one switch, one call after another
	t.Parallel()
	path := os.Getenv(variable)
	if path == "" {
		t.Skipf("%s names no FreeSWITCH", variable)
	}
	dir := t.TempDir()
	sw, err := freeswitch.Start(t.Context(), freeswitch.Config{Binary: path, Dir: dir, Params: conf.Params{
		ESLIP: "127.0.0.1", ESLPassword: "secret", SocketAddr: "127.0.0.1:9", SIPIP: "127.0.0.1", CarrierNet: "127.0.0.0/8",
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
			st := sess.Stats()
			t.Logf("%s: 1 kHz %.1f dB, 6 kHz %.1f dB, %+v", tc.codec, agent.level(1000), agent.level(6000), st.Quality)
			require.Greater(t, st.Quality.Inbound.MOS, 4.2)
			require.Greater(t, st.Quality.Outbound.MOS, 4.2)
			require.Zero(t, st.Late)
		})
	}
}

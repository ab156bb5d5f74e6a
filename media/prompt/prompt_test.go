package prompt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/media/wav"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a time that tests move.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }

// web serves one source, and counts.
type web struct {
	*httptest.Server

	mu     sync.Mutex
	body   []byte
	etag   string
	status int
	hold   chan struct{} // requests wait for it; nil is at once
	asked  int
	full   int // answers with a body
}

func newWeb(t *testing.T, body []byte) *web {
	t.Helper()
	w := &web{body: body, status: http.StatusOK}
	w.Server = httptest.NewServer(http.HandlerFunc(func(res http.ResponseWriter, req *http.Request) {
		w.mu.Lock()
		w.asked++
		body, etag, status, hold := w.body, w.etag, w.status, w.hold
		w.mu.Unlock()
		if hold != nil {
			select {
			case <-hold:
			case <-req.Context().Done():
				return
			}
		}
		if etag != "" {
			res.Header().Set("ETag", etag)
			if req.Header.Get("If-None-Match") == etag {
				res.WriteHeader(http.StatusNotModified)
				return
			}
		}
		w.mu.Lock()
		w.full++
		w.mu.Unlock()
		res.WriteHeader(status)
		_, _ = res.Write(body)
	}))
	t.Cleanup(w.Close)
	return w
}

func (w *web) set(f func(*web)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w)
}

func (w *web) counts() (asked, full int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked, w.full
}

func newCache(t *testing.T, cfg Config) (*Cache, *clock) {
	t.Helper()
	clk := &clock{}
	clk.at.Store(time.Now().UnixNano())
	cfg.Now = clk.now
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	cfg.Guard = netguard.Policy{AllowLoopback: true}
	c, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c, clk
}

// tone is a WAV file, interleaved; the second channel has twice the frequency.
func tone(rate, channels int, hz float64, length time.Duration) []byte {
	n := int(length * time.Duration(rate) / time.Second)
	b := []byte("RIFF\x00\x00\x00\x00WAVEfmt ")
	le := binary.LittleEndian
	b = le.AppendUint16(le.AppendUint16(le.AppendUint32(b, 16), 1), uint16(channels))
	b = le.AppendUint32(le.AppendUint32(b, uint32(rate)), uint32(2*rate*channels))
	b = le.AppendUint16(le.AppendUint16(b, uint16(2*channels)), 16)
	b = le.AppendUint32(append(b, "data"...), uint32(2*n*channels))
	for i := range n {
		for ch := range channels {
			b = le.AppendUint16(b, uint16(int16(8000*math.Sin(2*math.Pi*hz*float64(ch+1)*float64(i)/float64(rate)))))
		}
	}
	return b
}

// level is the amplitude of a frequency in 8 kHz samples.
func level(pcm []int16, hz float64) float64 {
	re, im := 0.0, 0.0
	for i, s := range pcm {
		sin, cos := math.Sincos(2 * math.Pi * hz * float64(i) / Rate)
		re, im = re+float64(s)*cos, im+float64(s)*sin
	}
	return 2 * math.Hypot(re, im) / float64(len(pcm))
}

func play(t *testing.T, path string) []int16 {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	file, err := wav.Parse(raw)
	require.NoError(t, err)
	require.Equal(t, Rate, file.Rate)
	require.Equal(t, 1, file.Channels)
	return file.Samples
}

func TestFormats(t *testing.T) {
	t.Parallel()
	mp3, err := os.ReadFile("testdata/tone440.mp3")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		src    []byte
		second float64 // amplitude of the octave above
	}{
		"8 kHz mono":     {tone(8000, 1, 440, time.Second/2), 0},
		"44.1 kHz":       {tone(44100, 1, 440, time.Second/2), 0},
		"48 kHz stereo":  {tone(48000, 2, 440, time.Second/2), 4000},
		"16 kHz stereo":  {tone(16000, 2, 440, time.Second/2), 4000},
		"MP3 of 22 kHz":  {mp3, 0},
		"MP3 with a tag": {append([]byte("ID3\x03\x00\x00\x00\x00\x00\x0a0123456789"), mp3...), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWeb(t, c.src)
			cache, _ := newCache(t, Config{})
			path, err := cache.Path(t.Context(), "acme", w.URL+"/a")
			require.NoError(t, err)
			pcm := play(t, path)
			require.Greater(t, len(pcm), Rate*45/100)
			middle := pcm[1600:3200]
			want := 8000.0
			if c.second > 0 {
				want = 4000
			}
			if name[:3] == "MP3" {
				want = 16384
			}
			require.InDelta(t, want, level(middle, 440), want/10)
			require.InDelta(t, c.second, level(middle, 880), 600)
		})
	}
}

func TestOneFetchForAll(t *testing.T) {
	t.Parallel()
	w := newWeb(t, tone(8000, 1, 440, time.Second/10))
	hold := make(chan struct{})
	w.set(func(w *web) { w.hold = hold })
	cache, _ := newCache(t, Config{})
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			_, err := cache.Path(t.Context(), "acme", w.URL)
			require.NoError(t, err)
		})
	}
	// One who gives up neither ends the fetch of the others, nor waits for it.
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := cache.Path(gone, "acme", w.URL)
	require.ErrorIs(t, err, context.Canceled)
	close(hold)
	group.Wait()
	asked, _ := w.counts()
	require.Equal(t, 1, asked)

	// The same audio under another address is the same file.
	other := newWeb(t, tone(8000, 1, 440, time.Second/10))
	one, err := cache.Path(t.Context(), "acme", w.URL)
	require.NoError(t, err)
	two, err := cache.Path(t.Context(), "acme", other.URL)
	require.NoError(t, err)
	require.Equal(t, one, two)
}

func TestFreshUnchangedChangedAndStale(t *testing.T) {
	t.Parallel()
	w := newWeb(t, tone(8000, 1, 440, time.Second/10))
	w.set(func(w *web) { w.etag = `"1"` })
	cache, clk := newCache(t, Config{})
	first, err := cache.Path(t.Context(), "acme", w.URL)
	require.NoError(t, err)
	_, err = cache.Path(t.Context(), "acme", w.URL)
	require.NoError(t, err)
	asked, full := w.counts()
	require.Equal(t, []int{1, 1}, []int{asked, full}, "a fresh one is not asked for")

	clk.advance(6 * time.Minute)
	again, err := cache.Path(t.Context(), "acme", w.URL)
	require.NoError(t, err)
	require.Equal(t, first, again)
	asked, full = w.counts()
	require.Equal(t, []int{2, 1}, []int{asked, full}, "an unchanged one is not sent again")

	w.set(func(w *web) { w.etag, w.body = `"2"`, tone(8000, 1, 880, time.Second/10) })
	clk.advance(6 * time.Minute)
	second, err := cache.Path(t.Context(), "acme", w.URL)
	require.NoError(t, err)
	require.NotEqual(t, first, second)

	w.set(func(w *web) { w.etag, w.status = `"3"`, http.StatusBadGateway })
	clk.advance(6 * time.Minute)
	stale, err := cache.Path(t.Context(), "acme", w.URL)
	require.NoError(t, err, "what was fetched before serves")
	require.Equal(t, second, stale)

	require.NoError(t, os.Remove(stale))
	w.set(func(w *web) { w.status = http.StatusOK })
	back, err := cache.Path(t.Context(), "acme", w.URL)
	require.NoError(t, err, "a file that somebody removed is fetched again")
	require.FileExists(t, back)
}

func TestRefused(t *testing.T) {
	t.Parallel()
	good := tone(8000, 1, 440, time.Second/10)
	limits := Config{MaxSource: 4096, MaxLength: 200 * time.Millisecond}
	patient, _ := newCache(t, limits)
	limits.Timeout = 200 * time.Millisecond
	hurried, _ := newCache(t, limits)
	for name, c := range map[string]struct {
		address string
		serve   func(w *web)
		want    error
		reason  string
	}{
		"scheme":       {address: "ftp://127.0.0.1/a", want: ErrAddress, reason: "its address can't be used"},
		"no host":      {address: "http:///a", want: ErrAddress},
		"no URL":       {address: "::", want: ErrAddress},
		"file":         {address: "file:///etc/passwd", want: ErrAddress},
		"private":      {address: "http://10.0.0.1/a", want: netguard.ErrForbidden, reason: "its address can't be used"},
		"refused":      {address: "http://127.0.0.1:1/a", reason: "its server refused the connection"},
		"no local":     {address: "prompt:welcome.wav", want: ErrAddress},
		"missing":      {serve: func(w *web) { w.status = http.StatusNotFound }, reason: "its server answered 404"},
		"no audio":     {serve: func(w *web) { w.body = []byte("<html>") }, want: ErrFormat, reason: "it is neither WAV nor MP3"},
		"empty":        {serve: func(w *web) { w.body = nil }, want: ErrFormat},
		"too large":    {serve: func(w *web) { w.body = make([]byte, 5000) }, want: ErrTooLarge},
		"too long":     {serve: func(w *web) { w.body = tone(4000, 1, 440, time.Second/4) }, want: ErrTooLarge, reason: "it is too large, or plays too long"},
		"broken MP3":   {serve: func(w *web) { w.body = []byte{0xff, 0xfb, 0x90, 0x64, 0, 0} }},
		"never answer": {serve: func(w *web) { w.hold = make(chan struct{}) }, want: context.DeadlineExceeded, reason: "its server didn't answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := c.address
			if c.serve != nil {
				w := newWeb(t, good)
				w.set(c.serve)
				address = w.URL + "/a?secret=hush"
			}
			cache := patient
			if errors.Is(c.want, context.DeadlineExceeded) {
				cache = hurried
			}
			_, err := cache.Path(t.Context(), "acme", address)
			var failed *FetchError
			require.ErrorAs(t, err, &failed)
			require.NotContains(t, err.Error(), "hush")
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
			}
			if c.reason != "" {
				require.Equal(t, c.reason, failed.Reason())
			}
		})
	}
}

// TestLongAnswers: of an answer's header neither much is read nor much is told.
func TestLongAnswers(t *testing.T) {
	t.Parallel()
	cache, _ := newCache(t, Config{})
	good := tone(8000, 1, 440, time.Second/10)
	for name, answer := range map[string]string{
		"no HTTP":   strings.Repeat("\x01", maxHeader/2) + "\r\n\r\n",
		"long ETag": fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\nETag: %s\r\n\r\n%s", len(good), strings.Repeat("e", 4*maxHeader), good),
	} {
		server := httptest.NewServer(http.HandlerFunc(func(res http.ResponseWriter, _ *http.Request) {
			if c, _, err := http.NewResponseController(res).Hijack(); err == nil {
				_, _ = io.WriteString(c, answer)
				_ = c.Close()
			}
		}))
		_, err := cache.Path(t.Context(), "acme", server.URL)
		require.Error(t, err, name)
		require.Less(t, len(err.Error()), 400, name)
		server.Close()
	}
}

func TestRefusedElsewhere(t *testing.T) {
	t.Parallel()
	w := newWeb(t, tone(8000, 1, 440, time.Second/10))
	cache, _ := newCache(t, Config{})
	redirect := httptest.NewServer(http.RedirectHandler("http://10.0.0.1/", http.StatusFound))
	defer redirect.Close()
	_, err := cache.Path(t.Context(), "acme", redirect.URL)
	require.ErrorIs(t, err, netguard.ErrForbidden, "a redirect leads nowhere that is forbidden")
	_, err = cache.Path(t.Context(), "acme", w.URL)
	require.NoError(t, err)
	cache.Close()
	_, err = cache.Path(t.Context(), "acme", w.URL+"/other")
	require.ErrorIs(t, err, ErrClosed)
}

func TestLocalPrompts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "en"), 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "en", "welcome.wav"), tone(16000, 1, 440, time.Second/5), 0o600))
	outside := filepath.Join(t.TempDir(), "secret.wav")
	require.NoError(t, os.WriteFile(outside, tone(8000, 1, 440, time.Second/5), 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "link.wav")))
	cache, clk := newCache(t, Config{Local: dir})
	for _, name := range []string{"prompt:en/welcome.wav", "prompt:/en/welcome.wav", "prompt://en/welcome.wav"} {
		path, err := cache.Path(t.Context(), "acme", name)
		require.NoError(t, err, name)
		require.InDelta(t, 8000, level(play(t, path)[400:1200], 440), 800)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "en", "welcome.wav"), tone(16000, 1, 880, time.Second/4), 0o600))
	clk.advance(time.Hour)
	path, err := cache.Path(t.Context(), "acme", "prompt:en/welcome.wav")
	require.NoError(t, err)
	require.InDelta(t, 8000, level(play(t, path)[400:1200], 880), 800)
	for _, bad := range []string{"prompt:../secret.wav", "prompt:en", "prompt:", "prompt:none.wav", "prompt:link.wav"} {
		_, err := cache.Path(t.Context(), "acme", bad)
		require.Error(t, err, bad)
	}
}

func TestBounded(t *testing.T) {
	t.Parallel()
	w := newWeb(t, nil)
	dir := t.TempDir()
	cache, clk := newCache(t, Config{Dir: dir, MaxBytes: 5000, MaxOwned: 5000})
	get := func(c *Cache, hz float64) (string, error) {
		w.set(func(w *web) { w.body = tone(8000, 1, hz, 100*time.Millisecond) }) // 1,644 bytes
		return c.Path(t.Context(), "acme", fmt.Sprintf("%s/%v", w.URL, hz))
	}
	first, err := get(cache, 400)
	require.NoError(t, err)
	clk.advance(time.Minute)
	for _, hz := range []float64{500, 600} {
		_, err := get(cache, hz)
		require.NoError(t, err)
	}
	_, err = get(cache, 700)
	require.ErrorIs(t, err, ErrFull, "what may be playing stays")
	clk.advance(59*time.Minute + 30*time.Second)
	_, err = get(cache, 700)
	require.NoError(t, err)
	require.NoFileExists(t, first, "the oldest went")

	require.NoError(t, os.WriteFile(filepath.Join(dir, tempPrefix+"x"), []byte("half"), 0o600))
	later, _ := newCache(t, Config{Dir: dir, MaxBytes: 5000, MaxOwned: 5000})
	require.NoFileExists(t, filepath.Join(dir, tempPrefix+"x"))
	_, err = get(later, 800)
	require.ErrorIs(t, err, ErrFull, "the files of an earlier process count")
}

// One tenant's prompts take the room of nobody else.
func TestShares(t *testing.T) {
	t.Parallel()
	w := newWeb(t, nil)
	dir := t.TempDir()
	cache, clk := newCache(t, Config{Dir: dir, MaxBytes: 14_000}) // a share of 3,500: two files
	get := func(owner string, hz float64) error {
		w.set(func(w *web) { w.body = tone(8000, 1, hz, 100*time.Millisecond) }) // 1,644 bytes
		_, err := cache.Path(t.Context(), owner, fmt.Sprintf("%s/%v", w.URL, hz))
		return err
	}
	for hz := 400.0; hz < 420; hz++ {
		if err := get("greedy", hz); hz >= 402 {
			require.ErrorIs(t, err, ErrFull)
		} else {
			require.NoError(t, err)
		}
	}
	require.NoError(t, get("modest", 500))
	require.NoError(t, get("greedy", 500), "what another one has is shared, and counts against that one")
	clk.advance(2 * time.Hour)
	require.NoError(t, get("modest", 501))
	require.NoError(t, get("greedy", 600), "its own idle files go")
	require.NoError(t, get("modest", 501))
}

// The slow sources of one tenant keep nobody else waiting.
func TestSlowSourcesOfOneOwner(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	var open sync.WaitGroup
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		open.Done()
		select {
		case <-gate:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(slow.Close)
	w := newWeb(t, tone(8000, 1, 440, 100*time.Millisecond))
	cache, _ := newCache(t, Config{Dir: t.TempDir()})
	open.Add(maxFetches)
	var asked sync.WaitGroup
	for i := range 3 * maxFetches {
		asked.Go(func() {
			_, err := cache.Path(t.Context(), "greedy", fmt.Sprintf("%s/%d", slow.URL, i))
			assert.Error(t, err)
		})
	}
	open.Wait()
	_, err := cache.Path(t.Context(), "modest", w.URL)
	require.NoError(t, err)
	open.Add(2 * maxFetches) // those that had to wait their turn
	close(gate)
	asked.Wait()
}

func FuzzConvert(f *testing.F) {
	mp3, err := os.ReadFile("testdata/tone440.mp3")
	require.NoError(f, err)
	f.Add(mp3)
	f.Add(tone(11025, 2, 440, time.Second/50))
	f.Add([]byte("RIFF"))
	f.Fuzz(func(t *testing.T, src []byte) {
		out, err := convert(src, time.Second)
		if err != nil {
			require.True(t, errors.Is(err, ErrFormat) || errors.Is(err, ErrTooLarge), err)
			return
		}
		parsed, err := wav.Parse(out)
		require.NoError(t, err)
		require.Equal(t, Rate, parsed.Rate)
	})
}

// An outage is logged once, and its end, with the address but none of the secrets that it may carry.
func TestOutageIsLoggedOnce(t *testing.T) {
	t.Parallel()
	w := newWeb(t, tone(8000, 1, 440, time.Second/10))
	var logs bytes.Buffer // written before Path returns
	cache, clk := newCache(t, Config{Logger: slog.New(slog.NewTextHandler(&logs, nil))})
	address := strings.Replace(w.URL, "://", "://user:secret1@", 1) + "/told.wav?token=secret2#secret3"
	for range 2 {
		w.set(func(w *web) { w.status = http.StatusBadGateway })
		for range 3 {
			clk.advance(6 * time.Minute)
			_, _ = cache.Path(t.Context(), "acme", address)
		}
		require.Equal(t, 1, strings.Count(logs.String(), "fetching a prompt failed"), logs.String())
		w.set(func(w *web) { w.status = http.StatusOK })
		for range 2 {
			clk.advance(6 * time.Minute)
			_, err := cache.Path(t.Context(), "acme", address)
			require.NoError(t, err)
		}
		require.Equal(t, 1, strings.Count(logs.String(), "fetching a prompt recovered"), logs.String())
		require.Equal(t, 2, strings.Count(logs.String(), "url="+w.URL+"/told.wav "+"error=")+
			strings.Count(logs.String(), "url="+w.URL+"/told.wav\n"), logs.String())
		require.NotContains(t, logs.String(), "secret")
		logs.Reset()
	}
	require.Equal(t, "prompt:hold/music", Shown("prompt:hold/music"))
}

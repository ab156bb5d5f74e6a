package mediabench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/media/record"
	"github.com/ringmaster/ringmaster/media/twilio"
)

// endpoint is the part that is measured: a media.Server with one session for each caller.
type endpoint struct {
	log      *slog.Logger
	reg      *prometheus.Registry
	srv      *media.Server
	dir      string
	sessions []*media.Session
	events   sync.WaitGroup
	profile  *os.File

	// The hostile voice agents, and what computes beside the endpoint.
	attackers       sync.WaitGroup
	stopAttack      context.CancelFunc
	struck, refused atomic.Int64 // sessions that were closed, and dials that failed
	heapBefore      uint64
	heapPeak        uint64 // of watchHeap's goroutine until watching is done
	watching        sync.WaitGroup
	stopWatch       chan struct{}
	ended           atomic.Bool
	burnt           atomic.Uint64
}

// endpointSums is what the endpoint counted from the first packet to the last.
type endpointSums struct {
	PacketsIn  uint64 `json:"packets_in"`
	PacketsOut uint64 `json:"packets_out"`
	// Dropped are frames that the AI did not get.
	Dropped   uint64 `json:"dropped"`
	Late      uint64 `json:"late"` // packets behind the jitter buffer
	Concealed uint64 `json:"concealed"`
	LateSlots uint64 `json:"late_slots"` // ticks that were left out
	// RecordingBytes is the size of all recordings, FailedRecordings how many ended early.
	RecordingBytes   int64  `json:"recording_bytes"`
	FailedRecordings uint64 `json:"failed_recordings"`
	// HeapGrowth is how much more the heap held at most, beside hostile agents, than before they came.
	HeapGrowth uint64 `json:"heap_growth"`
	// Struck are the hostile sessions that were closed, Refused the hostile agents' handshakes that failed.
	Struck  int64 `json:"struck"`
	Refused int64 `json:"refused"`
}

func (e *endpoint) addr() string { return "" }

func (e *endpoint) do(ctx context.Context, c command) (reply, error) {
	switch c.Do {
	case doOpen:
		err := e.open(ctx, c)
		if err != nil {
			return reply{}, err
		}
		return reply{Addr: e.srv.SIPAddr()}, nil
	case doBegin:
		if err := e.startProfile(c.Options.Profile); err != nil {
			return reply{}, err
		}
		return sampled()
	case doEnd:
		r, err := sampled()
		return r, errors.Join(err, e.endProfile())
	case doFinish:
		sums, err := e.finish() //nolint:contextcheck // the endpoint ends in order, whatever becomes of the parent
		return reply{Endpoint: sums}, err
	case doAttack:
		e.burn(c.Options.CPUBound)
		if c.Options.Hostile > 0 {
			runtime.GC()
			e.heapBefore, e.stopWatch = heapBytes(), make(chan struct{})
			e.watching.Go(func() { e.watchHeap(e.stopWatch) })
			e.attack(c.URL, c.Options.Hostile) //nolint:contextcheck // it ends with the endpoint
		}
		return reply{}, nil
	case doCall, doQuiet:
	}
	return unexpected(c)
}

func (e *endpoint) open(ctx context.Context, c command) (err error) {
	o := c.Options
	jobs := runtime.GOMAXPROCS(0)
	if shards := media.RaiseProcessors(jobs); o.Shards == 0 {
		o.Shards = shards
	}
	if o.Hostile > 0 { // what becomes of their sockets is counted
		e.log = slog.New(slog.DiscardHandler)
	}
	e.reg = prometheus.NewRegistry()
	e.srv, err = media.New(media.Config{
		SIPAddr: "127.0.0.1:0", RTPPortMin: 30000, RTPPortMax: 59998, Shards: o.Shards,
		DialGuard: netguard.Policy{AllowLoopback: true}, Logger: e.log, Registerer: e.reg,
	})
	if err != nil {
		return err
	}
	if err := e.srv.Start(ctx); err != nil {
		return err
	}
	if o.Record {
		if e.dir, err = os.MkdirTemp(o.Dir, "ringmaster-bench-"); err != nil {
			return fmt.Errorf("make a folder for the recordings: %w", err)
		}
	}
	e.sessions = make([]*media.Session, o.Calls)
	errs := make([]error, o.Calls)
	room := make(chan struct{}, dialing)
	var wg sync.WaitGroup
	for i := range o.Calls {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			e.sessions[i], errs[i] = e.srv.Open(ctx, e.spec(i, c.URL, o))
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("open the sessions: %w", err)
	}
	for _, s := range e.sessions {
		e.events.Go(func() { e.watch(s.Events()) })
	}
	return nil
}

func (e *endpoint) spec(i int, url string, o Options) media.SessionSpec {
	spec := media.SessionSpec{
		ID: sessionID(i), CallID: sessionID(i), URL: url, Subprotocol: o.Subprotocol,
		Audio:        media.AudioFormat{Encoding: media.Encoding(o.Encoding), SampleRateHz: o.Rate},
		ReconnectFor: 5 * time.Second,
	}
	if o.Transport == string(media.TransportTwilio) {
		id := [16]byte{14: byte(i >> 8), 15: byte(i)}
		spec.Transport = media.TransportTwilio
		spec.Twilio = media.TwilioStream{
			AccountSID: twilio.SID(twilio.AccountPrefix, id), CallSID: twilio.SID(twilio.CallPrefix, id), StreamSID: twilio.SID(twilio.StreamPrefix, id),
		}
	}
	if o.Record {
		spec.Recording = &record.Spec{Path: filepath.Join(e.dir, spec.ID+".wav"), Start: time.Now()}
	}
	return spec
}

// watch logs what should not happen during a measurement.
func (e *endpoint) watch(events <-chan media.Event) {
	for ev := range events {
		switch ev := ev.(type) {
		case media.SocketBroken, media.SocketClosed, media.RecordingFailed:
			e.log.Warn("the endpoint reported a fault", "event", fmt.Sprintf("%T: %v", ev, ev))
		}
	}
}

func (e *endpoint) startProfile(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("create a profile: %w", err)
	}
	e.profile = f
	return pprof.StartCPUProfile(f)
}

func (e *endpoint) endProfile() error {
	if e.profile == nil {
		return nil
	}
	pprof.StopCPUProfile()
	err := e.profile.Close()
	e.profile = nil
	return err
}

// finish closes all sessions and sums up.
func (e *endpoint) finish() (*endpointSums, error) {
	e.relent()
	sums := &endpointSums{Struck: e.struck.Load(), Refused: e.refused.Load()}
	if e.heapPeak > e.heapBefore {
		sums.HeapGrowth = e.heapPeak - e.heapBefore
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	room := make(chan struct{}, dialing)
	for _, s := range e.sessions {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			st := s.Close(media.CloseHangup)
			mu.Lock()
			defer mu.Unlock()
			sums.PacketsIn += st.PacketsIn
			sums.PacketsOut += st.PacketsOut
		})
	}
	wg.Wait()
	e.events.Wait()
	err := e.stop()
	sums.Dropped = e.counter("ai_frames_dropped_total", "")
	sums.Late = e.counter("rtp_discarded_total", "late")
	sums.Concealed = e.counter("concealed_frames_total", "")
	sums.LateSlots = e.counter("late_slots_total", "")
	sums.FailedRecordings = e.counter("recordings_total", "failed")
	sums.RecordingBytes = folderSize(e.dir)
	return sums, err
}

// counter reads one of the endpoint's metrics; label is the value of its only label, if it has one.
func (e *endpoint) counter(name, label string) uint64 {
	families, err := e.reg.Gather()
	if err != nil {
		e.log.Warn("the endpoint's metrics could not be read", "error", err)
	}
	for _, f := range families {
		if f.GetName() != "ringmaster_media_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			if l := m.GetLabel(); label == "" || len(l) == 1 && l[0].GetValue() == label {
				return uint64(m.GetCounter().GetValue())
			}
		}
	}
	return 0
}

func folderSize(dir string) int64 {
	entries, err := os.ReadDir(dir)
	if dir == "" || err != nil {
		return 0
	}
	var n int64
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			n += info.Size()
		}
	}
	return n
}

// stop ends the server, once.
func (e *endpoint) stop() error {
	if e.srv == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := e.srv.Close(ctx)
	e.srv = nil
	return err
}

// relent ends the hostile agents' sessions and what computes.
func (e *endpoint) relent() {
	e.ended.Store(true)
	if e.stopAttack == nil {
		return
	}
	e.stopAttack()
	e.attackers.Wait()
	e.stopAttack = nil
	close(e.stopWatch)
	e.watching.Wait()
}

func (e *endpoint) close() error {
	e.relent()
	err := errors.Join(e.endProfile(), e.stop())
	e.events.Wait()
	if e.dir != "" {
		err = errors.Join(err, os.RemoveAll(e.dir))
	}
	return err
}

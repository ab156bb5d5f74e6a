package mediabench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ringmaster/ringmaster/store/retry"
)

// Options say what is measured. They go to every part.
type Options struct {
	Calls   int `json:"calls"`
	Seconds int `json:"seconds"`
	// Warm is how many seconds of calls go before the measured ones.
	Warm   int  `json:"warm"`
	Record bool `json:"record"`
	// Dir takes the recordings' temporary folder; the system's own when empty.
	Dir         string `json:"dir,omitempty"`
	Subprotocol string `json:"subprotocol,omitempty"`
	// Transport is the protocol on the AI's socket: websocket, the default, or twilio.
	Transport string `json:"transport,omitempty"`
	Encoding  string `json:"encoding,omitempty"`
	Rate      int    `json:"rate,omitempty"`
	// Shards is the number of the endpoint's tick threads; its own choice when 0.
	Shards int `json:"shards,omitempty"`
	// Hostile is how many voice agents flood the endpoint meanwhile, CPUBound how many goroutines compute in its process.
	Hostile  int `json:"hostile,omitempty"`
	CPUBound int `json:"cpu_bound,omitempty"`
	// Profile, if set, takes a CPU profile of the endpoint.
	Profile string `json:"profile,omitempty"`
}

// Quantiles describe one measure.
type Quantiles struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// quantiles sorts v.
func quantiles(v []float64) Quantiles {
	if len(v) == 0 {
		return Quantiles{}
	}
	slices.Sort(v)
	at := func(q float64) float64 {
		return math.Round(1000*v[min(int(q*float64(len(v))), len(v)-1)]) / 1000
	}
	return Quantiles{P50: at(0.5), P99: at(0.99), P999: at(0.999), Max: at(1)}
}

// PartResult is what one process used in the measured time.
type PartResult struct {
	// CPUPerCallSecond is in microseconds, Share in processors.
	CPUPerCallSecond float64 `json:"cpu_us_per_call_s"`
	UserPerCallSec   float64 `json:"user_us_per_call_s"`
	Share            float64 `json:"share"`
	SwitchesPerSec   float64 `json:"context_switches_per_s"`
	PreemptedPerSec  float64 `json:"preempted_per_s"`
}

// Result is what a measurement has shown.
type Result struct {
	Calls    int                 `json:"calls"`
	Seconds  float64             `json:"seconds"`
	Recorded bool                `json:"recorded"`
	Parts    map[Part]PartResult `json:"parts"`
	// LostIn are packets of the callers that the endpoint did not take, LostOut the endpoint's that the callers missed.
	LostIn  int64  `json:"lost_in"`
	LostOut uint64 `json:"lost_out"`
	Packets uint64 `json:"packets"` // sent by both sides
	// DeviationMS is how far packets to the callers lay from the 20 ms grid, by the kernel's time of their arrival.
	DeviationMS Quantiles `json:"deviation_ms"`
	RoundTripMS Quantiles `json:"round_trip_ms"`
	Markers     int       `json:"markers"`
	Dropped     uint64    `json:"ai_frames_dropped"`
	Concealed   uint64    `json:"concealed"`
	LateSlots   uint64    `json:"late_slots"`
	// AllocsPerFrame counts objects of the heap for each 20 ms of a call.
	AllocsPerFrame   float64 `json:"allocs_per_frame"`
	BytesPerFrame    float64 `json:"bytes_per_frame"`
	Collections      uint64  `json:"collections"`
	RecordingBytes   int64   `json:"recording_bytes"`
	FailedRecordings uint64  `json:"failed_recordings"`
	// Hostile and CPUBound are what there was beside the calls; HeapGrowthMB, Struck and Refused belong to the former.
	Hostile      int     `json:"hostile,omitempty"`
	CPUBound     int     `json:"cpu_bound,omitempty"`
	HeapGrowthMB float64 `json:"heap_growth_mib,omitempty"`
	Struck       int64   `json:"hostile_struck,omitempty"`
	Refused      int64   `json:"hostile_refused,omitempty"`
}

// maxHeapGrowth is what hostile agents may add to the heap, in MiB.
const maxHeapGrowth = 200.0

// maxDeviation is the 99th percentile of the grid's deviation that a measurement may show, in ms.
const maxDeviation = 5.0

// Faults names what has failed: RTP was lost, the grid was missed, AI frames were dropped, a recording ended early.
func (r *Result) Faults() []string {
	var f []string
	if r.LostIn > 0 || r.LostOut > 0 {
		f = append(f, fmt.Sprintf("RTP lost: %d of the callers, %d of the endpoint", r.LostIn, r.LostOut))
	}
	if r.DeviationMS.P99 > maxDeviation {
		f = append(f, fmt.Sprintf("grid deviation p99 %.2f ms", r.DeviationMS.P99))
	}
	if r.Dropped > 0 {
		f = append(f, fmt.Sprintf("%d AI frames dropped", r.Dropped))
	}
	if r.FailedRecordings > 0 {
		f = append(f, fmt.Sprintf("%d recordings ended early", r.FailedRecordings))
	}
	if r.HeapGrowthMB > maxHeapGrowth {
		f = append(f, fmt.Sprintf("hostile agents took %.0f MiB of heap", r.HeapGrowthMB))
	}
	return f
}

// Run measures once, with fresh processes.
func Run(ctx context.Context, start Starter, o Options) (res *Result, err error) {
	parts := map[Part]*peer{}
	all := Parts()
	if o.Hostile > 0 {
		all = slices.Insert(all, 1, PartHostile)
	}
	defer func() {
		for _, p := range slices.Backward(all) {
			if parts[p] != nil {
				err = errors.Join(err, parts[p].end())
			}
		}
	}()
	for _, p := range all {
		if parts[p], err = startPeer(ctx, start, p); err != nil {
			return nil, err
		}
	}
	opened, err := parts[PartEndpoint].ask(command{Do: doOpen, Options: o, URL: parts[PartAI].addr})
	if err != nil {
		return nil, err
	}
	if _, err := parts[PartCallers].ask(command{Do: doCall, Options: o, Target: opened.Addr}); err != nil {
		return nil, err
	}
	if o.Hostile > 0 || o.CPUBound > 0 {
		attack := command{Do: doAttack, Options: o}
		if h := parts[PartHostile]; h != nil {
			attack.URL = h.addr
		}
		if _, err := parts[PartEndpoint].ask(attack); err != nil {
			return nil, err
		}
	}
	if err := retry.Pause(ctx, time.Duration(o.Warm)*time.Second); err != nil {
		return nil, err
	}
	before, err := sampleAll(parts, command{Do: doBegin, Options: o})
	if err != nil {
		return nil, err
	}
	if err := retry.Pause(ctx, time.Duration(o.Seconds)*time.Second); err != nil {
		return nil, err
	}
	after, err := sampleAll(parts, command{Do: doEnd, Options: o})
	if err != nil {
		return nil, err
	}
	quiet, err := parts[PartCallers].ask(command{Do: doQuiet})
	if err != nil {
		return nil, err
	}
	done, err := parts[PartEndpoint].ask(command{Do: doFinish})
	if err != nil {
		return nil, err
	}
	if quiet.Heard == nil || done.Endpoint == nil {
		return nil, fmt.Errorf("%w: a report is missing", ErrPart)
	}
	return newResult(o, before, after, quiet.Heard, done.Endpoint), nil
}

func newResult(o Options, before, after map[Part]usage, h *heard, e *endpointSums) *Result {
	took := float64(after[PartEndpoint].AtNS-before[PartEndpoint].AtNS) / 1e9
	res := &Result{
		Calls: o.Calls, Seconds: took, Recorded: o.Record, Parts: map[Part]PartResult{},
		LostIn: int64(h.Sent) - int64(e.PacketsIn), LostOut: h.Lost, Packets: h.Sent + e.PacketsOut,
		DeviationMS: h.DeviationMS, RoundTripMS: h.RoundTripMS, Markers: h.Markers,
		Dropped: e.Dropped, Concealed: e.Concealed, LateSlots: e.LateSlots,
		RecordingBytes: e.RecordingBytes, FailedRecordings: e.FailedRecordings,
		Hostile: o.Hostile, CPUBound: o.CPUBound, HeapGrowthMB: float64(e.HeapGrowth) / (1 << 20), Struck: e.Struck, Refused: e.Refused,
	}
	for p, b := range before {
		a := after[p]
		wall := float64(a.AtNS-b.AtNS) / 1e9
		cpu := float64(a.UserNS+a.SystemNS-b.UserNS-b.SystemNS) / 1e3
		res.Parts[p] = PartResult{
			CPUPerCallSecond: cpu / (wall * float64(o.Calls)),
			UserPerCallSec:   float64(a.UserNS-b.UserNS) / 1e3 / (wall * float64(o.Calls)),
			Share:            cpu / 1e6 / wall,
			SwitchesPerSec:   float64(a.Switches-b.Switches) / wall,
			PreemptedPerSec:  float64(a.Preempted-b.Preempted) / wall,
		}
	}
	frames := took * 50 * float64(o.Calls)
	b, a := before[PartEndpoint], after[PartEndpoint]
	res.AllocsPerFrame = float64(a.Objects-b.Objects) / frames
	res.BytesPerFrame = float64(a.Bytes-b.Bytes) / frames
	res.Collections = a.Collection - b.Collection
	return res
}

// sampleAll asks every part at the same moment, as near as may be.
func sampleAll(parts map[Part]*peer, c command) (map[Part]usage, error) {
	for _, p := range Parts() {
		if err := parts[p].tell(c); err != nil {
			return nil, err
		}
	}
	all := map[Part]usage{}
	for _, p := range Parts() {
		r, err := parts[p].hear()
		if err != nil {
			return nil, err
		}
		all[p] = r.Usage
	}
	return all, nil
}

// FindLimit raises the calls by step until something fails or most is reached. It returns every measurement, the last
// of which is the one that failed. A failure is only believed when a second run shows one, too.
func FindLimit(ctx context.Context, start Starter, o Options, step, most int, each func(*Result)) ([]*Result, error) {
	var all []*Result
	for ; o.Calls <= most; o.Calls += step {
		var r *Result
		for range 2 {
			var err error
			if r, err = Run(ctx, start, o); err != nil {
				return all, fmt.Errorf("%d calls: %w", o.Calls, err)
			}
			each(r)
			if len(r.Faults()) == 0 {
				break
			}
		}
		all = append(all, r)
		if len(r.Faults()) > 0 {
			break
		}
	}
	return all, nil
}

// Print writes a result for people.
func (r *Result) Print(w io.Writer) error {
	recorded := "recorded in stereo"
	if !r.Recorded {
		recorded = "not recorded"
	}
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintf(tw, "%d calls, %.1f s, %s\n", r.Calls, r.Seconds, recorded)
	_, _ = fmt.Fprintln(tw, "\tCPU µs per call-second\tof it user\tprocessors\tcontext switches/s\tpreempted/s")
	for _, p := range []Part{PartEndpoint, PartCallers, PartAI} {
		u := r.Parts[p]
		_, _ = fmt.Fprintf(tw, "%s\t%.0f\t%.0f\t%.2f\t%.0f\t%.0f\n", p, u.CPUPerCallSecond, u.UserPerCallSec, u.Share, u.SwitchesPerSec, u.PreemptedPerSec)
	}
	_, _ = fmt.Fprintf(tw, "RTP lost\t%d in, %d out of %d\n", r.LostIn, r.LostOut, r.Packets)
	for _, q := range []struct {
		name string
		q    Quantiles
	}{{"grid deviation", r.DeviationMS}, {"round trip", r.RoundTripMS}} {
		_, _ = fmt.Fprintf(tw, "%s\tp50 %.2f ms, p99 %.2f ms, p99.9 %.2f ms, max %.2f ms\n", q.name, q.q.P50, q.q.P99, q.q.P999, q.q.Max)
	}
	_, _ = fmt.Fprintf(tw, "AI frames dropped\t%d\n", r.Dropped)
	_, _ = fmt.Fprintf(tw, "concealed, ticks left out\t%d, %d\n", r.Concealed, r.LateSlots)
	_, _ = fmt.Fprintf(tw, "allocations per frame\t%.4f (%.1f bytes), %d collections\n", r.AllocsPerFrame, r.BytesPerFrame, r.Collections)
	if r.CPUBound > 0 {
		_, _ = fmt.Fprintf(tw, "goroutines that compute\t%d\n", r.CPUBound)
	}
	if r.Hostile > 0 {
		_, _ = fmt.Fprintf(tw, "hostile agents\t%d: heap +%.0f MiB at most, %d sessions closed, %d handshakes refused\n",
			r.Hostile, r.HeapGrowthMB, r.Struck, r.Refused)
	}
	if r.Recorded {
		_, _ = fmt.Fprintf(tw, "recordings\t%.1f MB, %d ended early\n", float64(r.RecordingBytes)/1e6, r.FailedRecordings)
	}
	if f := r.Faults(); len(f) > 0 {
		_, _ = fmt.Fprintf(tw, "FAILED\t%s\n", strings.Join(f, "; "))
	}
	return tw.Flush()
}

package mediabench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

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

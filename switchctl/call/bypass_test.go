package call

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// jobName is how the command of a job begins, which is told from "uuid_media off".
func (b *bench) jobName(name string) string {
	switch name {
	case "uuid_media_off":
		return "uuid_media off"
	case "uuid_media":
		return "uuid_media " + b.call.FsUuid
	}
	return name
}

// bypassInput is a line of a flow about the way of a call's audio.
func (b *bench) bypassInput(f []string) {
	switch f[0] {
	case "joins", "leaves", "memberleg", "conference", "mutes":
		b.conferenceInput(f)
	case "bypass": // the trunk's calls are taken past the switch
		id := uuid.MustParse("01930000-0000-7000-8000-0000000000aa")
		b.gate.mu.Lock()
		b.gate.trunk = &id
		b.gate.mu.Unlock()
	case "reinvites": // are accepted, refused with a status, or not answered
		b.link.mu.Lock()
		b.link.reinvite = map[bool]string{true: "", false: f[1]}[f[1] == "accepted"]
		b.link.mu.Unlock()
	case "mediabridged":
		b.c.dispatch(b.event(fs.ChannelBridge, map[string]string{"Bridge-A-Unique-ID": b.call.FsUuid, "Bridge-B-Unique-ID": b.sock.leg()}))
	case "moved":
		gap, err := time.ParseDuration(f[2])
		require.NoError(b.t, err)
		b.media.sessionOf(b.call.ID.String()).send(media.LegMoved{Remote: netip.MustParseAddrPort(f[1]), Gap: gap})
	case "silent":
		b.media.session().send(media.LegSilent{For: 10 * time.Second})
	case "bypassgaps": // tells how many gaps were measured each way, and which changes are counted
		b.trace.add("bypass gaps: %s; changes: %s", b.samples(b.c.metrics.bypassGap), b.samples(b.c.metrics.bypass))
	default:
		b.phoneInput(f)
	}
}

// samples are the counts of a metric's series, by label.
func (b *bench) samples(c prometheus.Collector) string {
	reg := prometheus.NewRegistry()
	require.NoError(b.t, reg.Register(c))
	families, err := reg.Gather()
	require.NoError(b.t, err)
	var list []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			n := float64(m.GetHistogram().GetSampleCount()) + m.GetCounter().GetValue()
			list = append(list, fmt.Sprintf("%s %.0f", m.GetLabel()[0].GetValue(), n))
		}
	}
	return strings.Join(list, ", ")
}

// TestBypassSeries: what has not happened yet is a series of 0.
func TestBypassSeries(t *testing.T) {
	t.Parallel()
	m, err := newMetrics(prometheus.NewRegistry(), func() float64 { return 0 })
	require.NoError(t, err)
	b := &bench{t: t}
	require.Equal(t, "entered 0, failed 0, left 0, silent 0", b.samples(m.bypass))
	require.Equal(t, "entered 0, left 0", b.samples(m.bypassGap))
}

// TestPressOrder: digits of two verbs go in their order, however long the first one takes, and not too many wait.
func TestPressOrder(t *testing.T) {
	t.Parallel()
	c := &Controller{}
	c.goes.guard = func(fn func()) bool { fn(); return false }
	keys := &keypad{core: &core{c: &c.host}}
	ctx, release := context.WithCancel(t.Context())
	busy := make(chan struct{})
	require.NoError(t, keys.press(func() { close(busy); <-ctx.Done() }))
	<-busy
	var got, want []int
	for i := range maxPresses {
		want = append(want, i)
		require.NoError(t, keys.press(func() { got = append(got, i) }))
	}
	require.ErrorIs(t, keys.press(func() {}), switchctl.ErrDTMFQueueFull)
	release()
	c.goes.Wait()
	require.Equal(t, want, got)
	require.NoError(t, keys.press(func() { got = nil }))
	c.goes.Wait()
	require.Nil(t, got)
}

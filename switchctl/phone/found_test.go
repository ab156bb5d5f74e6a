package phone

import (
	"context"
	"log/slog"
	"testing"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// quietLink is a switch that is told nothing.
type quietLink struct{ t *testing.T }

func (l quietLink) API(_ context.Context, cmd fs.Command) (string, error) { return l.told(cmd) }

func (l quietLink) Background(_ context.Context, cmd fs.Command) (string, error) { return l.told(cmd) }

func (l quietLink) BgAPI(_ context.Context, cmd fs.Command, _ func(string, error)) error {
	_, err := l.told(cmd)
	return err
}

func (l quietLink) Generation() uint64 { return 1 }

func (l quietLink) told(cmd fs.Command) (string, error) {
	l.t.Errorf("the switch is told: %s", cmd)
	return "", nil
}

// TestFoundLegStays: a phone whose agent is held while the switch's channels are compared, and that gets to know of both later, keeps the leg that was
// found: the agent may be talking.
func TestFoundLegStays(t *testing.T) {
	t.Parallel()
	const leg = "5b3a9e0c-0000-4000-8000-000000000001"
	var waiting []func() // goroutines that have no processor yet
	b := NewBook(Host{
		Link: quietLink{t}, Clock: rt.SystemClock{}, Log: slog.New(slog.DiscardHandler), Go: func(fn func()) { waiting = append(waiting, fn) },
		Metrics: NewMetrics(), Recovered: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "found_total", Help: "Legs found."}, []string{"how"}),
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.Accept(ctx)
	spec := Spec{TenantID: uuid.New(), AgentID: uuid.New(), Extension: "1001", Domain: "127.0.0.1", Mode: Held}
	require.NoError(t, b.Hold(spec))
	ev := esl.NewEvent("DUMP")
	for name, value := range map[string]string{
		"Answer-State": "answered", "variable_rm_agent_id": spec.AgentID.String(), "variable_rm_tenant_id": spec.TenantID.String(),
		"variable_rm_extension": spec.Extension, "variable_rm_domain": spec.Domain, "variable_rm_phone_mode": string(spec.Mode),
	} {
		ev.Set(name, value)
	}
	require.NoError(t, b.Adopt(ctx, leg, ev))
	b.Resync(1, []string{leg})
	p := b.ofChannel(leg)
	b.LetGo()
	for len(waiting) > 0 {
		run := waiting[0]
		waiting = waiting[1:]
		run()
	}
	require.True(t, p.state.Load().Up)
	require.Equal(t, leg, p.leg)
}

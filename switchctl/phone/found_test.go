package phone

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/cdr"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// foundLink is a switch that has one leg, or had it.
type foundLink struct {
	there bool
	told  []string // what isn't asked but told
}

func (l *foundLink) API(_ context.Context, cmd fs.Command) (string, error) {
	switch text := cmd.String(); {
	case !strings.HasPrefix(text, "uuid_dump"):
		l.told = append(l.told, text)
		return "", &esl.ReplyError{Text: "-ERR"}
	case l.there:
		return `{}`, nil
	}
	return "", &esl.ReplyError{Text: "-ERR No such channel!"}
}

func (l *foundLink) Background(ctx context.Context, cmd fs.Command) (string, error) {
	return l.API(ctx, cmd)
}

func (l *foundLink) BgAPI(ctx context.Context, cmd fs.Command, _ func(string, error)) error {
	_, err := l.API(ctx, cmd)
	return err
}

func (l *foundLink) Generation() uint64 { return 1 }

// TestFoundLeg: a phone whose agent is held while the switch's channels are compared, and that gets to know of both later, keeps the leg that was found:
// the agent may be talking. One that has ended before it was the phone's is none.
func TestFoundLeg(t *testing.T) {
	t.Parallel()
	const leg = "5b3a9e0c-0000-4000-8000-000000000001"
	for name, tc := range map[string]struct {
		mode  Mode
		there bool
	}{"there": {Held, true}, "gone": {Held, false}, "there, on the hook": {OnHook, true}, "gone, on the hook": {OnHook, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			link, log := &foundLink{there: tc.there}, slog.New(slog.DiscardHandler)
			var waiting []func() // goroutines that have no processor yet
			b := NewBook(Host{
				Link: link, Clock: rt.SystemClock{}, Log: log, Go: func(fn func()) { waiting = append(waiting, fn) }, Metrics: NewMetrics(),
				CDRs:      cdr.NewFolder(t.TempDir(), rt.SystemClock{}, log, func(string) bool { return false }),
				Recovered: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "found_total", Help: "Legs found."}, []string{"how"}),
			})
			b.Accept(t.Context())
			spec := Spec{TenantID: uuid.New(), AgentID: uuid.New(), Extension: "1001", Domain: "127.0.0.1", Mode: tc.mode}
			require.NoError(t, b.Hold(spec))
			ev := esl.NewEvent("DUMP")
			for name, value := range map[string]string{
				"Answer-State": "answered", "variable_rm_agent_id": spec.AgentID.String(), "variable_rm_tenant_id": spec.TenantID.String(),
				"variable_rm_extension": spec.Extension, "variable_rm_domain": spec.Domain, "variable_rm_phone_mode": string(spec.Mode),
			} {
				ev.Set(name, value)
			}
			require.NoError(t, b.Adopt(t.Context(), leg, ev))
			b.Resync(1, []string{leg})
			p := b.ofChannel(leg)
			require.NotNil(t, p)
			for _, m := range p.box.Close() {
				p.step(t.Context(), m)
			}
			p.box = rt.NewMailbox[message](mailboxLimit, ErrUnknown, errFull)
			for _, run := range waiting[1:] { // all but the phone's own
				run()
			}
			for _, m := range p.box.Close() {
				p.step(t.Context(), m)
			}
			p.timers.Stop()
			p.tell()
			require.Equal(t, tc.there || tc.mode == OnHook, p.state.Load().Up)
			require.Empty(t, link.told)
			if tc.there {
				require.Equal(t, leg, p.leg)
			} else {
				require.Empty(t, p.leg)
			}
		})
	}
}

// TestDialedThoughNothingIsFound: a phone that is held while the switch's channels can't be compared is dialed once that is given up.
func TestDialedThoughNothingIsFound(t *testing.T) {
	t.Parallel()
	b := NewBook(Host{
		Link: &foundLink{}, Clock: rt.SystemClock{}, Log: slog.New(slog.DiscardHandler), Go: func(func()) {}, Metrics: NewMetrics(),
	})
	b.Accept(t.Context())
	spec := Spec{TenantID: uuid.New(), AgentID: uuid.New(), Extension: "1001", Domain: "127.0.0.1", Mode: Held}
	require.NoError(t, b.Hold(spec))
	p := b.all()[0]
	defer p.timers.Stop()
	take := func() {
		for _, m := range p.box.Close() {
			p.step(t.Context(), m)
		}
		p.box = rt.NewMailbox[message](mailboxLimit, ErrUnknown, errFull)
	}
	take()
	require.Equal(t, legNone, p.phase, "the switch may have its leg")
	b.Compared(1)
	take()
	require.Equal(t, legDialing, p.phase)
}

package dialer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/desk"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/suppressions"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/admission"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// ways are the ways to a number, each with somebody else's call, lead or campaign where it needs one.
type ways map[string]func(t *testing.T, number string) admission.Request

func (p *people) ways(t *testing.T) ways {
	t.Helper()
	campaign := p.running(t).ID
	third := func(t *testing.T) admission.Request {
		t.Helper()
		parent := storetest.NewID(t)
		storetest.Exec(t, p.st, p.tenant, `INSERT INTO calls (tenant_id, id, node, fs_uuid, direction, status, from_number, to_number,
			answer_time) VALUES ($1, $2::uuid, 'node-1', $2::uuid::text, 'inbound', 'answered', '+911', '+912', now())`, p.tenant, parent)
		return admission.Request{TenantID: p.tenant, Purpose: admission.PurposeTransfer, ParentCallID: &parent}
	}
	return ways{
		"lead": func(t *testing.T, number string) admission.Request {
			t.Helper()
			return p.request(t, campaign, p.push(t, campaign, number))
		},
		"single": func(t *testing.T, number string) admission.Request {
			t.Helper()
			voiceAgent := p.agent(t).ID
			return admission.Request{
				TenantID: p.tenant, VoiceAgentID: &voiceAgent, To: mustPhone(t, number), Purpose: admission.PurposeSingle,
			}
		},
		"agent's number": func(t *testing.T, number string) admission.Request {
			t.Helper()
			agent, preview := p.person(t), p.campaign(t, campaigns.DialPreview)
			return admission.Request{
				TenantID: p.tenant, CampaignID: &preview, AgentID: &agent, To: mustPhone(t, number), Purpose: admission.PurposeSingle,
			}
		},
		"third party": func(t *testing.T, number string) admission.Request {
			t.Helper()
			req := third(t)
			req.To = mustPhone(t, number)
			return req
		},
		"SIP URI": func(t *testing.T, number string) admission.Request {
			t.Helper()
			req := third(t)
			p.sipHosts(t, "127.0.0.0/8")
			req.ToURI = "sip:+91" + number + "@127.0.0.1:5099"
			return req
		},
	}
}

// hold keeps rows locked until the function that it returns is called, or the test ends. So a statement of somebody else's waits.
func (b *bundle) hold(t *testing.T, query string, args ...any) (release func()) {
	t.Helper()
	held, done, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- b.st.InTenant(context.WithoutCancel(t.Context()), b.tenant, func(tx *store.Tx) error {
			if _, err := tx.Pgx().Exec(context.WithoutCancel(t.Context()), query, args...); err != nil {
				return err
			}
			close(held)
			<-done
			return nil
		})
	}()
	var once sync.Once
	release = func() {
		once.Do(func() {
			close(done)
			require.NoError(t, <-ended)
		})
	}
	t.Cleanup(release)
	select {
	case <-held:
	case err := <-ended:
		require.NoError(t, err)
	}
	return release
}

// waitsOr waits until so many statements of the test's database wait for locks, or done.
func (b *bundle) waitsOr(t *testing.T, n int, done <-chan error) {
	t.Helper()
	require.Eventually(t, func() bool {
		return len(done) > 0 || storetest.Count(t, b.st,
			`SELECT count(DISTINCT l.pid) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
			WHERE a.datname = current_database() AND NOT l.granted`) >= n
	}, waitFor, every)
}

func background(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// suppressing has a number suppressed, by the tenant or by its callee through an agent.
func (p *people) suppressing(t *testing.T, number string) map[string]func() error {
	t.Helper()
	ann := p.person(t)
	call, _ := p.had(t, ann, p.campaign(t, campaigns.DialPreview), number)
	return map[string]func() error{
		"opt-out": func() error {
			_, err := p.desk.Dispose(t.Context(), p.tenant, ann, desk.DisposeInput{
				CallID: input.Some(call.ID.String()), Disposition: input.Some("done"), OptOut: input.Some(true),
			})
			return err
		},
		"suppression": func() error {
			_, err := p.svc.Suppressions.AddSuppression(t.Context(), p.tenant, suppressions.Input{Phone: input.Some(number)})
			return err
		},
	}
}

// ending counts the calls to be ended of those that ring.
func (b *bundle) ending(t *testing.T, call uuid.UUID) int {
	t.Helper()
	return storetest.Count(t, b.st, "SELECT count(*) FROM river_job WHERE kind = 'unring' AND args->>'call_id' = $1", call.String())
}

// TestOptOutWinsEveryRace has numbers suppressed during admissions, by every way of dialing: with the suppression's statements before
// the admission's and its commit in the middle of them, and the other way round. Whichever commits first, the number doesn't go on
// ringing.
func TestOptOutWinsEveryRace(t *testing.T) { //nolint:tparallel // its parts lock the same rows
	t.Parallel()
	p := staffed(t)
	storetest.InboundNumber(t, p.st, p.tenant, "+918000"+randomDigits(6)) // of two numbers the one that is shown has a turn, whose end can be held up
	const number = "9876543210"
	for _, by := range []string{"opt-out", "suppression"} {
		for way, ask := range p.ways(t) {
			clear := func(t *testing.T) map[string]func() error {
				t.Helper()
				for _, table := range []string{"suppressions", "leads", "live_calls", "calls"} {
					storetest.Exec(t, p.st, p.tenant, "DELETE FROM "+table)
				}
				return p.suppressing(t, number)
			}
			t.Run(by+" before "+way, func(t *testing.T) { //nolint:paralleltest // they lock the same rows
				suppress := clear(t)[by]
				req := ask(t, number)
				// The suppression has written its row, and waits for the number's lead.
				release := p.hold(t, "SELECT FROM leads WHERE campaign_id <> $1 FOR UPDATE", uuidOr(req.CampaignID))
				suppressed := background(suppress)
				p.waitsOr(t, 1, suppressed)
				admitted := background(func() error {
					_, err := passGate(t.Context(), p.svc.Gate, req)
					return err
				})
				p.waitsOr(t, 2, admitted)
				require.Empty(t, admitted, "it is admitted while its number is being suppressed")
				release()
				require.NoError(t, <-suppressed)
				require.Contains(t, []gate.Reason{gate.ReasonSuppressed, gate.ReasonLead}, reason(t, <-admitted))
			})
			t.Run(way+" before "+by, func(t *testing.T) { //nolint:paralleltest // they lock the same rows
				suppress := clear(t)[by]
				req := ask(t, number)
				// The gate has looked, and waits for the caller id.
				release := p.hold(t, "SELECT FROM numbers FOR UPDATE")
				var call uuid.UUID
				admitted := background(func() error {
					adm, err := passGate(t.Context(), p.svc.Gate, req)
					call = adm.Call.ID
					return err
				})
				p.waitsOr(t, 1, admitted)
				suppressed := background(suppress)
				p.waitsOr(t, 2, suppressed)
				require.Empty(t, suppressed, "it is told to be suppressed, and is admitted afterwards")
				release()
				require.NoError(t, <-admitted)
				require.NoError(t, <-suppressed)
				if req.Purpose != admission.PurposeTransfer {
					require.Equal(t, 1, p.ending(t, call), "it rings on")
				}
			})
		}
	}
}

func uuidOr(id *uuid.UUID) uuid.UUID {
	if id == nil {
		return uuid.Nil
	}
	return *id
}

// TestOptOutAtAnyMoment lets chance decide how admissions and suppressions of a number fall together.
func TestOptOutAtAnyMoment(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	rng := rand.New(rand.NewPCG(7, 7)) //nolint:gosec // a simulation
	all := p.ways(t)
	outcomes := map[string]int{}
	for i := range 60 {
		number := fmt.Sprintf("98765%05d", i)
		way := []string{"lead", "single", "third party"}[i%3]
		req := all[way](t, number)
		var call uuid.UUID
		var refused error
		var both sync.WaitGroup
		started := make(chan struct{}, 1)
		suppress := func() {
			_, err := p.svc.Suppressions.AddSuppression(t.Context(), p.tenant, suppressions.Input{Phone: input.Some(number)})
			if err != nil {
				t.Error(err)
			}
		}
		if rng.IntN(2) == 0 {
			both.Go(func() { started <- struct{}{}; suppress() })
			<-started
		} else {
			both.Go(func() { <-started; suppress() })
		}
		both.Go(func() {
			select {
			case started <- struct{}{}:
			default:
			}
			adm, err := passGate(t.Context(), p.svc.Gate, req)
			call, refused = adm.Call.ID, err
		})
		both.Wait()
		switch {
		case refused != nil:
			require.Contains(t, []gate.Reason{gate.ReasonSuppressed, gate.ReasonLead}, reason(t, refused))
			outcomes["refused"]++
		case req.Purpose == admission.PurposeTransfer:
			outcomes["admitted before"]++
		default:
			require.Equal(t, 1, p.ending(t, call), "%s: suppressed, admitted, and rings on", way)
			outcomes["ended"]++
		}
		_, err := passGate(t.Context(), p.svc.Gate, req)
		require.Error(t, err, "after both")
	}
	t.Log(outcomes)
}

// TestPauseWinsEveryRace: a campaign's call that is being admitted is admitted before the pause is told, or not at all; and none that
// was goes on over another route.
func TestPauseWinsEveryRace(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	storetest.InboundNumber(t, p.st, p.tenant, "+918000"+randomDigits(6)) // of two numbers the one that is shown has a turn, whose end can be held up
	campaign := p.running(t).ID
	req := p.request(t, campaign, p.push(t, campaign, "9876543210"))
	next := p.request(t, campaign, p.push(t, campaign, "9876543211"))
	release := p.hold(t, "SELECT FROM numbers FOR UPDATE")
	var adm admission.Terms
	admitted := background(func() (err error) {
		adm, err = passGate(t.Context(), p.svc.Gate, req)
		return err
	})
	p.waitsOr(t, 1, admitted)
	paused := background(func() error {
		_, err := p.svc.Campaigns.PauseCampaign(t.Context(), p.tenant, campaign)
		return err
	})
	p.waitsOr(t, 2, paused)
	require.Empty(t, paused, "it is told to be paused, and calls begin afterwards")
	release()
	require.NoError(t, <-admitted)
	require.NoError(t, <-paused)
	_, err := passGate(t.Context(), p.svc.Gate, next)
	require.Equal(t, gate.ReasonCampaign, reason(t, err))
	require.Equal(t, gate.ReasonCampaign, reason(t, p.again(t, adm)))
}

// again asks for another route of an admitted leg.
func (b *bundle) again(t *testing.T, adm admission.Terms) error {
	t.Helper()
	moved := false
	err := b.svc.Gate.Readmit(t.Context(), readmission(adm), func(context.Context, *store.Tx) error {
		moved = true
		return nil
	})
	require.Equal(t, err == nil, moved)
	return err
}

func readmission(adm admission.Terms) ledger.Readmission {
	return ledger.Readmission{Call: adm.Call, UnitID: adm.UnitID, To: adm.To, RingTimeout: adm.RingTimeout, Promised: adm.Promised}
}

// TestAnotherRouteIsJudgedAgain: what has become forbidden while one route failed isn't dialed over the next.
func TestAnotherRouteIsJudgedAgain(t *testing.T) {
	t.Parallel()
	evening := time.Date(2026, 11, 20, 20, 58, 50, 0, ist())
	suppress := func(t *testing.T, p *people, adm admission.Terms) {
		t.Helper()
		_, err := p.svc.Suppressions.AddSuppression(t.Context(), p.tenant, suppressions.Input{Phone: input.Some(adm.To.National())})
		require.NoError(t, err)
	}
	exec := func(sql string) func(*testing.T, *people, admission.Terms) {
		return func(t *testing.T, p *people, _ admission.Terms) {
			t.Helper()
			storetest.Exec(t, p.st, p.tenant, sql)
		}
	}
	listed := func(_ *testing.T, p *people, adm admission.Terms) { p.registry.add(adm.To.National()) }
	for name, c := range map[string]struct {
		change func(*testing.T, *people, admission.Terms)
		want   gate.Reason
		ways   []string // that it is for; all when nil
	}{
		"nothing":    {change: func(*testing.T, *people, admission.Terms) {}},
		"opt-out":    {change: suppress, want: gate.ReasonSuppressed},
		"registry":   {change: listed, want: gate.ReasonDNC},
		"night":      {change: func(_ *testing.T, p *people, _ admission.Terms) { p.clock.Advance(70 * time.Second) }, want: gate.ReasonWindow},
		"last ring":  {change: func(_ *testing.T, p *people, _ admission.Terms) { p.clock.Advance(50 * time.Second) }, want: gate.ReasonWindow},
		"its end":    {change: func(_ *testing.T, p *people, _ admission.Terms) { p.clock.Advance(44 * time.Second) }},
		"a holiday":  {change: exec("UPDATE tenants SET holidays = '{2026-11-20}'"), want: gate.ReasonWindow},
		"pause":      {change: exec("UPDATE campaigns SET status = 'paused'"), want: gate.ReasonCampaign, ways: []string{"lead", "agent's number"}},
		"lower cap":  {change: exec("UPDATE tenants SET daily_cap = 1"), want: gate.ReasonDailyCap, ways: []string{"lead", "single", "agent's number"}},
		"same cap":   {change: exec("UPDATE tenants SET daily_cap = 2")},
		"deletion":   {change: exec("DELETE FROM leads"), want: gate.ReasonLead, ways: []string{"lead"}},
		"its status": {change: exec("UPDATE leads SET status = 'completed'"), want: gate.ReasonLead, ways: []string{"lead"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := staffed(t, func(cfg *Config) { cfg.Legal = Hours{} })
			all := p.ways(t)
			if c.ways == nil {
				c.ways = []string{"lead", "single", "agent's number", "third party"}
			}
			for i, way := range c.ways {
				p.clock.Set(evening)
				number := fmt.Sprintf("987654321%d", i)
				storetest.Exec(t, p.st, p.tenant, "UPDATE tenants SET daily_cap = NULL, holidays = '{}'")
				storetest.Exec(t, p.st, p.tenant, "UPDATE campaigns SET status = 'running'")
				if way != "third party" {
					before, err := passGate(t.Context(), p.svc.Gate, all["single"](t, number))
					require.NoError(t, err)
					p.end(t, before.Call, "failed", "USER_BUSY")
				}
				adm, err := passGate(t.Context(), p.svc.Gate, all[way](t, number))
				require.NoError(t, err, way)
				c.change(t, p, adm)
				err = p.again(t, adm)
				if c.want == "" {
					require.NoError(t, err, way)
					continue
				}
				require.ErrorAs(t, err, new(*ledger.ReadmissionError), way)
				require.Equal(t, c.want, reason(t, err), way)
			}
		})
	}
}

// TestSuppressionDuringAnotherRoute comes before it or after it: while a leg is moved to its next route, nobody can be told that its
// number is suppressed.
func TestSuppressionDuringAnotherRoute(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	adm, err := passGate(t.Context(), p.svc.Gate, p.ways(t)["single"](t, "9876543210"))
	require.NoError(t, err)
	var suppressed <-chan error
	err = p.svc.Gate.Readmit(t.Context(), readmission(adm), func(context.Context, *store.Tx) error {
		suppressed = background(func() error { //nolint:contextcheck // it is somebody else's
			_, err := p.svc.Suppressions.AddSuppression(t.Context(), p.tenant, suppressions.Input{Phone: input.Some("9876543210")})
			return err
		})
		p.waitsOr(t, 1, suppressed) //nolint:contextcheck // the test's own
		require.Empty(t, suppressed)
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, <-suppressed)
	require.Equal(t, 1, p.ending(t, adm.Call.ID))
}

// lateSwitch runs a call only from the moment on at which the test says so.
type lateSwitch struct {
	*peopleSwitch
	runs func() bool
}

func (l lateSwitch) Hangup(ctx context.Context, tenant, call uuid.UUID, cause string) error {
	if !l.runs() {
		return ledger.ErrCallEnded
	}
	return l.peopleSwitch.Hangup(ctx, tenant, call, cause)
}

// TestOptOutEndsWhatRings on the host that runs the call, and leaves alone whom it has reached.
func TestOptOutEndsWhatRings(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	var asked atomic.Int32
	p.attach(lateSwitch{p.sw, func() bool { return asked.Add(1) > 3 }})
	all := p.ways(t)
	states := map[string]uuid.UUID{}
	for _, status := range []string{"dialing", "ringing", "answered", "ended", "elsewhere", "other number"} {
		number := "9876543210"
		if status == "other number" {
			number = "9876543211"
		}
		adm, err := passGate(t.Context(), p.svc.Gate, all["single"](t, number))
		require.NoError(t, err)
		states[status] = adm.Call.ID
		switch status {
		case "ringing":
			storetest.Exec(t, p.st, p.tenant, "UPDATE calls SET status = 'ringing', ring_time = now() WHERE id = $1", adm.Call.ID)
		case "answered":
			storetest.Exec(t, p.st, p.tenant, "UPDATE calls SET status = 'answered', answer_time = now() WHERE id = $1", adm.Call.ID)
		case "ended":
			p.end(t, adm.Call, "failed", "USER_BUSY")
		case "elsewhere":
			storetest.Exec(t, p.st, p.tenant, "UPDATE calls SET node = 'node-2' WHERE id = $1", adm.Call.ID)
		}
	}
	p.work(t)
	_, err := p.svc.Suppressions.AddSuppression(t.Context(), p.tenant, suppressions.Input{Phone: input.Some("9876543210")})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return storetest.Count(t, p.st, "SELECT count(*) FROM river_job WHERE kind = 'unring' AND state = 'completed'") == 2
	}, waitFor, every)
	p.sw.mu.Lock()
	defer p.sw.mu.Unlock()
	require.ElementsMatch(t, []uuid.UUID{states["dialing"], states["ringing"]}, p.sw.hungUp)
	require.Equal(t, 1, p.ending(t, states["elsewhere"]), "its own host ends it")
}

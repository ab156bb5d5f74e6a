package dialer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/carrier"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/admission"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// leakWorld is the world of the leak test: tenants with tight ceilings, and calls that fail at every stage. One without trunks
// has the fallback.
type leakWorld struct {
	b         *bundle
	number    string
	ceilings  [2]int // of a campaign, of the voice agent
	campaigns []campaigns.Campaign
	leads     []admission.Request
	admitted  atomic.Int64
	refused   atomic.Int64
	aborted   atomic.Int64

	mu      sync.Mutex
	crashed []db.Call // open, and forgotten by the controller that had them
}

const (
	leakCampaignMax = 12
	leakAgentMax    = 15
	leakChannels    = 20
	leakLeads       = 100 // of a campaign
)

func newLeakWorld(t *testing.T, st *store.Store, trunks bool) *leakWorld {
	t.Helper()
	w := &leakWorld{number: "8000" + randomDigits(6), ceilings: [2]int{leakCampaignMax, leakAgentMax}, b: setupOn(t, st, func(c *Config) {
		c.Now = time.Now
		c.HostTrunk = &carrier.HostTrunk{Host: "127.0.0.1", Port: 5070, Transport: "udp", NumberFormat: "e164"}
	})}
	b := w.b
	b.sipHosts(t, "127.0.0.0/8")
	storetest.InboundNumber(t, st, b.tenant, "+91"+w.number)
	maxConcurrent := strconv.Itoa(leakCampaignMax)
	if !trunks {
		w.ceilings[0], maxConcurrent = gate.FallbackChannels, "null"
	}
	for range 2 {
		if !trunks {
			break
		}
		trunk := storetest.Trunk(t, st, b.tenant, "127.0.0.1", 5070, leakChannels/2)
		storetest.Exec(t, st, b.tenant, "UPDATE trunks SET cps = 1000000 WHERE id = $1", trunk)
		storetest.Exec(t, st, b.tenant, "UPDATE numbers SET trunk_id = $1", trunk)
	}
	agent := b.agent(t)
	storetest.Exec(t, st, b.tenant, "UPDATE tenants SET default_voice_agent_id = $1 WHERE id = $2", agent.ID, b.tenant)
	storetest.Exec(t, st, b.tenant, "UPDATE voice_agents SET max_concurrent = $1", leakAgentMax)
	for range 2 {
		campaign, err := b.svc.Campaigns.CreateCampaign(t.Context(), b.tenant, decode[campaigns.Input](t, fmt.Sprintf(
			`{"name":"c","dial_mode":"progressive","post_answer_action":"connect_voice_agent","max_concurrent":%s,"max_attempts":100}`, maxConcurrent)))
		require.NoError(t, err)
		campaign, err = b.svc.Campaigns.StartCampaign(t.Context(), b.tenant, campaign.ID, campaigns.EnvironmentLive)
		require.NoError(t, err)
		w.campaigns = append(w.campaigns, campaign)
		in := make([]string, leakLeads)
		for i := range in {
			in[i] = fmt.Sprintf(`{"phone":"98765%05d"}`, i)
		}
		_, err = b.svc.Leads.PushLeads(t.Context(), b.tenant, campaign.ID, decode[leads.BulkInput](t, `{"leads":[`+strings.Join(in, ",")+`]}`))
		require.NoError(t, err)
		ids := storetest.Query[uuid.UUID](t, st, b.tenant, "SELECT id FROM leads WHERE campaign_id = $1 ORDER BY phone", campaign.ID)
		require.Len(t, ids, leakLeads)
		for i, id := range ids {
			w.leads = append(w.leads, admission.Request{
				TenantID: b.tenant, CampaignID: &campaign.ID, LeadID: &id, To: mustPhone(t, fmt.Sprintf("98765%05d", i)), Purpose: admission.PurposeLead,
				Environment: string(campaigns.EnvironmentLive), VoiceAgentID: &agent.ID,
			})
		}
	}
	return w
}

var errUndone = errors.New("undone")

// auditCeilings has the database look at every ceiling with each unit that is taken, and refuse what is above one.
func auditCeilings(t *testing.T, st *store.Store) {
	t.Helper()
	for _, statement := range []string{
		`CREATE FUNCTION audit_ceilings() RETURNS trigger LANGUAGE plpgsql AS $$
		DECLARE
			above text;
		BEGIN
			SELECT string_agg(c.what, ', ') INTO above FROM (
				SELECT 'channels' AS what, count(*) AS used,
					(SELECT sum(k.max_channels) FROM trunks k WHERE k.tenant_id = NEW.tenant_id AND k.is_active) AS ceiling
				FROM live_calls l WHERE l.tenant_id = NEW.tenant_id
				UNION ALL
				SELECT 'trunk', count(*), k.max_channels FROM live_calls l JOIN trunks k ON k.id = l.trunk_id
				WHERE l.tenant_id = NEW.tenant_id GROUP BY k.id, k.max_channels
				UNION ALL
				SELECT 'voice agent', count(*), v.max_concurrent FROM live_calls l JOIN voice_agents v ON v.id = l.voice_agent_id
				WHERE l.tenant_id = NEW.tenant_id GROUP BY v.id, v.max_concurrent
				UNION ALL
				SELECT 'campaign', count(*), coalesce(c.max_concurrent, 10) FROM live_calls l JOIN campaigns c ON c.id = l.campaign_id
				WHERE l.tenant_id = NEW.tenant_id GROUP BY c.id, c.max_concurrent
			) c WHERE c.used > c.ceiling;
			IF above IS NOT NULL THEN
				RAISE EXCEPTION 'above the ceiling: %', above;
			END IF;
			RETURN NULL;
		END $$`,
		"CREATE TRIGGER audit_ceilings AFTER INSERT OR UPDATE ON live_calls FOR EACH ROW EXECUTE FUNCTION audit_ceilings()",
	} {
		_, err := st.Pool().Exec(t.Context(), statement)
		require.NoError(t, err)
	}
}

// inbound plays a call that a carrier brings.
func (w *leakWorld) inbound(ctx context.Context, rng *rand.Rand) error {
	in := inbound(w.number)
	in.NodeID = "node-1"
	call, err := w.b.svc.Answers.Route(ctx, in)
	var busy *switchctl.BusyError
	switch {
	case errors.As(err, &busy):
		w.refused.Add(1)
		return nil
	case err != nil:
		return err
	}
	w.admitted.Add(1)
	return w.finish(ctx, rng, call)
}

// call plays one call to whatever end chance gives it.
func (w *leakWorld) call(ctx context.Context, rng *rand.Rand) error {
	if rng.IntN(10) == 0 {
		return w.inbound(ctx, rng)
	}
	req := w.leads[rng.IntN(len(w.leads))]
	if rng.IntN(3) > 0 {
		req = admission.Request{TenantID: req.TenantID, To: req.To, Purpose: admission.PurposeSingle, VoiceAgentID: req.VoiceAgentID}
	}
	admitCtx, cancel := ctx, context.CancelFunc(func() {})
	if rng.IntN(200) == 0 { // its connection dies somewhere in the admission
		admitCtx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(3000))*time.Microsecond)
	}
	adm, err := passGate(admitCtx, w.b.svc.Gate, req)
	cancel()
	var refusal *gate.RefusalError
	switch {
	case errors.As(err, &refusal):
		w.refused.Add(1)
		return nil
	case err != nil && admitCtx != ctx:
		w.aborted.Add(1) // the commit may have happened all the same: recovery finds the call
		return nil
	case err != nil:
		return err
	}
	w.admitted.Add(1)
	if rng.IntN(10) == 0 {
		transfer := admission.Request{
			TenantID: req.TenantID, To: req.To, Purpose: admission.PurposeTransfer, ParentCallID: &adm.Call.ID,
		}
		if rng.IntN(2) == 0 {
			transfer.To, transfer.ToURI = store.Phone{}, "sip:desk@127.0.0.1"
		}
		leg, err := passGate(ctx, w.b.svc.Gate, transfer)
		if err != nil && !errors.As(err, &refusal) {
			return err
		}
		if err == nil && rng.IntN(2) == 0 { // the second leg ends before the call; else with it
			err := w.b.st.InTenant(ctx, req.TenantID, func(tx *store.Tx) error {
				_, err := tx.Q.LiveUnitDelete(ctx, req.TenantID, leg.UnitID)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return w.finish(ctx, rng, adm.Call)
}

// finish ends an admitted call in one of the ways in which calls end.
func (w *leakWorld) finish(ctx context.Context, rng *rand.Rand, call db.Call) error {
	switch n := rng.IntN(100); {
	case n < 30:
		return w.close(ctx, call, "completed", "NORMAL_CLEARING")
	case n < 60:
		return w.close(ctx, call, "failed", "USER_BUSY")
	case n < 75:
		return w.close(ctx, call, "failed", ledger.CauseNetworkOutOfOrder)
	case n < 85: // the close is undone on its way and done again
		if err := w.b.closeCall(ctx, call, "failed", "NO_ANSWER", errUndone); !errors.Is(err, errUndone) {
			return fmt.Errorf("undone close: %w", err)
		}
		return w.close(ctx, call, "failed", "NO_ANSWER")
	case n < 86: // the close's connection dies
		dying, cancel := context.WithTimeout(ctx, time.Duration(rng.IntN(1500))*time.Microsecond)
		_ = w.b.closeCall(dying, call, "failed", "NO_ANSWER")
		cancel()
		return w.close(ctx, call, "failed", "NO_ANSWER")
	case n < 95: // told twice
		return errors.Join(w.close(ctx, call, "failed", "USER_BUSY"), w.close(ctx, call, "completed", "NORMAL_CLEARING"))
	default:
		w.mu.Lock()
		defer w.mu.Unlock()
		w.crashed = append(w.crashed, call)
		return nil
	}
}

// close ends a call; one that is closed already stays as it is.
func (w *leakWorld) close(ctx context.Context, call db.Call, status, cause string) error {
	if err := w.b.closeCall(ctx, call, status, cause); !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return nil
}

// recover closes what a crash has left, as a controller does when it starts.
func (w *leakWorld) recover(ctx context.Context, all bool) error {
	w.mu.Lock()
	lost := w.crashed
	w.crashed = nil
	w.mu.Unlock()
	if all {
		err := w.b.st.InSystem(ctx, func(tx *store.Tx) error {
			var err error
			lost, err = tx.Q.CallsOpenOfNode(ctx, "node-1")
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, call := range lost {
		if err := w.close(ctx, call, "failed", ledger.CauseCrash); err != nil {
			return err
		}
	}
	return nil
}

// TestUnitsNeverLeak plays 100,000 calls (1,000 under the race detector) that fail at every stage, under tight ceilings, none of
// which may be passed at any moment. Afterwards nothing is taken, no unit and no lead, and the campaigns' figures are those of
// their rows.
func TestUnitsNeverLeak(t *testing.T) {
	t.Parallel()
	total := int64(100_000)
	if testing.Short() || raceEnabled {
		total = 1_000
	}
	// The same few statements run a million times: planning each anew would take half the time.
	st := storetest.Open(t, withParameter(t, storetest.NewURL(t), "plan_cache_mode", "force_generic_plan"))
	auditCeilings(t, st)
	worlds := []*leakWorld{newLeakWorld(t, st, true), newLeakWorld(t, st, true), newLeakWorld(t, st, true), newLeakWorld(t, st, false)}
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // any seed will do
	t.Logf("seed %d", seed)
	began := time.Now()
	var played atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, 64)
	for worker := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(worker))) //nolint:gosec // a simulation; worker is not negative
			w := worlds[worker%len(worlds)]
			for played.Add(1) <= total {
				if err := w.call(t.Context(), rng); err != nil {
					errs <- err
					return
				}
				if rng.IntN(200) == 0 {
					if err := errors.Join(w.recover(t.Context(), false), w.reopenLeads(t.Context())); err != nil {
						errs <- err
						return
					}
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	require.NoError(t, errors.Join(collect(errs)...))
	refused := int64(0)
	for _, w := range worlds {
		require.NoError(t, w.recover(t.Context(), true))
		refused += w.refused.Load()
		if total == 100_000 {
			require.Positive(t, w.refused.Load(), "the ceilings were reached")
		}
		w.check(t)
		t.Logf("admitted %d, refused %d, aborted %d", w.admitted.Load(), w.refused.Load(), w.aborted.Load())
	}
	require.Positive(t, refused, "some ceiling was reached")
	require.Zero(t, storetest.Count(t, st, "SELECT count(*) FROM live_calls"), "units left")
	require.Zero(t, storetest.Count(t, st, "SELECT count(*) FROM calls WHERE end_time IS NULL"), "rows left open")
	require.Zero(t, storetest.Count(t, st, "SELECT count(*) FROM leads WHERE lead_status(status, claimed_by) IN ('dialing', 'connected')"), "leads left in a call")
	t.Logf("%d calls in %s", total, time.Since(began).Round(time.Millisecond))
}

func collect(errs <-chan error) []error {
	var out []error
	for err := range errs {
		out = append(out, err)
	}
	return out
}

// reopenLeads makes the world's finished leads dialable again.
func (w *leakWorld) reopenLeads(ctx context.Context) error {
	return w.b.st.InTenant(ctx, w.b.tenant, func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(ctx, `UPDATE leads SET status = 'new', attempts = 0, completed_at = NULL, next_attempt_at = NULL
			WHERE tenant_id = $1 AND status IN ('completed', 'exhausted')`, w.b.tenant)
		return err
	})
}

// check asks the gate itself whether every ceiling is at zero, and that exactly the tightest one can be filled.
func (w *leakWorld) check(t *testing.T) {
	t.Helper()
	require.Positive(t, w.admitted.Load())
	for _, campaign := range w.campaigns {
		require.Positive(t, w.b.requireFigures(t, campaign.ID).Calls.Total)
	}
	require.NoError(t, w.b.st.InTenant(t.Context(), w.b.tenant, func(tx *store.Tx) error {
		for _, campaign := range w.campaigns {
			facts, err := tx.Q.GateFacts(t.Context(), db.GateFactsParams{
				TenantID: w.b.tenant, CampaignID: &campaign.ID, VoiceAgentID: w.leads[0].VoiceAgentID, Node: "node-1",
			})
			require.NoError(t, err)
			require.Zero(t, facts.ChannelsUsed+facts.CampaignUsed+facts.AgentUsed+facts.CampaignUsedHere+facts.LooseUsedHere)
		}
		trunks, err := store.TrunksInUse(t.Context(), tx.Q, w.b.tenant)
		for _, trunk := range trunks {
			require.Zero(t, trunk.ChannelsUsed)
		}
		return err
	}))
	require.NoError(t, w.reopenLeads(t.Context()))
	filled := map[uuid.UUID]int{}
	var open []db.Call
	const tried = 2 * leakCampaignMax // of each campaign, which is above every ceiling
	for _, req := range slices.Concat(w.leads[:tried], w.leads[leakLeads:leakLeads+tried]) {
		adm, err := passGate(t.Context(), w.b.svc.Gate, req)
		if err == nil {
			filled[*req.CampaignID]++
			open = append(open, adm.Call)
		}
	}
	require.Len(t, open, w.ceilings[1])
	for _, n := range filled {
		require.LessOrEqual(t, n, w.ceilings[0])
	}
	for _, call := range open {
		require.NoError(t, w.close(t.Context(), call, "failed", "USER_BUSY"))
	}
}

func withParameter(t *testing.T, databaseURL, name, value string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	require.NoError(t, err)
	values := u.Query()
	values.Set(name, value)
	u.RawQuery = values.Encode()
	return u.String()
}

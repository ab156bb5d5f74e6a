package dialer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/desk"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/admission"
)

// forbidden is why a number must not ring.
type forbidden string

const (
	forbiddenNot        forbidden = "allowed"
	forbiddenRegistered forbidden = "registered"
	forbiddenLater      forbidden = "registered after the push"
	forbiddenSuppressed forbidden = "suppressed"
	forbiddenOptsOut    forbidden = "suppressed after the push"
	forbiddenUnknown    forbidden = "never scrubbed"
)

// TestNoForbiddenNumberRings pushes numbers by every way in, spelled in every way, makes most of them forbidden
// before or after, dials by pacer, single call and transfer, in and out of hours: no call of a forbidden number, and none
// out of hours, ever gets past the gate.
func TestNoForbiddenNumberRings(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	seeds := uint64(3)
	if raceEnabled { // whole in `make bench`
		seeds = 1
	}
	for _, privacy := range []store.PrivacyMode{store.PrivacyStandard, store.PrivacyStrict} {
		for seed := range seeds {
			t.Run(fmt.Sprintf("%s %d", privacy, seed), func(t *testing.T) {
				t.Parallel()
				b := setupOn(t, st, func(c *Config) { c.Legal = Hours{} }).trunkAndNumber(t)
				if privacy == store.PrivacyStrict {
					b.strict(t)
				}
				playForbidden(t, b, rand.New(rand.NewPCG(seed, 7))) //nolint:gosec // a simulation
			})
		}
	}
}

func playForbidden(t *testing.T, b *bundle, rng *rand.Rand) {
	t.Helper()
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.FixedZone("IST", 5*3600+1800))
	b.clock.Set(noon)
	campaign := b.running(t)
	sw := &singleSwitch{fakeSwitch{}}
	b.attach(sw)
	place := func(number string) (db.Call, error) {
		return b.desk.PlaceCall(t.Context(), b.tenant, campaigns.EnvironmentLive, desk.CallInput{To: input.Some(number), VoiceAgentID: input.Some(campaign.VoiceAgentID.String())})
	}
	kinds := []forbidden{
		forbiddenNot, forbiddenRegistered, forbiddenLater, forbiddenSuppressed, forbiddenOptsOut, forbiddenUnknown,
	}
	why := map[string]forbidden{} // by ten digits
	suppress := func(number string) {
		storetest.Exec(t, b.st, b.tenant, "INSERT INTO suppressions (tenant_id, phone_hash, reason) VALUES ($1, $2, 'test')",
			b.tenant, b.st.PhoneHash(b.tenant, mustPhone(t, number)))
	}
	var rows []string
	for i := range 60 {
		number := fmt.Sprintf("9%d%08d", rng.IntN(10), i)
		kind := kinds[rng.IntN(len(kinds))]
		why[number] = kind
		switch kind {
		case forbiddenRegistered:
			b.registry.add(number)
		case forbiddenSuppressed:
			suppress(number)
		case forbiddenNot, forbiddenLater, forbiddenOptsOut, forbiddenUnknown:
		}
		b.registry.setDown(kind == forbiddenUnknown)
		spelled := []string{"", "0", "91", "+91"}[rng.IntN(4)] + number
		if rng.IntN(2) == 0 || kind == forbiddenUnknown {
			_, err := b.svc.Leads.PushLead(t.Context(), b.tenant, campaign.ID, leads.Input{Phone: input.Some(spelled)})
			require.NoError(t, err)
		} else {
			rows = append(rows, fmt.Sprintf(`{"mobile":%q}`, spelled))
		}
		b.registry.setDown(false)
	}
	_, err := b.svc.Leads.PushLeads(t.Context(), b.tenant, campaign.ID, decode[leads.BulkInput](t, `{"leads":[`+strings.Join(rows, ",")+`]}`))
	require.NoError(t, err)
	for number, kind := range why {
		switch kind {
		case forbiddenLater:
			b.registry.add(number)
		case forbiddenOptsOut:
			suppress(number)
		case forbiddenNot, forbiddenRegistered, forbiddenSuppressed, forbiddenUnknown:
		}
	}
	var rang []string
	for _, at := range []time.Time{noon.Add(10 * time.Hour), noon.Add(20 * time.Hour), noon.Add(-12 * time.Hour)} {
		b.clock.Set(at)
		newPacer(b.svc.Pacers, sw, b.tenant, campaign.ID, nil).round(t.Context())
		for number, kind := range why {
			_, err := place(number)
			if refused := reason(t, err); kind == forbiddenNot {
				require.Equal(t, gate.ReasonWindow, refused)
			}
		}
		require.Empty(t, sw.dialed(), "out of hours")
	}
	b.clock.Set(noon)
	b.registry.setDown(false)
	parent, err := place("8888888888")
	require.NoError(t, err)
	for number, kind := range why {
		b.registry.setDown(kind == forbiddenUnknown)
		call, err := place(number)
		require.Equal(t, kind == forbiddenNot, err == nil, "single call, %s: %v", kind, err)
		if err == nil {
			rang = append(rang, number)
			b.end(t, call, "failed", "USER_BUSY")
		}
		_, err = passGate(t.Context(), b.svc.Gate, admission.Request{
			TenantID: b.tenant, To: mustPhone(t, number), Purpose: admission.PurposeTransfer, ParentCallID: &parent.ID,
		})
		require.Equal(t, kind == forbiddenNot, err == nil, "transfer, %s: %v", kind, err)
	}
	b.registry.setDown(false)
	for number, kind := range why {
		if kind == forbiddenUnknown {
			b.registry.silentOn(number)
		}
	}
	p := newPacer(b.svc.Pacers, &busySwitch{b: b, rang: &rang}, b.tenant, campaign.ID, nil)
	before := len(rang)
	scrub := b.svc.Scrubs.Beside(b.tenant, campaign.ID)
	for range 4 {
		scrub.Once(t.Context())
		p.round(t.Context())
	}
	require.Greater(t, len(rang), before)
	for _, number := range rang {
		require.Equal(t, forbiddenNot, why[number])
	}
	require.Zero(t, storetest.Count(t, b.st, `SELECT count(*) FROM leads l WHERE l.tenant_id = $1 AND l.attempts > 0
		AND (NOT l.dnd_clean OR l.phone_hash IN (SELECT phone_hash FROM suppressions s WHERE s.tenant_id = l.tenant_id))`, b.tenant))
}

// busySwitch notes whom it rings, and finds everybody busy.
type busySwitch struct {
	fakeSwitch
	b    *bundle
	rang *[]string
}

func (s *busySwitch) Originate(ctx context.Context, granted *admission.Admission) (db.Call, error) {
	adm, err := granted.Use()
	if err != nil {
		return db.Call{}, err
	}
	*s.rang = append(*s.rang, adm.To.National())
	return adm.Call, s.b.closeCall(ctx, adm.Call, "failed", "USER_BUSY")
}

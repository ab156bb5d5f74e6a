package dialer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/desk"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/suppressions"
	"github.com/ringmaster/ringmaster/dialer/voiceagents"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/admission"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// lawWorld is a tenant whose numbers become forbidden and whose hours change while they are dialed in every way there is. It knows
// the law by itself, from the same facts, and looks at each leg that goes out.
type lawWorld struct {
	p         *people
	rng       *rand.Rand
	gate      admission.Gate
	paced     campaigns.Campaign
	preview   uuid.UUID
	agent     uuid.UUID
	numbers   []string
	listed    map[string]time.Time // since when
	down      bool                 // nobody can ask the registry
	optedOut  map[string]bool
	holiday   string
	from, to  int                // the tenant's hours; 0 and 24 for none of its own
	callbacks map[uuid.UUID]bool // by lead

	voiceAgent, flow string // who take single calls

	mu     sync.Mutex
	ways   map[string]int // legs by way
	adms   map[uuid.UUID]admission.Terms
	paused bool           // the paced campaign
	today  map[string]int // calls by number and day
	faults []string
	open   []db.Call
}

const lawCap = 3

func ist() *time.Location { return time.FixedZone("IST", 5*3600+1800) }

// TestNoWayAroundTheLaw plays random days. RINGMASTER_SEED repeats one of them.
func TestNoWayAroundTheLaw(t *testing.T) {
	t.Parallel()
	seeds := []uint64{1, 2, uint64(time.Now().UnixNano())} //nolint:gosec // any seed will do
	if raceEnabled {                                       // whole in `make bench`
		seeds = seeds[1:]
	}
	if v, err := strconv.ParseUint(os.Getenv("RINGMASTER_SEED"), 10, 64); err == nil {
		seeds = []uint64{v}
	}
	for _, privacy := range []store.PrivacyMode{store.PrivacyStandard, store.PrivacyStrict} {
		for _, seed := range seeds {
			t.Run(fmt.Sprintf("%s %d", privacy, seed), func(t *testing.T) {
				t.Parallel()
				w := newLawWorld(t, privacy, seed)
				for range 400 {
					w.step(t)
					require.Empty(t, w.faults)
				}
				t.Logf("legs: %v", w.ways)
				if seed > 2 {
					return // what chance has played may lack something
				}
				for _, way := range []string{"pacer", "preview", "agent's number", "single", "test key", "third party", "SIP URI", "another route", "another route forbidden"} {
					require.Positive(t, w.ways[way], "no leg by %s: the test shows nothing of it", way)
				}
			})
		}
	}
}

func newLawWorld(t *testing.T, privacy store.PrivacyMode, seed uint64) *lawWorld {
	t.Helper()
	w := &lawWorld{
		rng: rand.New(rand.NewPCG(seed, 5)), listed: map[string]time.Time{}, optedOut: map[string]bool{}, to: 24, //nolint:gosec // a simulation
		callbacks: map[uuid.UUID]bool{}, ways: map[string]int{}, today: map[string]int{}, adms: map[uuid.UUID]admission.Terms{},
	}
	w.p = staffed(t, func(c *Config) { c.Legal, c.DailyCap = Hours{}, lawCap })
	if privacy == store.PrivacyStrict {
		w.p.strict(t)
	}
	w.p.sipHosts(t, "127.0.0.0/8")
	w.p.clock.Set(time.Date(2026, 11, 20, 12, 0, 0, 0, ist()))
	w.p.svc.Gate.Admitted = w.dialed
	w.gate = w.p.svc.Gate
	w.paced, w.preview = w.p.running(t), w.p.campaign(t, campaigns.DialPreview)
	storetest.Exec(t, w.p.st, w.p.tenant, `UPDATE campaigns SET max_attempts = 50, retry = '{"busy":0,"no_answer":30,"failed":0,"backoff":1}'`)
	w.agent = w.p.person(t)
	voiceAgent := w.p.agent(t)
	_, err := w.p.svc.VoiceAgents.SetDefaultVoiceAgent(t.Context(), w.p.tenant, voiceagents.DefaultInput{VoiceAgentID: input.Some(voiceAgent.ID.String())})
	require.NoError(t, err)
	w.voiceAgent = voiceAgent.ID.String()
	w.flow = w.p.saved(t, flowNodes(`{"id":"a","type":"hangup"}`)).ID.String()
	for i := range 60 {
		w.numbers = append(w.numbers, fmt.Sprintf("98%d%07d", w.rng.IntN(10), i))
	}
	return w
}

func (w *lawWorld) number() string { return w.numbers[w.rng.IntN(len(w.numbers))] }

// dialed holds a leg against the law.
func (w *lawWorld) dialed(req admission.Request, adm admission.Terms) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.p.clock.Now().In(ist())
	number, way := req.To.National(), "single"
	switch {
	case req.Environment == string(campaigns.EnvironmentTest):
		way = "test key"
	case req.ToURI != "":
		number, way = req.ToURI[len("sip:+91"):len("sip:+91")+10], "SIP URI"
	case req.Purpose == admission.PurposeTransfer:
		way = "third party"
	case req.AgentID != nil && req.LeadID != nil:
		way = "preview"
	case req.AgentID != nil:
		way = "agent's number"
	case req.LeadID != nil:
		way = "pacer"
	}
	w.ways[way]++
	fault := func(why string) {
		w.faults = append(w.faults, fmt.Sprintf("%s dialed by %s at %s: %s", number, way, now.Format(time.DateTime), why))
	}
	if req.Purpose != admission.PurposeTransfer {
		w.open = append(w.open, adm.Call)
		w.adms[adm.Call.ID] = adm
	}
	if way == "test key" {
		if len(adm.Routes) > 0 {
			fault("for a test key")
		}
		return
	}
	if why := w.forbidden(req, number, now); why != "" {
		fault(why)
	}
	if req.Purpose == admission.PurposeTransfer {
		return
	}
	day := number + now.Format(time.DateOnly)
	promised := req.LeadID != nil && w.callbacks[*req.LeadID]
	if w.today[day]++; w.today[day] > lawCap && !promised {
		fault("too often today")
	}
	if promised {
		delete(w.callbacks, *req.LeadID)
	}
}

// forbidden tells why a number may not be dialed now; it rings for 25 s.
func (w *lawWorld) forbidden(req admission.Request, number string, now time.Time) string {
	last := now.Add(25 * time.Second)
	switch {
	case w.isListed(req, number, now):
		return "on the registry"
	case w.optedOut[number]:
		return "opted out"
	case now.Hour() < max(9, w.from) || last.Hour() >= min(21, w.to) || last.Day() != now.Day():
		return "outside the hours"
	case now.Format(time.DateOnly) == w.holiday:
		return "on a holiday"
	case w.paused && req.CampaignID != nil && *req.CampaignID == w.paced.ID:
		return "of a paused campaign"
	}
	return ""
}

// again has something become forbidden while a call rings, and another route tried for it.
func (w *lawWorld) again(t *testing.T) {
	t.Helper()
	if len(w.open) == 0 {
		return
	}
	call := w.open[w.rng.IntN(len(w.open))]
	adm := w.adms[call.ID]
	if len(adm.Routes) == 0 {
		return
	}
	number := adm.To.National()
	pause := func(on bool) {
		var err error
		if w.paused = on; on {
			_, err = w.p.svc.Campaigns.PauseCampaign(t.Context(), w.p.tenant, w.paced.ID)
		} else {
			_, err = w.p.svc.Campaigns.StartCampaign(t.Context(), w.p.tenant, w.paced.ID, campaigns.EnvironmentLive)
		}
		require.NoError(t, err)
	}
	switch w.rng.IntN(8) {
	case 0:
		w.p.registry.add(number)
		if w.listed[number].IsZero() {
			w.listed[number] = w.p.clock.Now()
		}
	case 1:
		_, err := w.p.svc.Suppressions.AddSuppression(t.Context(), w.p.tenant, suppressions.Input{Phone: input.Some(number)})
		require.NoError(t, err)
		w.optedOut[number] = true
		require.Equal(t, 1, w.p.ending(t, call.ID), "it rings on")
	case 2:
		w.settings(t)
	case 3:
		w.p.clock.Advance(time.Duration(w.rng.IntN(120)) * time.Second)
	case 4:
		pause(true)
		defer pause(false)
	}
	req := admission.Request{CampaignID: call.CampaignID, LeadID: call.LeadID}
	why := w.forbidden(req, number, w.p.clock.Now().In(ist()))
	err := w.gate.Readmit(t.Context(), readmission(adm), func(context.Context, *store.Tx) error { return nil })
	switch {
	case err != nil && why == "":
		w.ways["another route refused"]++ // for a rule that is none of the law's
	case err != nil:
		w.ways["another route forbidden"]++
	case why != "":
		w.faults = append(w.faults, number+" dialed over another route: "+why)
	default:
		w.ways["another route"]++
	}
}

// isListed tells whether a number is known to be on the registry: while nobody can ask it, a lead's mark holds for a week.
func (w *lawWorld) isListed(req admission.Request, number string, now time.Time) bool {
	since := w.listed[number]
	marked := w.down && req.LeadID != nil && now.Sub(since) <= gate.ScrubAge
	return !since.IsZero() && !marked
}

// step is something that happens.
func (w *lawWorld) step(t *testing.T) {
	t.Helper()
	ctx, p := t.Context(), w.p
	campaign := []uuid.UUID{w.paced.ID, w.preview}[w.rng.IntN(2)]
	switch w.rng.IntN(16) {
	case 0:
		_, _ = p.svc.Leads.PushLead(ctx, p.tenant, campaign, leads.Input{Phone: input.Some(w.spelled())}) // or it is there
	case 1:
		_, err := p.svc.Leads.PushLeads(ctx, p.tenant, campaign, decode[leads.BulkInput](t, fmt.Sprintf(`{"leads":[{"phone":%q},{"mobile":%q}]}`, w.spelled(), w.spelled())))
		require.NoError(t, err)
	case 2:
		_, err := p.svc.Leads.UploadLeads(ctx, p.tenant, campaign, strings.NewReader("name,phone\na,"+w.spelled()+"\nb,"+w.spelled()+"\n"))
		require.NoError(t, err)
	case 3:
		if w.rng.IntN(3) == 0 {
			number := w.number()
			p.registry.add(number)
			if w.listed[number].IsZero() {
				w.listed[number] = p.clock.Now()
			}
		}
	case 4:
		if now := p.clock.Now().In(ist()); now.Hour() >= 21 || w.rng.IntN(4) == 0 {
			y, m, d := now.Date()
			p.clock.Set(time.Date(y, m, d+1, 7+w.rng.IntN(6), w.rng.IntN(60), 0, 0, ist()))
		} else {
			p.clock.Advance(time.Duration(w.rng.IntN(180)) * time.Minute)
		}
	case 6:
		w.settings(t)
	case 5, 7, 8:
		newPacer(p.svc.Pacers, p.sw, p.tenant, w.paced.ID, nil).round(ctx)
	case 9:
		if lead, err := p.desk.NextLead(ctx, p.tenant, w.agent, w.preview); err == nil && lead != nil {
			if w.rng.IntN(3) == 0 {
				p.clock.Advance(time.Duration(w.rng.IntN(9)) * time.Minute)
			}
			_, _ = p.desk.AgentDial(ctx, p.tenant, w.agent, desk.DialInput{LeadID: input.Some(lead.ID.String())})
			w.wrapUp(t)
		}
	case 10, 11:
		_, _ = p.desk.AgentDial(ctx, p.tenant, w.agent, desk.DialInput{CampaignID: input.Some(campaign.String()), Phone: input.Some(w.spelled())})
		w.wrapUp(t)
	case 12:
		w.single(t)
	case 13, 14:
		w.third(t)
	case 15:
		w.down = w.rng.IntN(3) == 0
		p.registry.setDown(w.down)
	}
	w.again(t)
	w.endCalls(t)
}

func (w *lawWorld) spelled() string {
	return []string{"", "0", "91", "+91"}[w.rng.IntN(4)] + w.number()
}

// single asks for a single call as the Public API does, of a voice agent or of a flow, with a live key or a test key's.
func (w *lawWorld) single(t *testing.T) {
	t.Helper()
	taker := []string{"", `,"voice_agent_id":"` + w.voiceAgent + `"`, `,"flow_id":"` + w.flow + `"`}[w.rng.IntN(3)]
	env := []campaigns.Environment{campaigns.EnvironmentLive, campaigns.EnvironmentTest}[w.rng.IntN(2)]
	_, _ = w.p.desk.PlaceCall(t.Context(), w.p.tenant, env, decode[desk.CallInput](t, `{"to":"`+w.spelled()+`"`+taker+`}`))
}

// settings changes the tenant's hours and holidays.
func (w *lawWorld) settings(t *testing.T) {
	t.Helper()
	w.from, w.to, w.holiday = 0, 24, ""
	body := `{"calling_window":null,"holidays":[]}`
	switch w.rng.IntN(3) {
	case 0:
		w.from, w.to = 8+w.rng.IntN(4), 15+w.rng.IntN(8)
		body = fmt.Sprintf(`{"calling_window":{"from":"%02d:00","to":"%02d:00"},"holidays":[]}`, w.from, w.to)
	case 1:
		w.holiday = w.p.clock.Now().In(ist()).AddDate(0, 0, w.rng.IntN(2)).Format(time.DateOnly)
		body = fmt.Sprintf(`{"calling_window":null,"holidays":[%q]}`, w.holiday)
	}
	_, err := w.p.svc.Settings.PatchSettings(t.Context(), w.p.tenant, decode[SettingsInput](t, body))
	require.NoError(t, err)
}

// third leads an open call to a third party, as transfers and conferences do, by number or by SIP URI.
func (w *lawWorld) third(t *testing.T) {
	t.Helper()
	parent := storetest.NewID(t)
	storetest.Exec(t, w.p.st, w.p.tenant, `INSERT INTO calls (tenant_id, id, node, fs_uuid, direction, status, from_number, to_number,
		answer_time) VALUES ($1, $2::uuid, 'node-1', $2::uuid::text, 'inbound', 'answered', '+911', '+912', now())`, w.p.tenant, parent)
	req := admission.Request{TenantID: w.p.tenant, Purpose: admission.PurposeTransfer, ParentCallID: &parent}
	if number := w.number(); w.rng.IntN(2) == 0 {
		req.To = mustPhone(t, number)
	} else {
		req.ToURI = "sip:+91" + number + "@127.0.0.1:5099"
	}
	_, _ = w.gate.Admit(t.Context(), req)
	storetest.Exec(t, w.p.st, w.p.tenant, "DELETE FROM live_calls WHERE call_id = $1", parent)
	storetest.Exec(t, w.p.st, w.p.tenant, "DELETE FROM calls WHERE id = $1", parent)
}

// wrapUp ends the agent's call, if there is one, and says something of it: a callback, an opt-out, or nothing.
func (w *lawWorld) wrapUp(t *testing.T) {
	t.Helper()
	p := w.p
	for _, call := range slices.Clone(w.open) {
		if call.AgentID == nil {
			continue
		}
		number := w.numberOf(t, call)
		answered := w.rng.IntN(2) == 0
		if answered {
			storetest.Exec(t, p.st, p.tenant, "UPDATE calls SET status = 'answered', answer_time = now() WHERE id = $1", call.ID)
		}
		w.end(t, call, answered)
		in := desk.DisposeInput{CallID: input.Some(call.ID.String()), Disposition: input.Some("done")}
		later := p.clock.Now().Add(time.Duration(1+w.rng.IntN(600)) * time.Minute)
		switch choice := w.rng.IntN(6); {
		case choice == 0:
			in.OptOut = input.Some(true)
		case choice < 3 && call.LeadID != nil:
			in.CallbackAt = input.Some(later.Format(time.RFC3339))
		}
		_, err := p.desk.Dispose(t.Context(), p.tenant, w.agent, in)
		switch {
		case err == nil && in.OptOut.Value:
			w.optedOut[number] = true
		case err == nil && in.CallbackAt.Has():
			w.callbacks[*call.LeadID] = true
		case err != nil:
			in.CallbackAt = input.Opt[string]{}
			_, err = p.desk.Dispose(t.Context(), p.tenant, w.agent, in)
			require.NoError(t, err)
		}
		require.Equal(t, acd.Available, p.status(t, w.agent))
	}
}

// numberOf finds whom a call rang, though a strict tenant's row doesn't show it.
func (w *lawWorld) numberOf(t *testing.T, call db.Call) string {
	t.Helper()
	for _, n := range w.numbers {
		if string(w.p.st.PhoneHash(w.p.tenant, mustPhone(t, n))) == string(call.PeerHash) {
			return n
		}
	}
	require.FailNow(t, "a number that nobody has dialed")
	return ""
}

func (w *lawWorld) endCalls(t *testing.T) {
	t.Helper()
	for _, call := range slices.Clone(w.open) {
		w.end(t, call, w.rng.IntN(4) == 0)
	}
}

func (w *lawWorld) end(t *testing.T, call db.Call, answered bool) {
	t.Helper()
	w.open = slices.DeleteFunc(w.open, func(c db.Call) bool { return c.ID == call.ID })
	status, cause := ledger.StatusFailed, []string{"USER_BUSY", "NO_ANSWER", "CALL_REJECTED"}[w.rng.IntN(3)]
	if answered {
		status, cause = ledger.StatusCompleted, ledger.CauseNormalClearing
	}
	w.p.end(t, call, status, cause)
}

package dialer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/scrub"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/admission"
)

// fakeSwitch takes what was admitted and holds the calls until they are ended.
type fakeSwitch struct {
	onAdm func(db.Call) error // may be nil

	mu    sync.Mutex
	calls []db.Call
}

func (*fakeSwitch) CanOriginate() error { return nil }

func (f *fakeSwitch) Originate(_ context.Context, granted *admission.Admission) (db.Call, error) {
	adm, err := granted.Use()
	if err != nil {
		return db.Call{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, adm.Call)
	if f.onAdm != nil {
		return adm.Call, f.onAdm(adm.Call)
	}
	return adm.Call, nil
}

func (f *fakeSwitch) dialed() []db.Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]db.Call(nil), f.calls...)
}

// pace runs a dialer's pacers until the returned function, or the test's end.
func pace(t *testing.T, svc *Service, originator gate.Originator) func() {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- svc.Pacers.Run(ctx, originator) }()
	var once sync.Once
	stop := func() {
		once.Do(func() {
			cancel()
			require.NoError(t, <-done)
		})
	}
	t.Cleanup(stop)
	return stop
}

const (
	waitFor = time.Minute
	every   = 25 * time.Millisecond // most looks ask the database
)

func TestPacerFillsTheCeilingAndGoesOn(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET max_concurrent = 3")
	var leads []leads.Lead
	for i := range 8 {
		leads = append(leads, b.push(t, campaign.ID, fmt.Sprintf("987654320%d", i)))
	}
	sw := &fakeSwitch{}
	pace(t, b.svc, sw)
	require.Eventually(t, func() bool { return len(sw.dialed()) == 3 }, waitFor, every)
	for i := range 8 {
		require.Eventually(t, func() bool { return len(sw.dialed()) > i }, waitFor, every)
		require.LessOrEqual(t, b.units(t), 3)
		b.end(t, sw.dialed()[i], "completed", "NORMAL_CLEARING")
	}
	require.Eventually(t, func() bool {
		return storetest.Count(t, b.st, "SELECT count(*) FROM leads WHERE status = 'completed'") == 8
	}, waitFor, every)
	for i, call := range sw.dialed() {
		require.Equal(t, leads[i].ID, *call.LeadID, "in the order in which they came")
	}
	late := b.push(t, campaign.ID, "9876543299")
	require.Eventually(t, func() bool { return len(sw.dialed()) == 9 }, waitFor, every, "a push wakes the pacer")
	require.Equal(t, late.ID, *sw.dialed()[8].LeadID)
	got, err := b.svc.Campaigns.GetCampaign(t.Context(), b.tenant, campaign.ID)
	require.NoError(t, err)
	require.Equal(t, campaigns.StatusRunning, got.Status, "with nothing to dial a campaign stays running")
}

func TestPacerOrder(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET max_concurrent = 6")
	ids := map[string]uuid.UUID{}
	for i, name := range []string{"new", "urgent", "later", "due", "callback", "far"} {
		ids[name] = b.push(t, campaign.ID, fmt.Sprintf("987654320%d", i)).ID
	}
	now := b.clock.Now()
	set := func(name, assignments string, args ...any) {
		storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET "+assignments+" WHERE id = $1", append([]any{ids[name]}, args...)...)
	}
	set("urgent", "priority = 5")
	set("later", "priority = -1")
	set("due", "status = 'retry', attempts = 1, next_attempt_at = $2", now.Add(-time.Minute))
	set("callback", "status = 'callback', attempts = 1, next_attempt_at = $2", now.Add(-time.Second)) // promised, and so before retries
	set("far", "status = 'retry', attempts = 1, next_attempt_at = $2", now.Add(time.Hour))
	sw := &fakeSwitch{}
	pace(t, b.svc, sw)
	require.Eventually(t, func() bool { return len(sw.dialed()) == 5 }, waitFor, every)
	var order []uuid.UUID
	for _, call := range sw.dialed() {
		order = append(order, *call.LeadID)
	}
	require.Equal(t, []uuid.UUID{ids["callback"], ids["urgent"], ids["due"], ids["new"], ids["later"]}, order)
	b.clock.Advance(2 * time.Hour)
	require.Eventually(t, func() bool { return len(sw.dialed()) == 6 }, waitFor, every)
}

// What a plan for people has not dialed when it is old goes back, to be planned anew.
func TestOldPlanIsNotWorkedOff(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	lead := b.push(t, campaign.ID, "9876543210")
	sw := &fakeSwitch{}
	p := newPacer(b.svc.Pacers, sw, b.tenant, campaign.ID, nil)
	leads, _, err := p.Claim(t.Context(), leads.ClaimBatch, b.clock.Now())
	require.NoError(t, err)
	require.Len(t, leads, 1)
	inTime := p.dial(t.Context(), leads, plan{holds: time.Nanosecond})
	require.False(t, inTime)
	require.Empty(t, sw.dialed())
	require.Nil(t, b.lead(t, lead.ID).ClaimedBy)
}

// A number that is damaged ends its lead, and holds nobody else up.
func TestPacerGoesPastASealedNumber(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	b.strict(t)
	campaign := b.running(t)
	damaged := b.push(t, campaign.ID, "9876543210")
	b.push(t, campaign.ID, "9876543211")
	b.damage(t, damaged.ID)
	sw := &fakeSwitch{}
	pace(t, b.svc, sw)
	require.Eventually(t, func() bool { return len(sw.dialed()) == 1 }, waitFor, every)
	require.NotEqual(t, damaged.ID, *sw.dialed()[0].LeadID)
	require.Equal(t, string(leads.StatusInvalid), b.lead(t, damaged.ID).Status)
	require.Len(t, b.events(t, store.EventLeadCompleted), 1)
}

// Under another master key no number opens, and none is damaged: the leads wait.
func TestPacerEndsNoLeadUnderAnotherMasterKey(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	b.strict(t)
	campaign := b.running(t)
	lead := b.push(t, campaign.ID, "9876543210")
	b.lockOut(t)
	p := newPacer(b.svc.Pacers, &fakeSwitch{}, b.tenant, campaign.ID, nil)
	list, _, err := p.Claim(t.Context(), leads.ClaimBatch, b.clock.Now())
	require.NoError(t, err)
	require.Empty(t, list)
	row := b.lead(t, lead.ID)
	require.Equal(t, string(leads.StatusQueued), row.Status)
	require.True(t, row.NextAttemptAt.After(b.clock.Now()))
	require.Nil(t, row.ClaimedBy)
}

func TestPauseStopsDialingAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	for i := range 40 {
		b.push(t, campaign.ID, fmt.Sprintf("98765432%02d", i))
	}
	sw := &fakeSwitch{}
	paused := make(chan struct{})
	var once sync.Once
	sw.onAdm = func(db.Call) error {
		once.Do(func() { // in the middle of a round, with claimed leads in hand
			_, err := b.svc.Campaigns.PauseCampaign(t.Context(), b.tenant, campaign.ID)
			if err == nil {
				close(paused)
			}
		})
		return nil
	}
	pace(t, b.svc, sw)
	<-paused
	require.Eventually(t, func() bool {
		return storetest.Count(t, b.st, "SELECT count(*) FROM leads WHERE claimed_by LIKE 'pacer:%'") == 0
	}, waitFor, every, "claimed leads are given back")
	require.Len(t, sw.dialed(), 1)
	require.Equal(t, 39, storetest.Count(t, b.st, "SELECT count(*) FROM leads WHERE status = 'new' AND attempts = 0"))
	b.end(t, sw.dialed()[0], "completed", "NORMAL_CLEARING")
	_, err := b.svc.Campaigns.StartCampaign(t.Context(), b.tenant, campaign.ID, campaigns.EnvironmentLive)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(sw.dialed()) == 1+rampStart }, waitFor, every)
}

func TestOneCampaignIsPacedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET max_concurrent = 4")
	for i := range 30 {
		b.push(t, campaign.ID, fmt.Sprintf("98765432%02d", i))
	}
	other := b.another(t, "node-2")
	one, two := &fakeSwitch{}, &fakeSwitch{}
	stopOne := pace(t, b.svc, one)
	require.Eventually(t, func() bool { return len(one.dialed()) == 4 }, waitFor, every)
	pace(t, other, two)
	for i := range 10 {
		require.Eventually(t, func() bool { return len(one.dialed()) > i }, waitFor, every)
		b.end(t, one.dialed()[i], "completed", "NORMAL_CLEARING")
	}
	require.Empty(t, two.dialed())
	stopOne()
	ended := 10
	for ; ended < len(one.dialed()); ended++ {
		b.end(t, one.dialed()[ended], "completed", "NORMAL_CLEARING")
	}
	for i := 0; ended+i < 30; i++ {
		require.Eventually(t, func() bool { return len(two.dialed()) > i }, waitFor, every, "the other controller takes over")
		b.end(t, two.dialed()[i], "completed", "NORMAL_CLEARING")
	}
	seen := map[uuid.UUID]bool{}
	for _, call := range append(one.dialed(), two.dialed()...) {
		require.False(t, seen[*call.LeadID], "no lead is dialed twice")
		seen[*call.LeadID] = true
	}
	require.Len(t, seen, 30)
}

func TestPacerSurvivesTheLossOfItsLock(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	b.push(t, campaign.ID, "9876543210")
	sw := &fakeSwitch{}
	pace(t, b.svc, sw)
	require.Eventually(t, func() bool { return len(sw.dialed()) == 1 }, waitFor, every)
	require.Positive(t, b.breakLocks(t))
	b.push(t, campaign.ID, "9876543211")
	require.Eventually(t, func() bool { return len(sw.dialed()) == 2 }, waitFor, every)
}

func TestClaimOfADeadPacerIsTaken(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	orphan, reserved := b.push(t, campaign.ID, "9876543210"), b.push(t, campaign.ID, "9876543211")
	until := b.clock.Now().Add(time.Hour)
	storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET claimed_by = 'pacer:dead:1', claimed_until = $1 WHERE id = $2", until, orphan.ID)
	storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET claimed_by = 'agent:7', claimed_until = $1 WHERE id = $2", until, reserved.ID)
	sw := &fakeSwitch{}
	pace(t, b.svc, sw)
	require.Eventually(t, func() bool { return len(sw.dialed()) == 1 }, waitFor, every)
	require.Equal(t, orphan.ID, *sw.dialed()[0].LeadID)
	b.clock.Advance(2 * time.Hour)
	require.Eventually(t, func() bool { return len(sw.dialed()) == 2 }, waitFor, every, "any claim runs out")
}

func TestPacerWaitsForTheWindow(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Legal = Hours{} }).trunkAndNumber(t)
	night := time.Date(2026, 11, 20, 22, 0, 0, 0, time.FixedZone("IST", 5*3600+1800))
	b.clock.Set(night)
	campaign := b.running(t)
	b.push(t, campaign.ID, "9876543210")
	rounds := make(chan struct{})
	sw := &fakeSwitch{}
	p := newPacer(b.svc.Pacers, sw, b.tenant, campaign.ID, nil)
	go func() { defer close(rounds); p.round(t.Context()) }()
	<-rounds
	require.Empty(t, sw.dialed())
	require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM leads WHERE claimed_by LIKE 'pacer:%'"))
	b.clock.Set(night.Add(11 * time.Hour))
	p.round(t.Context())
	require.Len(t, sw.dialed(), 1)
}

func TestLeadRefusedForTheWindowWaits(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	lead := b.push(t, campaign.ID, "9876543210")
	opens := b.clock.Now().Add(time.Hour).Truncate(time.Millisecond)
	refusing := originatorFunc(func() error { return gate.Refuse(gate.ReasonWindow, b.clock.Now(), opens, "closed") })
	newPacer(b.svc.Pacers, refusing, b.tenant, campaign.ID, nil).round(t.Context())
	row := b.lead(t, lead.ID)
	require.Equal(t, string(leads.StatusQueued), row.Status)
	require.WithinDuration(t, opens, *row.NextAttemptAt, 0)
	require.Nil(t, row.ClaimedBy)
	require.Zero(t, row.Attempts)
	sw := &fakeSwitch{}
	p := newPacer(b.svc.Pacers, sw, b.tenant, campaign.ID, nil)
	p.round(t.Context())
	require.Empty(t, sw.dialed())
	b.clock.Advance(time.Hour)
	p.round(t.Context())
	require.Len(t, sw.dialed(), 1)
}

// originatorFunc is a switch that can originate nothing, and says why.
type originatorFunc func() error

func (f originatorFunc) CanOriginate() error { return f() }

func (originatorFunc) Originate(context.Context, *admission.Admission) (db.Call, error) {
	panic("nothing can be originated")
}

func TestPacerBacksOffWhenTheSwitchFails(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	for i := range 3 {
		b.push(t, campaign.ID, fmt.Sprintf("987654320%d", i))
	}
	tries := 0
	failing := originatorFunc(func() error {
		tries++
		return errors.New("switch is gone")
	})
	p := newPacer(b.svc.Pacers, failing, b.tenant, campaign.ID, nil)
	p.round(t.Context())
	p.round(t.Context())
	require.Equal(t, 1, tries, "one failure stops the round and the next")
	require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM leads WHERE claimed_by LIKE 'pacer:%'"))
	b.clock.Advance(2 * time.Second)
	p.round(t.Context())
	require.Equal(t, 2, tries)
}

func TestPacerKeepsATrunksRate(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Now = time.Now }).trunkAndNumber(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE trunks SET cps = 5")
	campaign := b.running(t)
	for i := range rampStart {
		b.push(t, campaign.ID, fmt.Sprintf("98765432%02d", i))
	}
	sw := &fakeSwitch{}
	pace(t, b.svc, sw)
	require.Eventually(t, func() bool { return len(sw.dialed()) == rampStart }, waitFor, every)
	calls := sw.dialed()
	for i := 5; i < len(calls); i++ {
		require.GreaterOrEqual(t, calls[i].CreatedAt.Sub(calls[i-5].CreatedAt), time.Second)
	}
}

// countedSwitch counts how often it is asked whether it can originate.
type countedSwitch struct {
	*fakeSwitch
	tries *int
}

func (c *countedSwitch) CanOriginate() error {
	*c.tries++
	return nil
}

// Leads that a slow trunk keeps waiting are given back: agents may dial them, and the claim is anew when they are dialed.
func TestPacerGivesLeadsBackThatASlowTrunkKeepsWaiting(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE trunks SET cps = 1")
	campaign := b.running(t)
	for i := range 3 {
		b.push(t, campaign.ID, fmt.Sprintf("987654320%d", i))
	}
	sw, tries := &fakeSwitch{}, 0
	p := newPacer(b.svc.Pacers, &countedSwitch{fakeSwitch: sw, tries: &tries}, b.tenant, campaign.ID, nil)
	require.Greater(t, claimLease, claimHold+gate.PlaceTimeout+store.TrunkRateWindow)
	p.hold = time.Nanosecond
	claimed := func() int {
		return storetest.Count(t, b.st, "SELECT count(*) FROM leads WHERE claimed_by LIKE 'pacer:%'")
	}
	require.Zero(t, p.round(t.Context()), "the next round follows at once")
	require.Zero(t, tries)
	require.Zero(t, claimed())
	require.Equal(t, claimSize(1), p.size, "fewer are claimed next")

	p.hold = time.Hour
	for want := 1; want <= 2; want++ {
		leads, _, err := p.Claim(t.Context(), 3, b.clock.Now())
		require.NoError(t, err)
		require.Equal(t, 4-want, claimed())
		require.Equal(t, want == 1, p.dialOne(t.Context(), leads[0], nil, time.Now().Add(-time.Second)))
		require.Equal(t, want, tries, "no wait beyond the claim's time")
		require.Len(t, sw.dialed(), 1)
		b.began(t, time.Minute) // however long this takes
		p.release(t.Context(), leads)
	}
	require.Zero(t, claimed())
}

func TestPacerOfPeopleDialsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	for _, body := range []string{
		`{"name":"a","dial_mode":"progressive"}`,
		`{"name":"b","dial_mode":"preview","post_answer_action":"connect_voice_agent","voice_agent_id":"` + b.agent(t).ID.String() + `"}`,
	} {
		campaign, err := b.svc.Campaigns.CreateCampaign(t.Context(), b.tenant, decode[campaigns.Input](t, body))
		require.NoError(t, err)
		b.push(t, campaign.ID, "9876543210")
		_, err = b.svc.Campaigns.StartCampaign(t.Context(), b.tenant, campaign.ID, campaigns.EnvironmentLive)
		require.NoError(t, err)
		sw := &fakeSwitch{}
		newPacer(b.svc.Pacers, sw, b.tenant, campaign.ID, nil).round(t.Context())
		require.Empty(t, sw.dialed())
	}
}

func TestPacerRunsAFlowOfOneNode(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	agent := b.agent(t)
	campaign, err := b.svc.Campaigns.CreateCampaign(t.Context(), b.tenant, decode[campaigns.Input](t,
		`{"name":"f","dial_mode":"progressive","post_answer_action":"run_flow","flow_id":"`+b.flow(t, oneNode(agent.ID, "")).String()+`"}`))
	require.NoError(t, err)
	_, err = b.svc.Campaigns.StartCampaign(t.Context(), b.tenant, campaign.ID, campaigns.EnvironmentLive)
	require.NoError(t, err)
	b.push(t, campaign.ID, "9876543210")
	sw := &fakeSwitch{}
	newPacer(b.svc.Pacers, sw, b.tenant, campaign.ID, nil).round(t.Context())
	require.Len(t, sw.dialed(), 1)
	require.Equal(t, agent.ID, *sw.dialed()[0].VoiceAgentID)
}

func TestPacerScrubsWhatTheRegistryMissed(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	b.registry.setDown(true)
	clean, flagged := b.push(t, campaign.ID, "9876543210"), b.push(t, campaign.ID, "9876543290")
	b.registry.add("9876543290")
	sw := &fakeSwitch{}
	p := newPacer(b.svc.Pacers, sw, b.tenant, campaign.ID, nil)
	pass := b.svc.Scrubs.Beside(b.tenant, campaign.ID)
	pass.Once(t.Context())
	p.round(t.Context())
	require.Empty(t, sw.dialed(), "an unscrubbed lead is not dialed")
	b.registry.setDown(false)
	asked := b.registry.asked
	pass.Once(t.Context())
	require.Equal(t, asked, b.registry.asked, "a registry that failed is left alone a while")
	b.clock.Advance(scrub.RegistryRetry)
	pass.Once(t.Context())
	p.round(t.Context())
	require.Len(t, sw.dialed(), 1)
	require.Equal(t, clean.ID, *sw.dialed()[0].LeadID)
	require.Equal(t, string(leads.StatusDNC), b.lead(t, flagged.ID).Status)
}

func TestStrictLeadWithoutNumberEnds(t *testing.T) {
	t.Parallel()
	b := setup(t).strict(t).trunkAndNumber(t)
	campaign := b.running(t)
	purged, kept := b.push(t, campaign.ID, "9876543210"), b.push(t, campaign.ID, "9876543211")
	storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET phone_sealed = NULL WHERE id = $1", purged.ID)
	sw := &fakeSwitch{}
	newPacer(b.svc.Pacers, sw, b.tenant, campaign.ID, nil).round(t.Context())
	require.Len(t, sw.dialed(), 1)
	require.Equal(t, kept.ID, *sw.dialed()[0].LeadID)
	require.Equal(t, string(leads.StatusInvalid), b.lead(t, purged.ID).Status)
	require.Len(t, b.events(t, store.EventLeadCompleted), 1)
}

// breakLocks ends the connections that hold advisory locks on the test's database, and tells how many those were.
func (b *bundle) breakLocks(t *testing.T) int {
	t.Helper()
	var database string
	require.NoError(t, b.st.Pool().QueryRow(t.Context(), "SELECT current_database()").Scan(&database))
	admin, err := pgx.Connect(t.Context(), os.Getenv(storetest.URLVariable))
	require.NoError(t, err)
	defer func() { require.NoError(t, admin.Close(context.WithoutCancel(t.Context()))) }()
	var ended int
	require.NoError(t, admin.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(l.pid)) FROM pg_locks l
		JOIN pg_stat_activity a ON a.pid = l.pid WHERE l.locktype = 'advisory' AND a.datname = $1`, database).Scan(&ended))
	return ended
}

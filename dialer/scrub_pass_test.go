package dialer

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/dnc"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// meteredRegistry answers for as many batches as it is let to. Then it can't answer, or, when it is slow, it doesn't until it is
// let to again or nobody waits any more.
type meteredRegistry struct {
	*fakeRegistry

	slow  bool
	let   chan struct{}
	onAsk func([]store.Phone) // nil, or told of each batch that is answered

	mu      sync.Mutex
	version string
	asked   map[string]int // how often each number was answered for
}

func newMeteredRegistry(b *bundle) *meteredRegistry {
	return &meteredRegistry{fakeRegistry: b.registry, let: make(chan struct{}, 100), version: "v1", asked: make(map[string]int)}
}

func (r *meteredRegistry) Listed(ctx context.Context, phones []store.Phone) ([]bool, error) {
	if !r.slow && len(r.let) == 0 {
		return nil, errRegistryDown
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-r.let:
	}
	r.mu.Lock()
	for _, p := range phones {
		r.asked[p.National()]++
	}
	r.mu.Unlock()
	if r.onAsk != nil {
		r.onAsk(phones)
	}
	return r.fakeRegistry.Listed(ctx, phones)
}

func (r *meteredRegistry) Describe() (dnc.Description, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return dnc.Description{Version: r.version}, true
}

func (r *meteredRegistry) setVersion(v string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version = v
}

// answers lets the registry answer for so many batches.
func (r *meteredRegistry) answers(n int) {
	for range n {
		r.let <- struct{}{}
	}
}

// A campaign of three batches.
const (
	testBatch   = 10
	bigCampaign = 2*testBatch + 3
)

// bigDraft gives a predictive campaign whose leads were pushed while the registry could not answer, and a registry for it.
func bigDraft(t *testing.T) (*bundle, uuid.UUID, *meteredRegistry) {
	t.Helper()
	b := setup(t)
	campaign, err := b.svc.Campaigns.CreateCampaign(t.Context(), b.tenant, decode[campaigns.Input](t, `{"name":"p","dial_mode":"predictive"}`))
	require.NoError(t, err)
	b.registry.setDown(true)
	var csv strings.Builder
	csv.WriteString("phone\n")
	for i := range bigCampaign {
		fmt.Fprintf(&csv, "98%08d\n", i)
	}
	_, err = b.svc.Leads.UploadLeads(t.Context(), b.tenant, campaign.ID, strings.NewReader(csv.String()))
	require.NoError(t, err)
	b.registry.setDown(false)
	return b, campaign.ID, newMeteredRegistry(b)
}

// scrubber gives a dialer that scrubs in small batches.
func (b *bundle) scrubber(t *testing.T, node string, registry dnc.Provider, change ...func(*Config)) *Service {
	t.Helper()
	svc := b.another(t, node, append(change, func(c *Config) { c.DNC = registry })...)
	svc.Scrubs.Batch = testBatch
	return svc
}

// A scrub that needs the time of several requests goes on with each where it stood: nobody is asked about twice.
func TestScrubGoesOnWhereItStood(t *testing.T) {
	t.Parallel()
	b, campaign, registry := bigDraft(t)
	svc := b.scrubber(t, "node-2", registry)
	for i, want := range []int{1 * testBatch, 2 * testBatch, bigCampaign} {
		registry.answers(1)
		b.clock.Advance(time.Second) // a check is younger than what it began with
		result, err := svc.Scrubs.Scrub(t.Context(), b.tenant, campaign)
		require.NoError(t, err)
		require.Equal(t, []int{bigCampaign, want, bigCampaign - want}, []int{result.Total, result.Scrubbed, result.Pending}, "request %d", i+1)
		_, err = svc.Campaigns.StartCampaign(t.Context(), b.tenant, campaign, campaigns.EnvironmentLive)
		if want < bigCampaign {
			require.Equal(t, campaigns.CodeLeadsNotScrubbed, conflictCode(t, err))
			continue
		}
		require.NoError(t, err)
	}
	require.Len(t, registry.asked, bigCampaign)
	for number, times := range registry.asked {
		require.Equal(t, 1, times, number)
	}
}

// What a request leaves is done behind it, by any controller, though the campaign is a draft.
func TestScrubGoesOnBehindItsAnswer(t *testing.T) {
	t.Parallel()
	b, campaign, registry := bigDraft(t)
	registry.slow = true
	hurried := func(c *Config) { c.ScrubFor = 500 * time.Millisecond }
	svc := b.scrubber(t, "node-2", registry, hurried)
	registry.answers(1)
	require.Eventually(t, func() bool { // a loaded machine may need another request for the batch
		result, err := svc.Scrubs.Scrub(t.Context(), b.tenant, campaign)
		require.NoError(t, err)
		return result.Pending == bigCampaign-testBatch
	}, waitFor, every)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, node := range []string{"node-3", "node-4"} {
		other := b.scrubber(t, node, registry)
		running.Go(func() { _ = other.Pacers.Run(ctx, &fakeSwitch{}) })
	}
	defer running.Wait()
	defer cancel()
	result, err := svc.Scrubs.Scrub(t.Context(), b.tenant, campaign)
	require.NoError(t, err, "it joins the one that is under way")
	require.Equal(t, bigCampaign-testBatch, result.Pending)
	registry.answers(20)
	require.Eventually(t, func() bool {
		_, err := svc.Campaigns.StartCampaign(t.Context(), b.tenant, campaign, campaigns.EnvironmentTest)
		return err == nil
	}, waitFor, every)
	require.Eventually(t, func() bool { return storetest.Count(t, b.st, "SELECT count(*) FROM scrubs") == 0 }, waitFor, every)
}

// Leads that were never scrubbed come before those that only grow old.
func TestScrubBeginsWithWhatWasNeverScrubbed(t *testing.T) {
	t.Parallel()
	b, campaign, registry := bigDraft(t)
	_, err := b.svc.Scrubs.Scrub(t.Context(), b.tenant, campaign)
	require.NoError(t, err)
	b.registry.setDown(true)
	b.push(t, campaign, "9123456789")
	b.registry.setDown(false)
	var first string
	registry.onAsk = func(phones []store.Phone) {
		if first == "" {
			first = phones[0].National()
		}
	}
	registry.answers(1)
	b.clock.Advance(time.Hour)
	result, err := b.scrubber(t, "node-2", registry).Scrubs.Scrub(t.Context(), b.tenant, campaign)
	require.NoError(t, err)
	require.Equal(t, "9123456789", first)
	require.Zero(t, result.Pending)
}

// A scrub that is asked for once the registry is another begins with the first lead again.
func TestScrubBeginsAnewWithAnotherRegistry(t *testing.T) {
	t.Parallel()
	b, campaign, registry := bigDraft(t)
	_, err := b.svc.Scrubs.Scrub(t.Context(), b.tenant, campaign)
	require.NoError(t, err)
	svc := b.scrubber(t, "node-2", registry)
	scrub := func(batches, flagged int) {
		t.Helper()
		b.clock.Advance(time.Hour)
		registry.answers(batches)
		result, err := svc.Scrubs.Scrub(t.Context(), b.tenant, campaign)
		require.NoError(t, err)
		require.Equal(t, flagged, result.Flagged)
	}
	scrub(1, 0) // the first batch is done
	b.registry.add("9800000000")
	scrub(1, 0) // the second
	registry.setVersion("v2")
	scrub(1, 1)
	registry.setVersion("v3")
	b.registry.add("9800000001")
	scrub(3, 2)
	require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM scrubs"))
}

// A scrub whose worker has died is another's when its lease has ended, and one whose registry is away is tried again.
func TestScrubOutlivesItsWorkerAndItsRegistry(t *testing.T) {
	t.Parallel()
	b, campaign, registry := bigDraft(t)
	b.registry.setDown(true)
	registry.answers(20)
	svc := b.scrubber(t, "node-2", registry, func(c *Config) { c.ScrubFor = 200 * time.Millisecond })
	result, err := svc.Scrubs.Scrub(t.Context(), b.tenant, campaign)
	require.NoError(t, err)
	require.Equal(t, bigCampaign, result.Pending)
	b.registry.setDown(false)
	storetest.Exec(t, b.st, b.tenant, "UPDATE scrubs SET held_by = gen_random_uuid(), held_until = now() + interval '1 hour', due_at = now()")
	result, err = svc.Scrubs.Scrub(t.Context(), b.tenant, campaign)
	require.NoError(t, err)
	require.Equal(t, bigCampaign, result.Pending, "another has it")
	storetest.Exec(t, b.st, b.tenant, "UPDATE scrubs SET held_until = now()")
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { svc.Scrubs.Run(ctx) })
	defer running.Wait()
	defer cancel()
	require.Eventually(t, func() bool { return storetest.Count(t, b.st, "SELECT count(*) FROM scrubs") == 0 }, waitFor, every)
	counts, err := svc.Scrubs.Counts(t.Context(), b.tenant, campaign)
	require.NoError(t, err)
	require.Equal(t, bigCampaign, counts.Scrubbed)
}

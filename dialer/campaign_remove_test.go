package dialer

import (
	"context"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// work works the service's jobs until the test ends.
func (b *bundle) work(t *testing.T) {
	t.Helper()
	workers := river.NewWorkers()
	queues, err := b.svc.AddWorkers(workers, b.calls)
	require.NoError(t, err)
	jobs, err := b.st.NewJobs(store.JobsConfig{Queues: queues, Workers: workers})
	require.NoError(t, err)
	require.NoError(t, jobs.Start(context.WithoutCancel(t.Context())))
	t.Cleanup(func() { require.NoError(t, jobs.Stop(context.WithoutCancel(t.Context()))) })
}

// Somebody holds a lead's row for as long as they like: the deletion answers, the tenant's gate is free, and nothing shows or dials
// the campaign.
func TestDeleteCampaignDoesNotWaitForItsLeads(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	doomed, other := b.running(t), b.running(t)
	lead, kept := b.push(t, doomed.ID, "9876543210"), b.push(t, other.ID, "9876543211")
	const more = 2*campaigns.RemovalBatch + 1
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO leads (tenant_id, id, campaign_id, phone_hash, phone_last4)
		SELECT $1, gen_random_uuid(), $2, sha256(n::text::bytea), '0000' FROM generate_series(1, $3::int) n`, b.tenant, doomed.ID, more)
	_, err := b.svc.Campaigns.StopCampaign(t.Context(), b.tenant, doomed.ID)
	require.NoError(t, err)

	held, letGo, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	release := sync.OnceFunc(func() { close(letGo) })
	defer release()
	go func() {
		done <- b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
			_, err := tx.Pgx().Exec(t.Context(), "SELECT FROM leads WHERE id = $1 FOR UPDATE", lead.ID)
			close(held)
			<-letGo
			return err
		})
	}()
	<-held
	ctx, cancel := context.WithTimeout(t.Context(), waitFor)
	defer cancel()
	require.NoError(t, b.svc.Campaigns.DeleteCampaign(ctx, b.tenant, doomed.ID))
	require.ErrorIs(t, b.svc.Campaigns.DeleteCampaign(ctx, b.tenant, doomed.ID), store.ErrNotFound)
	b.work(t)
	_, err = passGate(ctx, b.svc.Gate, b.request(t, other.ID, kept))
	require.NoError(t, err, "the gate is free while leads are deleted")

	_, err = b.svc.Campaigns.GetCampaign(t.Context(), b.tenant, doomed.ID)
	require.ErrorIs(t, err, store.ErrNotFound)
	all, err := b.svc.Campaigns.ListCampaigns(t.Context(), b.tenant, uuid.Nil, 10)
	require.NoError(t, err)
	require.Len(t, all, 1)
	_, err = b.svc.Campaigns.StartCampaign(t.Context(), b.tenant, doomed.ID, campaigns.EnvironmentLive)
	require.ErrorIs(t, err, store.ErrNotFound)
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		_, err := tx.Q.LeadGet(t.Context(), b.tenant, lead.ID)
		require.ErrorIs(t, err, store.ErrNotFound)
		_, err = tx.Q.LeadLock(t.Context(), b.tenant, lead.ID)
		require.ErrorIs(t, err, store.ErrNotFound)
		return nil
	}))

	release()
	require.NoError(t, <-done)
	require.Eventually(t, func() bool {
		return storetest.Count(t, b.st, "SELECT count(*) FROM campaigns") == 1
	}, waitFor, every)
	left := storetest.Query[uuid.UUID](t, b.st, b.tenant, "SELECT id FROM leads")
	require.Equal(t, []uuid.UUID{kept.ID}, left)
}

package store_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// Reports that a version before has queued as jobs are taken over with their times, and given back when the migration is.
func TestReportsThatWereJobs(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	later := time.Now().Add(5 * time.Hour).UTC().Truncate(time.Millisecond)
	report := func(purpose string, attempts int) uuid.UUID {
		id := storetest.NewID(t)
		storetest.Exec(t, st, tenant, `INSERT INTO call_reports (tenant_id, call_id, purpose, integration_id, attempts, give_up_at)
			VALUES ($1, $2, $3, $1, $4, now() + interval '1 day')`, tenant, id, purpose, attempts)
		return id
	}
	job := func(call uuid.UUID, purpose, state string, at time.Time) {
		args, err := json.Marshal(map[string]any{"tenant_id": tenant, "call_id": call, "purpose": purpose})
		require.NoError(t, err)
		storetest.Exec(t, st, tenant, `INSERT INTO river_job (args, kind, max_attempts, queue, state, scheduled_at)
			VALUES ($1, 'call_report', 1000, $2, $3::text::river_job_state, $4)`, string(args), purpose, state, at)
	}
	waits, asked, crm, lost := report("insights", 0), report("insights", 1), report("crm", 0), report("crm", 1)
	job(waits, "insights", "scheduled", later)
	job(asked, "insights", "scheduled", later)
	job(crm, "crm", "scheduled", later)
	storetest.Exec(t, st, tenant, "INSERT INTO river_job (args, kind, max_attempts, queue) VALUES ('{}', 'other', 1, 'other')")
	jobs := func() int { return storetest.Count(t, st, "SELECT count(*) FROM river_job WHERE kind = 'call_report'") }
	due := func() map[uuid.UUID]bool {
		out := map[uuid.UUID]bool{}
		for _, id := range storetest.Query[uuid.UUID](t, st, tenant, "SELECT call_id FROM call_reports WHERE next_attempt_at <= now()") {
			out[id] = true
		}
		return out
	}
	want := map[uuid.UUID]bool{asked: true, crm: true, lost: true}

	var adopted int64
	require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) (err error) {
		adopted, err = tx.Q.AdoptReportJobs(t.Context())
		return err
	}))
	require.EqualValues(t, 3, adopted)
	require.Zero(t, jobs())
	require.Equal(t, 1, storetest.Count(t, st, "SELECT count(*) FROM river_job"), "others stay")
	require.Equal(t, want, due(), "what waits for its recording goes on to, and what had no job is due")

	files, err := store.Migrations()
	require.NoError(t, err)
	sqlDB := stdlib.OpenDBFromPool(st.Pool())
	t.Cleanup(func() { require.NoError(t, sqlDB.Close()) })
	provider, err := goose.NewProvider(goose.DialectPostgres, sqlDB, files, goose.WithTableName("ringmaster_migrations"))
	require.NoError(t, err)
	version := int64(0)
	for storetest.Count(t, st, "SELECT count(*) FROM pg_proc WHERE proname = 'adopt_report_jobs'") > 0 {
		result, err := provider.Down(t.Context())
		require.NoError(t, err)
		version = result.Source.Version
	}
	require.Equal(t, 4, jobs())
	require.Equal(t, 3, storetest.Count(t, st, "SELECT count(*) FROM river_job WHERE state = 'available' AND kind = 'call_report'"))
	require.Equal(t, 1, storetest.Count(t, st, "SELECT count(*) FROM river_job WHERE state = 'scheduled' AND scheduled_at = $1 AND args->>'call_id' = $2",
		later, waits.String()))
	storetest.Exec(t, st, tenant, "UPDATE call_reports SET next_attempt_at = now() - interval '1 minute'")
	_, err = provider.UpTo(t.Context(), version)
	require.NoError(t, err)
	require.Zero(t, jobs())
	require.Equal(t, want, due())
}

// Who watches is told of reports that are due, after the commit, until it no longer does.
func TestWatchReports(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	var told []store.DueReport
	stop := st.WatchReports(func(d store.DueReport) { told = append(told, d) })
	call := storetest.NewID(t)
	open := func(fails bool) {
		err := st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
			_, err := tx.OpenReport(t.Context(), store.ReportID{TenantID: tenant, CallID: call, Purpose: store.ReportCRM}, tenant, time.Now())
			require.NoError(t, err)
			require.Empty(t, told, "not before the commit")
			if fails {
				return store.ErrBusy
			}
			return nil
		})
		require.Equal(t, fails, err != nil)
	}
	open(true)
	require.Empty(t, told)
	open(false)
	want := []store.DueReport{{TenantID: tenant, Purpose: store.ReportCRM}}
	require.Equal(t, want, told)
	stop()
	call = storetest.NewID(t)
	told = nil
	open(false)
	require.Empty(t, told)
}

// What waits to be reported is kept beyond its call's time until its own is over: that of a tenant that is suspended for ever goes then.
func TestSweepForgetsReportsThatWait(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	for _, giveUp := range []time.Duration{-370 * 24 * time.Hour, time.Hour} {
		id := store.IDFloor(time.Now().AddDate(0, 0, -371))
		id[15] = byte(giveUp >> 32)
		storetest.Exec(t, st, tenant, `INSERT INTO call_reports (tenant_id, call_id, purpose, integration_id, give_up_at, created_at)
			VALUES ($1, $2, 'crm', $1, $3, now() - interval '371 days')`, tenant, id, time.Now().Add(giveUp))
	}
	require.Equal(t, store.Swept{Reports: 1}, sweepNow(t, st))
	require.Equal(t, 1, storetest.Count(t, st, "SELECT count(*) FROM call_reports WHERE give_up_at > now()"))
}

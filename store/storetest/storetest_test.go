package storetest_test

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/devpg"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

func TestDatabaseOfItsOwn(t *testing.T) {
	t.Parallel()
	first, second := storetest.New(t), storetest.New(t)
	storetest.Tenant(t, first)
	require.Equal(t, 1, storetest.Count(t, first, "SELECT count(*) FROM tenants"))
	require.Zero(t, storetest.Count(t, second, "SELECT count(*) FROM tenants"))
	var exempt bool
	require.NoError(t, first.Pool().QueryRow(t.Context(),
		"SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user").Scan(&exempt))
	require.False(t, exempt, "row-level security must bind the tests' role")
}

func TestDatabaseIsDropped(t *testing.T) {
	t.Parallel()
	var name string
	// Cleanup runs last in, first out: this one after New's.
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.WithoutCancel(t.Context()), os.Getenv(storetest.URLVariable))
		require.NoError(t, err)
		require.NotEmpty(t, name)
		require.Zero(t, databases(t, conn, name))
		require.NoError(t, conn.Close(context.WithoutCancel(t.Context())))
	})
	require.NoError(t, storetest.New(t).Pool().QueryRow(t.Context(), "SELECT current_database()::text").Scan(&name))
}

func TestProcessesShareAServer(t *testing.T) {
	t.Parallel()
	server, err := devpg.Start(t.Context(), devpg.Config{InMemory: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	share(t, server.AdminURL())
	conn, err := pgx.Connect(t.Context(), server.AdminURL())
	require.NoError(t, err)
	require.Equal(t, 1, databases(t, conn, "rmtemplate_%"))
	require.Zero(t, databases(t, conn, "rmtest_%"))

	// An administrator that may create databases and nothing else.
	for _, statement := range []string{
		"ALTER DATABASE " + template(t, conn) + " IS_TEMPLATE false", "DROP DATABASE " + template(t, conn),
		"CREATE ROLE tester LOGIN CREATEDB PASSWORD 'tester'",
	} {
		_, err = conn.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	require.NoError(t, conn.Close(t.Context()))
	limited, err := url.Parse(server.AdminURL())
	require.NoError(t, err)
	limited.User = url.UserPassword("tester", "tester")
	share(t, limited.String())
}

// share runs TestDatabaseOfItsOwn in two processes on one server that has no template yet.
func share(t *testing.T, adminURL string) {
	t.Helper()
	const processes = 2
	type result struct {
		out []byte
		err error
	}
	results := make(chan result, processes)
	for range processes {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDatabaseOfItsOwn$", "-test.count=2")
		cmd.Env = append(os.Environ(), storetest.URLVariable+"="+adminURL)
		go func() {
			out, err := cmd.CombinedOutput()
			results <- result{out, err}
		}()
	}
	for range processes {
		r := <-results
		require.NoError(t, r.err, "%s", r.out)
	}
}

func template(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	var name string
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT datname::text FROM pg_database WHERE datname LIKE 'rmtemplate_%'").Scan(&name))
	return name
}

func databases(t *testing.T, conn *pgx.Conn, pattern string) int {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	var n int
	require.NoError(t, conn.QueryRow(ctx, "SELECT count(*) FROM pg_database WHERE datname LIKE $1", pattern).Scan(&n))
	return n
}

func TestSeeds(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenantID, strict := storetest.Tenant(t, st), storetest.StrictTenant(t, st)
	require.Equal(t, 1, storetest.Count(t, st, "SELECT count(*) FROM tenants WHERE id = $1 AND privacy_mode = 'strict'", strict))
	agent := storetest.VoiceAgent(t, st, tenantID, "ws://127.0.0.1:1/")
	campaign := storetest.Campaign(t, st, tenantID, &agent)
	lead := storetest.Lead(t, st, tenantID, campaign, "9876543210")
	require.NoError(t, st.InTenant(t.Context(), tenantID, func(tx *store.Tx) error {
		row, err := tx.Q.LeadGet(t.Context(), tenantID, lead)
		require.NoError(t, err)
		require.Equal(t, "+919876543210", row.Phone.E164())
		require.True(t, row.DndClean)
		return nil
	}))
	storetest.Trunk(t, st, tenantID, "127.0.0.1", 5060, 10)
	storetest.InboundNumber(t, st, tenantID, "+918000000001")
}

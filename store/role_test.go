package store_test

import (
	"context"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// exemptURLs gives URLs of a database as a superuser, and as a role that is none but has BYPASSRLS.
func exemptURLs(t *testing.T, database string) map[string]string {
	t.Helper()
	admin, err := pgx.Connect(t.Context(), os.Getenv(storetest.URLVariable))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, admin.Close(context.WithoutCancel(t.Context()))) })
	var superuser bool
	require.NoError(t, admin.QueryRow(t.Context(), "SELECT rolsuper FROM pg_roles WHERE rolname = current_user").Scan(&superuser))
	if !superuser {
		t.Skip("NOT TESTED: roles exempt from row-level security; " + storetest.URLVariable + " must name a superuser")
	}
	role := "rmexempt_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	_, err = admin.Exec(t.Context(), "CREATE ROLE "+role+" NOLOGIN NOSUPERUSER BYPASSRLS")
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := admin.Exec(context.WithoutCancel(t.Context()), "DROP ROLE "+role)
		require.NoError(t, err)
	})
	as := func(role string) string {
		u, err := url.Parse(database)
		require.NoError(t, err)
		q := u.Query()
		q.Del("role")
		if role != "" {
			q.Set("role", role)
		}
		u.RawQuery = q.Encode()
		return u.String()
	}
	return map[string]string{"superuser": as(""), "bypassrls": as(role)}
}

func TestARoleThatIsExemptFromRowLevelSecurityIsRefused(t *testing.T) {
	t.Parallel()
	urls := exemptURLs(t, storetest.NewURL(t))
	for name, u := range urls {
		_, err := store.Open(t.Context(), store.Config{URL: u, MasterKey: storetest.MasterKey()})
		require.ErrorIs(t, err, store.ErrRole, name)
		require.ErrorContains(t, err, "CREATE ROLE ringmaster")
		require.ErrorContains(t, err, "database.allow_superuser")
		require.NotErrorIs(t, err, store.ErrUnavailable)
		require.ErrorIs(t, store.Migrate(t.Context(), store.Config{URL: u}), store.ErrRole, name)
	}
	allowed := store.Config{URL: urls["superuser"], MasterKey: storetest.MasterKey(), AllowSuperuser: true, Logger: slog.New(slog.DiscardHandler)}
	require.NoError(t, store.Migrate(t.Context(), allowed))
	st, err := store.Open(t.Context(), allowed)
	require.NoError(t, err)
	st.Close()
}

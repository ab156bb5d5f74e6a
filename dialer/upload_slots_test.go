package dialer

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store/fault"
)

// TestUploadsAtOnce are two of a tenant: a third one is told to come back.
func TestUploadsAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	campaign := b.running(t).ID
	upload := func(file io.Reader) error {
		_, err := b.svc.Leads.UploadLeads(t.Context(), b.tenant, campaign, file)
		return err
	}
	var clients []*io.PipeWriter
	var done []<-chan error
	for range leads.MaxUploads {
		r, w := io.Pipe()
		clients = append(clients, w)
		done = append(done, background(func() error { return upload(r) }))
		_, err := io.WriteString(w, "phone\n") // it is being read
		require.NoError(t, err)
	}
	var limit *fault.Error
	require.ErrorAs(t, upload(strings.NewReader("phone\n9876543210\n")), &limit)
	require.Equal(t, leads.CodeUploads, limit.Code)
	require.Equal(t, leads.UploadRetry, limit.RetryAfter)

	other := setupOn(t, b.st)
	_, err := b.svc.Leads.UploadLeads(t.Context(), other.tenant, other.running(t).ID, strings.NewReader("phone\n9876543210\n"))
	require.NoError(t, err, "another tenant's is read")
	for i, w := range clients {
		require.NoError(t, w.Close())
		require.NoError(t, <-done[i])
	}
	require.NoError(t, upload(strings.NewReader("phone\n9876543210\n")))
}

// TestUploadsLeftBehind by a process that was killed are removed by the next one, and nothing else.
func TestUploadsLeftBehind(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "uploads")
	_, err := leads.NewUploads(dir)
	require.NoError(t, err)
	for _, name := range []string{"ringmaster-leads-123", "notes.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	_, err = leads.NewUploads(dir)
	require.NoError(t, err)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Equal(t, "notes.txt", left[0].Name())
}

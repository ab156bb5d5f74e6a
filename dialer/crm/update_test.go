package crm

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
)

// A CRM may answer an update with the id of the change: the record stays the one that was written.
func TestUpdatesStayAtTheirRecord(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var n atomic.Int64
	crm := newStandIn(t, func(w http.ResponseWriter, r got) {
		says(http.StatusOK, fmt.Sprintf(`{"id": "crm-%d"}`, n.Add(1)))(w, r)
	})
	b.configure(t, rest(crm.URL, nil))
	call := b.end(t, nil)
	require.Nil(t, b.try(t, store.ReportCRM, call))
	for _, disposition := range []string{"interested", "later"} {
		b.dispose(t, call, disposition)
		require.Nil(t, b.try(t, store.ReportCRM, call))
		require.Equal(t, "crm-1", *b.report(t, call).ExternalID)
	}
	require.Equal(t, "/calls/crm-1", crm.requests()[2].path)

	// One whose id isn't known is what an answer says first.
	b.configure(t, rest(crm.URL, object{"update_url": crm.URL + "/changes"}))
	crm.say(status(http.StatusOK))
	call = b.end(t, nil)
	require.Nil(t, b.try(t, store.ReportCRM, call))
	crm.say(says(http.StatusOK, `{"id": "told-late"}`))
	b.dispose(t, call, "never")
	require.Nil(t, b.try(t, store.ReportCRM, call))
	require.Equal(t, "told-late", *b.report(t, call).ExternalID)
}

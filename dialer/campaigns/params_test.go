package campaigns

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/db"
)

// TestCampaignQueriesWriteColumns: each parameter of the two queries is a column of the row that it is taken from.
func TestCampaignQueriesWriteColumns(t *testing.T) {
	t.Parallel()
	row := newCampaign()
	row.TenantID, row.Name = uuid.New(), "n"
	inserted, updated := paramsOf[db.CampaignInsertParams](row), paramsOf[db.CampaignUpdateParams](row)
	require.Equal(t, []any{row.TenantID, row.ID, "n", row.Retry}, []any{inserted.TenantID, inserted.ID, inserted.Name, inserted.Retry})
	require.Equal(t, []any{row.TenantID, row.ID, "n", row.Retry}, []any{updated.TenantID, updated.ID, updated.Name, updated.Retry})
}

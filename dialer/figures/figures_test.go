package figures

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/db"
)

// A campaign with years behind it has few answers on a quiet day all the same: the last 24 hours alone say whether the sample is small.
func TestSmallSample(t *testing.T) {
	t.Parallel()
	persons := func(lately int64) Figures {
		return Figures{figurePersons: db.CampaignFiguresRow{N: 5000, Lately: lately}}
	}
	require.True(t, Figures{}.Abandon().SmallSample)
	require.True(t, persons(999).Abandon().SmallSample)
	require.False(t, persons(1000).Abandon().SmallSample)
}

package mediapath

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// slowCarrier is a switch whose carrier answers a re-INVITE after a while: with a 2xx, or with another status.
type slowCarrier struct {
	after     time.Duration
	status    string
	reinvited time.Time
	asked     int
}

func (c *slowCarrier) API(_ context.Context, cmd fs.Command) (string, error) {
	text := cmd.String()
	answered := !c.reinvited.IsZero() && time.Since(c.reinvited) >= c.after
	switch {
	case strings.HasPrefix(text, "uuid_media_reneg"):
		c.reinvited = time.Now()
	case strings.Contains(text, "sip_cseq"):
		c.asked++
		if answered && c.status == "" {
			return "2", nil
		}
		return "1", nil
	case strings.HasPrefix(text, "uuid_getvar") && answered && c.status != "":
		return c.status, nil
	case strings.HasPrefix(text, "uuid_getvar"):
		return unset, nil
	}
	return "+OK", nil
}

// TestReinviteAsksSeldom: the answer is seen soon after it came, and a carrier that never answers is not asked about each 20 ms.
func TestReinviteAsksSeldom(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		carrier slowCarrier
		late    time.Duration
		asked   int
		err     error
	}{
		"at once":   {slowCarrier{after: 0}, 20 * time.Millisecond, 2, nil},
		"150 ms":    {slowCarrier{after: 150 * time.Millisecond}, 80 * time.Millisecond, 6, nil},
		"refused":   {slowCarrier{after: 60 * time.Millisecond, status: "488"}, 40 * time.Millisecond, 4, &RefusedError{Status: 488}},
		"no answer": {slowCarrier{after: time.Hour}, 0, 15, ErrNoAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, carrier := time.Now(), tc.carrier
				err := Reinvite(t.Context(), &carrier, "c")
				require.Equal(t, tc.err, err)
				require.LessOrEqual(t, carrier.asked, tc.asked)
				if tc.carrier.after < ReinviteTimeout {
					require.LessOrEqual(t, time.Since(began), tc.carrier.after+tc.late)
				}
			})
		})
	}
}

package call

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// TestAnswerIsNotMissed: an inbound call whose answer, or whose event of it, was lost is answered all the same: its handler doesn't wait for ever.
func TestAnswerIsNotMissed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		answered := make(chan error, 1)
		b.handler.answered = func(ctx context.Context, leg switchctl.Leg) error {
			answered <- leg.Answer(ctx)
			<-ctx.Done()
			return nil
		}
		b.call = db.Call{ID: uuid.Must(uuid.NewV7()), TenantID: b.tenant, Direction: ledger.DirectionInbound, Status: ledger.StatusDialing, FsUuid: uuid.NewString()}
		b.ledger.open(b.call)
		a := b.c.newActor(b.call, b.call.FsUuid)
		a.dial.seen = true
		require.True(t, b.c.registry.add(a.core))
		require.True(t, b.c.start(a))
		b.socketInput("up")
		synctest.Wait()
		require.Contains(t, b.trace.take(), "execute answer ")
		channel := func(state string, at time.Time) {
			raw, err := json.Marshal(map[string]string{"Unique-ID": b.call.FsUuid, "Answer-State": state, "Caller-Channel-Answered-Time": micros(at)})
			require.NoError(t, err)
			b.link.setChannel(b.call.FsUuid, string(raw))
		}
		channel("ringing", time.Time{})
		time.Sleep(socketTimeout + time.Second) //nolint:forbidigo // the bubble's clock
		require.Contains(t, b.trace.take(), "execute answer ", "the command was lost, and is sent again")
		channel("answered", time.Now())
		require.NoError(t, <-answered)
		synctest.Wait() // until it is written
		require.Equal(t, ledger.StatusAnswered, b.ledger.call(b.call.ID).Status)
		b.crash()
	})
}

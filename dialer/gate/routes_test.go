package gate

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl/admission"
)

// TestTransferGoesOverATrunkThatRests where there is no other: somebody is on the line. It is not what tries the trunk, either.
func TestTransferGoesOverATrunkThatRests(t *testing.T) {
	t.Parallel()
	g, now := &Gate{CarrierProfile: "external"}, time.Now()
	rests := now.Add(time.Minute)
	trunks := []db.GateTrunksRow{{ID: uuid.New(), MaxChannels: 9, Cps: 9, RestsUntil: &rests}, {ID: uuid.New(), MaxChannels: 9, Cps: 9}}
	to, err := store.ParsePhone("9876543200")
	require.NoError(t, err)
	req := admission.Request{To: to, Purpose: admission.PurposeTransfer}
	for _, at := range []time.Time{now, rests} {
		way := g.routesTo(req, trunks, at)
		require.Nil(t, way.denied)
		require.Len(t, way.routes, 2)
		require.Equal(t, trunks[1].ID, *way.routes[0].TrunkID)
		way = g.routesTo(req, trunks[:1], at)
		require.Nil(t, way.denied)
		require.Len(t, way.routes, 1)
	}
	req.Purpose = admission.PurposeSingle
	way := g.routesTo(req, trunks[:1], now)
	require.Equal(t, ReasonTrunkFailures, way.rule)
	var missing *fault.Error
	require.ErrorAs(t, Refuse(way.rule, now, way.denied.at, "%s", way.denied.detail), &missing)
	require.Equal(t, time.Minute, missing.RetryAfter)
	way = g.routesTo(req, trunks, rests)
	require.Nil(t, way.denied)
	require.Len(t, way.routes, 1, "a customer's call isn't what tries a trunk while there is another")
	require.Equal(t, trunks[1].ID, *way.routes[0].TrunkID)
	way = g.routesTo(req, trunks[:1], rests)
	require.Nil(t, way.denied)
	require.Len(t, way.routes, 1)
	req.Environment = string(campaigns.EnvironmentTest)
	way = g.routesTo(req, trunks[:1], now)
	require.Nil(t, way.denied, "nothing is dialed for a test key")
	req.Environment = ""
	trunks[1].ChannelsUsed = 9
	way = g.routesTo(req, trunks, now)
	require.Equal(t, ReasonTrunkChannels, way.rule, "the other one is full")
}

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

func TestRoomAfterAnAdmission(t *testing.T) {
	t.Parallel()
	now, rests := time.Now(), time.Now()
	mine, other := uuid.New(), uuid.New()
	for _, c := range []struct {
		name   string
		trunks []db.GateTrunksRow
		room   int64
		in     time.Duration // zero for no time
	}{
		{"rate left", []db.GateTrunksRow{{ID: mine, MaxChannels: 9, Cps: 3, Recent: 1, FreesInS: 0.5}}, 1, 0},
		{"the last of its second", []db.GateTrunksRow{{ID: mine, MaxChannels: 9, Cps: 3, Recent: 2, FreesInS: 0.5}}, 0, 500 * time.Millisecond},
		{"one a second", []db.GateTrunksRow{{ID: mine, MaxChannels: 9, Cps: 1}}, 0, time.Second},
		{"the last channel", []db.GateTrunksRow{{ID: mine, MaxChannels: 9, ChannelsUsed: 8, Cps: 9}}, 0, 0},
		{"few channels left", []db.GateTrunksRow{{ID: mine, MaxChannels: 9, ChannelsUsed: 6, Cps: 9}}, 2, 0},
		{"another trunk has room", []db.GateTrunksRow{{ID: mine, MaxChannels: 9, Cps: 1}, {ID: other, MaxChannels: 9, Cps: 2}}, 2, 0},
		{"another trunk rests", []db.GateTrunksRow{{ID: mine, MaxChannels: 9, Cps: 1}, {ID: other, MaxChannels: 9, Cps: 2, RestsUntil: &rests}}, 0, time.Second},
		{"another trunk is the first to begin one", []db.GateTrunksRow{
			{ID: mine, MaxChannels: 9, Cps: 1}, {ID: other, MaxChannels: 9, Cps: 2, Recent: 2, FreesInS: 0.25},
		}, 0, 250 * time.Millisecond},
	} {
		room, at := roomAfter(c.trunks, mine, now)
		require.Equal(t, c.room, room, c.name)
		if c.in == 0 {
			require.Zero(t, at, c.name)
			continue
		}
		require.Equal(t, now.Add(c.in), at, c.name)
	}
}

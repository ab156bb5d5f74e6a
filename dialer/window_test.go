package dialer

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/week"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func mustWindow(t *testing.T, w campaigns.CallingWindow) week.Window {
	t.Helper()
	out, err := campaigns.NewWindow(w)
	require.NoError(t, err)
	return out
}

func TestWindow(t *testing.T) {
	t.Parallel()
	india := campaigns.CallingWindow{Timezone: "Asia/Kolkata", From: "09:00", To: "21:00"}
	night := campaigns.CallingWindow{Timezone: "Asia/Kolkata", From: "22:00", To: "02:00", Days: []string{"fri"}}
	berlin := campaigns.CallingWindow{Timezone: "Europe/Berlin", From: "02:30", To: "03:30"}
	newYork := campaigns.CallingWindow{Timezone: "America/New_York", From: "00:30", To: "01:30"}
	whole := campaigns.CallingWindow{Timezone: "Asia/Kolkata", From: "00:00", To: "24:00"}
	for name, c := range map[string]struct {
		w    campaigns.CallingWindow
		at   string
		open bool
		next string
	}{
		"before":                      {india, "2026-11-20T08:59:59+05:30", false, "2026-11-20T09:00:00+05:30"},
		"at the opening":              {india, "2026-11-20T09:00:00+05:30", true, "2026-11-20T09:00:00+05:30"},
		"last second":                 {india, "2026-11-20T20:59:59+05:30", true, "2026-11-20T20:59:59+05:30"},
		"at the end":                  {india, "2026-11-20T21:00:00+05:30", false, "2026-11-21T09:00:00+05:30"},
		"seen from UTC":               {india, "2026-11-20T03:29:59Z", false, "2026-11-20T03:30:00Z"},
		"seen from the day before":    {india, "2026-11-19T23:00:00-08:00", true, "2026-11-19T23:00:00-08:00"},
		"over midnight":               {night, "2026-11-21T01:59:59+05:30", true, "2026-11-21T01:59:59+05:30"},
		"after it":                    {night, "2026-11-21T02:00:00+05:30", false, "2026-11-27T22:00:00+05:30"},
		"night of another day":        {night, "2026-11-20T01:00:00+05:30", false, "2026-11-20T22:00:00+05:30"},
		"around the clock":            {whole, "2026-11-20T23:59:59+05:30", true, "2026-11-20T23:59:59+05:30"},
		"midnight around the clock":   {whole, "2026-11-20T00:00:00+05:30", true, "2026-11-20T00:00:00+05:30"},
		"winter time":                 {berlin, "2026-01-15T03:00:00+01:00", true, "2026-01-15T03:00:00+01:00"},
		"summer time":                 {berlin, "2026-07-15T03:00:00+01:00", false, "2026-07-16T02:30:00+02:00"},
		"the hour that comes twice":   {newYork, "2026-11-01T01:15:00-05:00", false, "2026-11-02T00:30:00-05:00"},
		"the first of the two":        {newYork, "2026-11-01T01:15:00-04:00", true, "2026-11-01T01:15:00-04:00"},
		"the day after the change":    {newYork, "2026-11-02T01:15:00-05:00", true, "2026-11-02T01:15:00-05:00"},
		"the hour that does not come": {berlin, "2026-03-29T00:00:00Z", false, "2026-03-29T01:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, err := time.Parse(time.RFC3339, c.at)
			require.NoError(t, err)
			next, err := time.Parse(time.RFC3339, c.next)
			require.NoError(t, err)
			w := mustWindow(t, c.w)
			require.Equal(t, c.open, w.Open(at))
			require.WithinDuration(t, next, w.Next(at), 0)
			require.True(t, w.Open(w.Next(at)))
		})
	}
	for _, bad := range []campaigns.CallingWindow{
		{Timezone: "", From: "09:00", To: "10:00"},
		{Timezone: "Local", From: "09:00", To: "10:00"},
		{Timezone: "X/Y", From: "09:00", To: "10:00"},
		{Timezone: "UTC", From: "9:00", To: "10:00"},
		{Timezone: "UTC", From: "09:60", To: "10:00"},
		{Timezone: "UTC", From: "24:00", To: "10:00"},
		{Timezone: "UTC", From: "09:00", To: "24:01"},
		{Timezone: "UTC", From: "09:00", To: "09:00"},
		{Timezone: "UTC", From: "09:00", To: "10:00", Days: []string{"Mon"}},
	} {
		_, err := campaigns.NewWindow(bad)
		require.ErrorIs(t, err, campaigns.ErrWindow)
	}
}

func TestWindowsNeverWidenTheLaw(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Legal = Hours{} })
	at := func(s string) time.Time {
		out, err := time.ParseInLocation("2006-01-02 15:04", s, mustWindow(t, campaigns.CallingWindow{Timezone: campaigns.CalleeZone, From: "00:00", To: "24:00"}).Zone)
		require.NoError(t, err)
		return out
	}
	column := func(from, to string, days ...string) json.RawMessage {
		out, err := json.Marshal(campaigns.CallingWindow{Timezone: campaigns.CalleeZone, From: from, To: to, Days: days})
		require.NoError(t, err)
		return out
	}
	for name, c := range map[string]struct {
		tenant, campaign json.RawMessage
		holidays         []string
		now              string
		open             bool
		next             string
	}{
		"law by default":         {nil, nil, nil, "2026-11-20 21:00", false, "2026-11-21 09:00"},
		"law's day":              {nil, nil, nil, "2026-11-20 12:00", true, "2026-11-20 12:00"},
		"tenant's, narrower":     {column("10:00", "18:00"), nil, nil, "2026-11-20 09:30", false, "2026-11-20 10:00"},
		"tenant's, wider":        {column("00:00", "24:00"), nil, nil, "2026-11-20 05:00", false, "2026-11-20 09:00"},
		"campaign's wins":        {column("10:00", "11:00"), column("12:00", "13:00"), nil, "2026-11-20 12:30", true, "2026-11-20 12:30"},
		"campaign's, wider":      {nil, column("06:00", "23:00"), nil, "2026-11-20 22:00", false, "2026-11-21 09:00"},
		"over midnight, cut":     {nil, column("20:00", "10:00"), nil, "2026-11-20 23:00", false, "2026-11-21 09:00"},
		"never within the law's": {nil, column("22:00", "23:00"), nil, "2026-11-20 22:30", false, "2026-11-21 22:30"},
		"days":                   {nil, column("09:00", "21:00", "mon"), nil, "2026-11-20 12:00", false, "2026-11-23 09:00"},
		"unreadable":             {nil, json.RawMessage(`{"from":5}`), nil, "2026-11-20 22:00", false, "2026-11-21 09:00"},
		"holiday":                {nil, nil, []string{"2026-11-20", "2026-11-21"}, "2026-11-20 12:00", false, "2026-11-22 09:00"},
		"holiday, then no day":   {nil, column("09:00", "21:00", "fri", "mon"), []string{"2026-11-20"}, "2026-11-20 12:00", false, "2026-11-23 09:00"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open, next := b.svc.Gate.MayCall(c.tenant, c.campaign, c.holidays, at(c.now))
			require.Equal(t, c.open, open)
			require.WithinDuration(t, at(c.next), next, 0)
		})
	}
}

func TestGateKeepsTheWindow(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Legal = Hours{} }).trunkAndNumber(t)
	campaign := b.running(t)
	lead := b.push(t, campaign.ID, "9876543210")
	night := time.Date(2026, 11, 20, 22, 0, 0, 0, time.FixedZone("IST", 5*3600+1800))
	b.clock.Set(night)
	req := b.request(t, campaign.ID, lead)
	_, err := passGate(t.Context(), b.svc.Gate, req)
	require.Equal(t, gate.ReasonWindow, reason(t, err))
	var refusal *gate.RefusalError
	require.ErrorAs(t, err, &refusal)
	require.WithinDuration(t, night.Add(11*time.Hour), refusal.RetryAt, 0)
	require.Equal(t, string(leads.StatusNew), b.lead(t, lead.ID).Status)
	b.clock.Set(refusal.RetryAt)
	_, err = passGate(t.Context(), b.svc.Gate, req)
	require.NoError(t, err)
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM calls"))
}

package gate

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/admission"
)

// routing is how a number is reached, in the order of the attempts, or why it isn't now, by the rule that says so.
type routing struct {
	routes []admission.Route
	rule   Reason
	denied *denial
}

// routed is the check of a rule of trunks: they are looked at together, once.
func routed(rule Reason) check {
	return plain(func(c *candidate) *denial {
		if c.way == nil {
			c.way = c.gate.routesTo(c.req, c.trunks, c.now)
		}
		if c.way.rule == rule {
			return c.way.denied
		}
		return nil
	})
}

// routesTo gives the trunks with a free channel and rate in order of priority, but for those that rest. The first one's trunk carries the
// unit; only there a trunk is tried whose rest is over, by a lead's call or where there is no other. Somebody who is to be transferred is
// put through over those that rest when no other does.
func (g *Gate) routesTo(req admission.Request, trunks []db.GateTrunksRow, now time.Time) *routing {
	if len(trunks) == 0 {
		h := g.HostTrunk
		if h == nil {
			return &routing{rule: ReasonRoute, denied: deny("no active trunk is declared").until(now.Add(time.Minute))}
		}
		return &routing{routes: []admission.Route{{Endpoint: g.endpoint(dialed(req.To, h.NumberFormat), h.Host, h.Port, h.Transport)}}}
	}
	var full, out routing
	var resting *time.Time
	var last []admission.Route
	nothing := req.Environment == string(campaigns.EnvironmentTest) // is dialed
	transfer := req.Purpose == admission.PurposeTransfer
	spared := req.Purpose != admission.PurposeLead && slices.ContainsFunc(trunks, usable)
	for _, t := range trunks {
		switch {
		case t.RestsUntil != nil && !transfer && !nothing && (now.Before(*t.RestsUntil) || len(out.routes) > 0 || spared):
			if resting == nil || t.RestsUntil.Before(*resting) {
				resting = t.RestsUntil
			}
		case t.ChannelsUsed >= int64(t.MaxChannels):
			if full.rule == "" {
				full = routing{rule: ReasonTrunkChannels, denied: deny("all trunks' channels are taken")}
			}
		case t.Recent >= int64(t.Cps):
			at := g.Now().Add(freesIn(t))
			if full.rule == ReasonTrunkRate && full.denied.at.Before(at) {
				at = full.denied.at
			}
			full = routing{rule: ReasonTrunkRate, denied: deny("a trunk's %d calls per second are used up", t.Cps).until(at)}
		case t.RestsUntil != nil && transfer:
			last = append(last, admission.Route{TrunkID: &t.ID, Endpoint: g.trunkEndpoint(req.To, t)})
		default:
			out.routes = append(out.routes, admission.Route{TrunkID: &t.ID, Endpoint: g.trunkEndpoint(req.To, t)})
		}
	}
	out.routes = append(out.routes, last...)
	switch {
	case len(out.routes) > 0:
		return &out
	case full.rule != "":
		return &full
	default:
		return &routing{rule: ReasonTrunkFailures, denied: deny("the trunk is suspended: its calls keep failing").until(*resting)}
	}
}

// freesIn is in what time a trunk that has begun its calls per second begins the next.
func freesIn(t db.GateTrunksRow) time.Duration {
	return min(max(time.Duration(t.FreesInS*float64(time.Second)), time.Millisecond), store.TrunkRateWindow)
}

// roomAfter is how many calls the trunks begin at once after the one that is admitted on a trunk, and when the next where there is none: zero where
// something else than calls per second stands against it.
func roomAfter(trunks []db.GateTrunksRow, admitted uuid.UUID, now time.Time) (room int64, nextAt time.Time) {
	for _, t := range trunks {
		if t.ID == admitted {
			t.Recent++
			t.ChannelsUsed++
			if t.Recent == 1 {
				t.FreesInS = store.TrunkRateWindow.Seconds()
			}
		}
		channels, rate := int64(t.MaxChannels)-t.ChannelsUsed, int64(t.Cps)-t.Recent
		if t.RestsUntil != nil || channels <= 0 {
			continue
		}
		room += max(0, min(channels, rate))
		if frees := now.Add(freesIn(t)); rate <= 0 && (nextAt.IsZero() || frees.Before(nextAt)) {
			nextAt = frees
		}
	}
	if room > 0 {
		nextAt = time.Time{}
	}
	return room, nextAt
}

// usable tells whether a trunk has room and doesn't rest.
func usable(t db.GateTrunksRow) bool {
	return t.RestsUntil == nil && t.ChannelsUsed < int64(t.MaxChannels) && t.Recent < int64(t.Cps)
}

// rests tells whether a trunk is taken for out of order.
func rests(trunks []db.GateTrunksRow, id uuid.UUID) bool {
	return slices.ContainsFunc(trunks, func(t db.GateTrunksRow) bool { return t.ID == id && t.RestsUntil != nil })
}

// trunkEndpoint names the gateway of a trunk that must authenticate; others are dialed by address.
func (g *Gate) trunkEndpoint(to store.Phone, t db.GateTrunksRow) string {
	number := dialed(to, t.NumberFormat)
	if t.Register || (t.Username != nil && *t.Username != "") {
		return "sofia/gateway/rm_" + t.ID.String() + "/" + number
	}
	return g.endpoint(number, t.Host, int(t.Port), t.Transport)
}

func (g *Gate) endpoint(number, host string, port int, transport string) string {
	return "sofia/" + g.CarrierProfile + "/" + number + "@" + net.JoinHostPort(host, strconv.Itoa(cmp.Or(port, 5060))) +
		";transport=" + cmp.Or(transport, "udp")
}

// Endpoint is the switch's dial string of a number over a trunk. profile is the SIP profile towards carriers, "external"
// when empty.
func Endpoint(profile string, to store.Phone, t db.Trunk) string {
	g := Gate{CarrierProfile: cmp.Or(profile, "external")}
	return g.trunkEndpoint(to, db.GateTrunksRow{
		ID: t.ID, Host: t.Host, Port: t.Port, Transport: t.Transport, Username: t.Username, Register: t.Register,
		NumberFormat: t.NumberFormat,
	})
}

// dialed writes a number as a trunk wants it.
func dialed(to store.Phone, format string) string {
	switch format {
	case "national":
		return to.National()
	case "0national":
		return "0" + to.National()
	default:
		return to.E164()
	}
}

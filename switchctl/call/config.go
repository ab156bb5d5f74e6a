package call

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/media/wav"
	"github.com/ringmaster/ringmaster/store/keyring"
	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// Config is what a [Controller] needs to know about its host.
type Config struct {
	// NodeID names this controller in calls.node and in the channel variable rm_node. One per switch host.
	NodeID string
	// NodeGrace is how long another node gives no sign of life before its calls are closed in its place; 5 minutes by default. A
	// controller that starts again within it finds its calls. It should be the same for all nodes.
	NodeGrace time.Duration
	// Peer is how other controllers of the database reach this one, as it is at the start; nil where they don't.
	Peer func() ledger.Peer
	// ESLAddr and ESLPassword reach the switch's inbound event socket.
	ESLAddr     string
	ESLPassword string
	// OutboundListen is the address that the dialplan's socket application connects to.
	OutboundListen string
	// SocketPeers are the networks that it may connect from; loopback by default.
	SocketPeers netguard.Peers
	// Context is the dialplan context of rm_call, rm_reattach and rm_agent, which no SIP profile has; "ringmaster" by default.
	Context string
	// CarrierProfile and MediaProfile are the switch's SIP profiles; "external" and "internal" by default.
	CarrierProfile string
	// VoiceAgentProfile is the one of voice agents that may send a REFER; "voice_agents" by default.
	VoiceAgentProfile string
	MediaProfile      string
	// CDRDir is where mod_json_cdr writes <uuid>.cdr.json. Records are deleted there.
	CDRDir string
	// RecordDir is where recordings are written, as <call id>.wav.
	RecordDir string
	// RecordEncoding is how AI calls are recorded; PCM by default. What the switch itself records is PCM until it is kept.
	RecordEncoding wav.Encoding
	// Subprotocols are those that this host serves; both by default.
	Subprotocols []string
	// TokenKeys gives the keys of callback tokens, the newest first, which signs. It is asked at each use.
	TokenKeys func() []keyring.Key
	// ControlURL is the address of the control endpoint for a call.
	ControlURL func(callID uuid.UUID) string
	// SIPTarget is where a SIP URI of a tenant's leads, user@address:port, if its hosts allow it; voice agents with transport sip need it.
	SIPTarget func(ctx context.Context, tenant uuid.UUID, uri string) (string, error)
	// Phones hears how agents' phones change; may be nil.
	Phones phone.Watcher
	// Supervisions hears of supervisors' sessions that end by themselves; may be nil.
	Supervisions switchctl.SupervisionWatcher
	// Prompts fetches what is played; without it a waiting caller hears ringback, and nothing else can be played.
	Prompts switchctl.Prompts
	// DrainHangup makes Drain end the calls (NORMAL_CLEARING) in place of waiting for their parties.
	DrainHangup bool
	Clock       Clock
	// OnSwitch, if any, is called beside everything else when the first switch is connected, and each that isn't the process of before; api runs its commands.
	OnSwitch   func(ctx context.Context, api func(ctx context.Context, command string) (string, error))
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Clock is the time that every timer of a call runs on.
type Clock = rt.Clock

// Timer is a pending Clock.AfterFunc.
type Timer = rt.Timer

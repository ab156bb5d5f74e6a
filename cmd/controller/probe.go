package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/websocket"

	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/mediapath"
)

const (
	probeRing  = 30 * time.Second
	probeClose = 3 * time.Second
)

// ErrListed refuses a test call to a number of the do-not-call registry, which no originate may dial.
var ErrListed = errors.New("the number is on the do-not-call registry")

// ErrEndpoint refuses a trunk whose address could hold more than one.
var ErrEndpoint = errors.New("the trunk's host can't be dialed")

// ProbeTrunk tries whether a trunk supports bypass, by a test call. It works beside a running controller: the connection to the
// switch, the media endpoint and the voice agent, who is silent, are its own. The number is the operator's, so neither
// ceilings nor the calling window apply to it; the do-not-call registry does.
func ProbeTrunk(ctx context.Context, c Config, t db.Trunk, to store.Phone, from string, log *slog.Logger) (_ mediapath.ProbeResult, err error) {
	var none mediapath.ProbeResult
	if err := mayProbe(ctx, c, to, log); err != nil {
		return none, err
	}
	endpoint := gate.Endpoint("", to, t)
	if strings.ContainsAny(endpoint+from, " '\"{}[]<>\\^|,&$") {
		return none, ErrEndpoint
	}
	host, _, err := net.SplitHostPort(c.Media.SIPAddr)
	if err != nil {
		return none, fmt.Errorf("read media.sip_addr: %w", err)
	}
	server, err := media.New(media.Config{
		SIPAddr: net.JoinHostPort(host, "0"), RTPIP: c.Media.RTPIP, RTPPortMin: c.Media.RTPPortMin, RTPPortMax: c.Media.RTPPortMax,
		SIPPeers: prefixes(c.Media.SIPAllow), DialGuard: netguard.Policy{AllowLoopback: true}, Shards: 1, Logger: log,
	})
	if err != nil {
		return none, err
	}
	if err := server.Start(ctx); err != nil {
		return none, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeClose)
		defer cancel()
		err = errors.Join(err, server.Close(ctx))
	}()
	agent, err := startSilentAgent(ctx)
	if err != nil {
		return none, err
	}
	defer func() { err = errors.Join(err, agent.Close()) }()
	id := uuid.NewString()
	session, err := server.Open(ctx, media.SessionSpec{ID: id, CallID: id, URL: "ws://" + agent.Addr})
	if err != nil {
		return none, err
	}
	return mediapath.Probe(ctx, mediapath.ProbeRequest{
		ESLAddr: c.Switch.ESLAddr, ESLPassword: c.Switch.ESLPassword, Endpoint: endpoint, From: from, RingTimeout: probeRing,
		MediaProfile: "internal", MediaAddr: server.SIPAddr(), Session: session, SessionID: id,
	})
}

// mayProbe asks the registry, which has no off switch.
func mayProbe(ctx context.Context, c Config, to store.Phone, log *slog.Logger) error {
	scrubber, err := c.Scrubber(log, nil, nil)
	if err != nil {
		return err
	}
	defer scrubber.Close()
	if err := scrubber.Load(ctx); err != nil {
		return err
	}
	listed, err := scrubber.Listed(ctx, []store.Phone{to})
	switch {
	case err != nil:
		return err
	case listed[0]:
		return ErrListed
	}
	return nil
}

// startSilentAgent serves a voice agent that hears a call and says nothing.
func startSilentAgent(ctx context.Context) (*http.Server, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the probe's voice agent: %w", err)
	}
	upgrader := websocket.Upgrader{Subprotocols: []string{media.SubprotocolAlpha}}
	s := &http.Server{Addr: l.Addr().String(), ReadHeaderTimeout: probeClose}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return // the upgrader has answered
		}
		defer conn.Close() //nolint:errcheck // the other side has gone
		for {
			if _, _, err := conn.NextReader(); err != nil {
				return
			}
		}
	})
	go func() { _ = s.Serve(l) }() // ends with Close
	return s, nil
}

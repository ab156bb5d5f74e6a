package switchctl

import (
	"context"
	"encoding/json"
	"time"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/wav"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// switchLink is what an actor needs of the host link.
type switchLink interface {
	// BgAPI sends a background command; done is called once with the reply, or with the error that kept it away.
	// An error of BgAPI itself that is ErrLinkDown means that nothing was sent; done is not called then.
	BgAPI(ctx context.Context, cmd fs.Command, done func(body string, err error)) error
	// API and Background wait for a command's output; no other command waits behind one that is in the background.
	fs.Switch
	// Execute has a channel run an application besides what it runs.
	Execute(ctx context.Context, channel, app, arg string) error
	// Generation counts the connections made; 0 while there is none.
	Generation() uint64
}

// socket is a caller's outbound socket. *esl.Conn is one.
type socket interface {
	Execute(ctx context.Context, req esl.ExecuteRequest) error
	// Handle and Command ask for further events; they come in order on one goroutine.
	Handle(fn func(*esl.Event))
	Command(ctx context.Context, text string, headers ...esl.Field) (esl.Reply, error)
	Done() <-chan struct{}
	Close() error
}

// mediaServer opens AI sessions.
type mediaServer interface {
	Open(ctx context.Context, spec media.SessionSpec) (mediaSession, error)
	OpenTap(ctx context.Context, spec media.SessionSpec) (*tapFork, error)
	SIPAddr() string
}

// tapFork is an open tap of the media endpoint, waiting for its legs.
type tapFork struct {
	legs []forkLeg
	// socket: somebody hears it, besides the detector.
	socket bool
	close  func(reason media.CloseReason)
}

// forkLeg is one of them; sip is the user part of its address.
type forkLeg struct {
	side    media.TapSide
	sip     string
	session tapSession
}

// tapSession is what an actor needs of a leg's session.
type tapSession interface {
	Events() <-chan media.Event
	SendCommandResult(r media.CommandResult) error
	UpdateMetadata(m json.RawMessage)
}

// mediaSession is one AI session. *media.Session is one.
type mediaSession interface {
	Events() <-chan media.Event
	SendText(typ string, data any) error
	SendCommandResult(r media.CommandResult) error
	// SendDTMF and the three below are of the caller's digits.
	SendDTMF(digits string, each time.Duration) error
	HeardDTMF(digit string, dur time.Duration)
	SetToneDetection(on bool)
	SetEventPayload(pt uint8)
	SetMute(dir media.Direction, muted bool)
	UpdateMetadata(m json.RawMessage)
	Close(reason media.CloseReason) media.Stats
	PauseRecording(paused bool) error
	FinishRecording(answered, ended time.Time) (wav.Recording, error)
}

// mediaAdapter narrows *media.Server.
type mediaAdapter struct{ server *media.Server }

func (m mediaAdapter) Open(ctx context.Context, spec media.SessionSpec) (mediaSession, error) {
	s, err := m.server.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (m mediaAdapter) OpenTap(ctx context.Context, spec media.SessionSpec) (*tapFork, error) {
	t, err := m.server.OpenTap(ctx, spec)
	if err != nil {
		return nil, err
	}
	fork := &tapFork{socket: spec.URL != "", close: func(reason media.CloseReason) { t.Close(reason) }} //nolint:contextcheck // a BYE has its own time limit
	for _, l := range t.Legs {
		fork.legs = append(fork.legs, forkLeg{side: l.Side, sip: l.Session.ID(), session: l.Session})
	}
	return fork, nil
}

func (m mediaAdapter) SIPAddr() string { return m.server.SIPAddr() }

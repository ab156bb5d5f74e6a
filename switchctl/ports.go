package switchctl

import (
	"context"
	"encoding/json"
	"time"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/switchctl/esl"
)

// switchLink is what an actor needs of the host link.
type switchLink interface {
	// BgAPI sends a background command; done is called once with the reply, or with the error that kept it away.
	// An error of BgAPI itself that is ErrLinkDown means that nothing was sent; done is not called then.
	BgAPI(ctx context.Context, cmd string, done func(body string, err error)) error
	// API runs a quick command.
	API(ctx context.Context, cmd string) (string, error)
	// Generation counts the connections made; 0 while there is none.
	Generation() uint64
}

// socket is a caller's outbound socket. *esl.Conn is one.
type socket interface {
	Execute(ctx context.Context, req esl.ExecuteRequest) error
	Done() <-chan struct{}
	Close() error
}

// mediaServer opens AI sessions.
type mediaServer interface {
	Open(ctx context.Context, spec media.SessionSpec) (mediaSession, error)
	SIPAddr() string
}

// mediaSession is one AI session. *media.Session is one.
type mediaSession interface {
	Events() <-chan media.Event
	SendText(typ string, data any) error
	SendCommandResult(r media.CommandResult) error
	// SendDTMF, HeardDTMF and SetToneDetection are of the caller's digits.
	SendDTMF(digits string, each time.Duration) error
	HeardDTMF(digit string, dur time.Duration)
	SetToneDetection(on bool)
	UpdateMetadata(m json.RawMessage)
	Close(reason media.CloseReason) media.Stats
	FinishRecording(answered, ended time.Time) (media.RecordingInfo, error)
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

func (m mediaAdapter) SIPAddr() string { return m.server.SIPAddr() }

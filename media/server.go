package media

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/media/netguard"
)

// Config is what a Server needs.
type Config struct {
	SIPAddr                string
	RTPIP                  string
	RTPPortMin, RTPPortMax int
	Subprotocols           []string
	DialGuard              netguard.Policy
	Shards                 int
	Logger                 *slog.Logger
	Registerer             prometheus.Registerer
	Clock                  func() time.Time
}

// Server is the media endpoint.
type Server struct{ cfg Config }

// New returns a server.
func New(cfg Config) (*Server, error) { return &Server{cfg: cfg}, nil }

// Start binds.
func (s *Server) Start(ctx context.Context) error { return nil }

// Close ends.
func (s *Server) Close(ctx context.Context) error { return nil }

// SIPAddr is the bound address.
func (s *Server) SIPAddr() string { return s.cfg.SIPAddr }

// Open opens a session.
func (s *Server) Open(ctx context.Context, spec SessionSpec) (*Session, error) {
	return &Session{}, nil
}

// Session is one AI session.
type Session struct{}

// URI is where the switch bridges the caller to.
func (s *Session) URI() string { return "" }

// Events reports.
func (s *Session) Events() <-chan Event { return nil }

// SendText sends {"type","data"}.
func (s *Session) SendText(typ string, data any) error { return nil }

// SendCommandResult answers a command frame.
func (s *Session) SendCommandResult(r CommandResult) error { return nil }

// SetMute mutes.
func (s *Session) SetMute(dir Direction, muted bool) {}

// UpdateMetadata replaces the metadata frame of the next reconnect.
func (s *Session) UpdateMetadata(m json.RawMessage) {}

// Stats counts so far.
func (s *Session) Stats() Stats { return Stats{} }

// Close closes.
func (s *Session) Close(reason CloseReason) Stats { return Stats{} }

// FinishRecording trims.
func (s *Session) FinishRecording(answered, ended time.Time) (RecordingInfo, error) {
	return RecordingInfo{}, nil
}

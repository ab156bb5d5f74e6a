package echoai

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

const maxBody = 64 << 10

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{"/echo", "/tone", "/silent", "/close", "/act"} {
		mux.Handle("GET "+path, s.authorized(s.serveAgent))
	}
	mux.HandleFunc("GET /refuse", s.refuse)
	mux.HandleFunc("GET /stall", s.stall)
	mux.HandleFunc("GET /sessions", func(w http.ResponseWriter, _ *http.Request) { s.reply(w, http.StatusOK, s.Sessions("")) })
	mux.HandleFunc("DELETE /sessions", func(w http.ResponseWriter, _ *http.Request) {
		s.reply(w, http.StatusOK, map[string]int{"forgotten": s.Forget()})
	})
	mux.HandleFunc("GET /sessions/{call_id}", func(w http.ResponseWriter, r *http.Request) {
		found := s.Sessions(r.PathValue("call_id"))
		if len(found) == 0 {
			s.reply(w, http.StatusNotFound, map[string]string{"error": ErrUnknownSession.Error()})
			return
		}
		s.reply(w, http.StatusOK, found)
	})
	mux.HandleFunc("POST /sessions/{call_id}/send", s.postSend)
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) { s.reply(w, http.StatusOK, s.Stats()) })
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { s.reply(w, http.StatusOK, map[string]bool{"ok": true}) })
	return mux
}

// authorized asks for the configured bearer token.
func (s *Server) authorized(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		want := "Bearer " + s.cfg.Token
		if s.cfg.Token != "" && subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte(want)) != 1 {
			s.countRefused()
			s.reply(w, http.StatusUnauthorized, map[string]string{"error": "bearer token required"})
			return
		}
		next(w, r)
	})
}

func (s *Server) countRefused() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Refused++
}

func (s *Server) refuse(w http.ResponseWriter, r *http.Request) {
	status, err := refusal(r.URL.Query())
	if err != nil {
		s.reply(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	s.countRefused()
	s.reply(w, status, map[string]string{"error": "refused"})
}

// stall holds the connection without ever answering the upgrade.
func (s *Server) stall(w http.ResponseWriter, _ *http.Request) {
	if !s.enter() {
		s.reply(w, http.StatusServiceUnavailable, map[string]string{"error": ErrClosed.Error()})
		return
	}
	defer s.wg.Done()
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.log.Warn("taking a connection over failed", "error", err)
		return
	}
	s.mu.Lock()
	s.stats.Stalled++
	s.mu.Unlock()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, net.ErrClosed) {
			s.log.Debug("a stalled connection broke", "error", err)
		}
	}()
	select {
	case <-gone:
	case <-s.stop:
	}
	if err := conn.Close(); err != nil {
		s.log.Debug("closing a stalled connection failed", "error", err)
	}
	<-gone
}

// postSend sends the body as a text frame on the call's live connection.
func (s *Server) postSend(w http.ResponseWriter, r *http.Request) {
	var frame json.RawMessage
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&frame); err != nil {
		s.reply(w, http.StatusBadRequest, map[string]string{"error": "body: " + err.Error()})
		return
	}
	switch err := s.Send(r.PathValue("call_id"), frame); {
	case errors.Is(err, ErrUnknownSession):
		s.reply(w, http.StatusNotFound, map[string]string{"error": err.Error()})
	case err != nil:
		s.reply(w, http.StatusBadGateway, map[string]string{"error": err.Error()})
	default:
		s.reply(w, http.StatusOK, map[string]any{"ok": true, "sent_at": time.Now()})
	}
}

func (s *Server) reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.log.Debug("writing a response failed", "error", err)
	}
}

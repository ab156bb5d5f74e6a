package simcarrier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

const maxBody = 128 << 10

// startHTTP serves the control surface.
func (s *surface) startHTTP(ctx context.Context) error {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", s.cfg.HTTPAddr)
	if err != nil {
		return fmt.Errorf("bind carrier's control address %s: %w", s.cfg.HTTPAddr, err)
	}
	s.webAddr = ln.Addr().String()
	s.web = &http.Server{Handler: s.routes(), ReadHeaderTimeout: 10 * time.Second}
	s.serving.Go(func() {
		if err := s.web.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("carrier's control surface ended", "error", err)
		}
	})
	return nil
}

func (s *surface) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /inbound", s.postInbound)
	mux.HandleFunc("GET /calls", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		s.write(w, http.StatusOK, s.Calls(Filter{Number: q.Get("number"), Live: q.Get("live") == "true"}))
	})
	mux.HandleFunc("DELETE /calls", func(w http.ResponseWriter, _ *http.Request) {
		s.write(w, http.StatusOK, map[string]int{"forgotten": s.Forget()})
	})
	mux.HandleFunc("GET /calls/{id}", func(w http.ResponseWriter, r *http.Request) {
		report, err := s.Call(r.PathValue("id"))
		s.reply(w, report, err)
	})
	mux.HandleFunc("POST /calls/{id}/hangup", func(w http.ResponseWriter, r *http.Request) {
		s.reply(w, map[string]bool{"ok": true}, s.Hangup(r.PathValue("id")))
	})
	mux.HandleFunc("POST /calls/{id}/keys", s.postKeys)
	mux.HandleFunc("POST /calls/{id}/stall", s.postStall)
	mux.HandleFunc("POST /calls/{id}/tape", s.postTape)
	mux.HandleFunc("PUT /target", s.putTarget)
	mux.HandleFunc("PUT /rings", s.putRings)
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) { s.write(w, http.StatusOK, s.Stats()) })
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		s.write(w, http.StatusOK, map[string]any{"ok": true, "sip": s.SIPAddr()})
	})
	s.agentRoutes(mux)
	return mux
}

func (s *surface) postInbound(w http.ResponseWriter, r *http.Request) {
	var req PlaceRequest
	if err := decode(w, r, &req); err != nil {
		s.reply(w, nil, err)
		return
	}
	res, err := s.Place(r.Context(), req)
	s.reply(w, res, err)
}

func (s *surface) putTarget(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Target string `json:"target"`
	}
	err := decode(w, r, &req)
	if err == nil {
		err = s.SetTarget(req.Target)
	}
	s.reply(w, map[string]bool{"ok": true}, err)
}

func decode(w http.ResponseWriter, r *http.Request, v any) error {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("%w: body: %w", ErrInvalidRequest, err)
	}
	return nil
}

// reply writes a result, or an error as {"error": message}.
func (s *surface) reply(w http.ResponseWriter, v any, err error) {
	switch {
	case err == nil:
		s.write(w, http.StatusOK, v)
		return
	case errors.Is(err, ErrInvalidRequest):
		s.write(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
	case errors.Is(err, ErrUnknownCall), errors.Is(err, ErrUnknownAgent):
		s.write(w, http.StatusNotFound, map[string]string{"error": err.Error()})
	case errors.Is(err, ErrUnreachable):
		s.write(w, http.StatusBadGateway, map[string]string{"error": err.Error()})
	case errors.Is(err, ErrClosed), errors.Is(err, ErrNoPort):
		s.write(w, http.StatusServiceUnavailable, map[string]string{"error": err.Error()})
	default:
		s.write(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
	}
	s.log.Info("a control request failed", "error", err)
}

func (s *surface) write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.log.Debug("writing a control response failed", "error", err)
	}
}

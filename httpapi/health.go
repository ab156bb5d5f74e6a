package httpapi

import (
	"context"
	"net/http"
	"sync"
	"time"
)

const (
	// interfaceVersion is the Dialer API's.
	interfaceVersion = "0.1.0"
	readyTimeout     = 3 * time.Second

	checkOK      = "ok"
	checkFailing = "failing"
)

type healthView struct {
	Status           string `json:"status"`
	Service          string `json:"service"`
	Version          string `json:"version"`
	InterfaceVersion string `json:"interface_version"`
	UptimeS          int    `json:"uptime_s"`
}

type liveView struct {
	Status string `json:"status"`
}

type readyView struct {
	Status  string            `json:"status"`
	Checks  map[string]string `json:"checks"`
	Failing []string          `json:"failing"`
}

func (s *Server) health(context.Context, *request) (reply, error) {
	return ok(healthView{
		Status: checkOK, Service: "ringmaster", Version: s.cfg.Version, InterfaceVersion: interfaceVersion,
		UptimeS: int(s.cfg.Now().Sub(s.started).Seconds()),
	}), nil
}

func (s *Server) live(context.Context, *request) (reply, error) {
	return ok(liveView{Status: checkOK}), nil
}

// ready asks every critical dependency at once. The answer names those that fail; why they fail stands in the log.
func (s *Server) ready(ctx context.Context, r *request) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	checks := append([]Check{{Name: "database", Ready: s.deps.Store.Ping}}, s.deps.Checks...)
	errs := make([]error, len(checks))
	var asked sync.WaitGroup
	for i, c := range checks {
		asked.Go(func() { errs[i] = c.Ready(ctx) })
	}
	asked.Wait()
	view := readyView{Status: checkOK, Checks: map[string]string{}, Failing: []string{}}
	status := http.StatusOK
	for i, c := range checks {
		view.Checks[c.Name] = checkOK
		if errs[i] == nil {
			continue
		}
		s.cfg.Logger.InfoContext(ctx, "not ready", "check", c.Name, "request_id", r.id, "error", errs[i])
		view.Checks[c.Name] = checkFailing
		view.Failing = append(view.Failing, c.Name)
		view.Status, status = "unavailable", http.StatusServiceUnavailable
	}
	return reply{status: status, body: view}, nil
}

func (s *Server) openAPI(context.Context, *request) (reply, error) {
	return reply{status: http.StatusOK, raw: s.doc}, nil
}

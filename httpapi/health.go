package httpapi

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/ringmaster/ringmaster/httpapi/openapi"
)

const (
	// interfaceVersion is the Dialer API's.
	interfaceVersion = "0.1.0"
	readyTimeout     = 3 * time.Second

	checkOK       = "ok"
	checkDegraded = "degraded"
	checkFailing  = "failing"

	statusUnavailable = "unavailable"
)

type healthView struct {
	Status           string `json:"status"`
	Service          string `json:"service"`
	Version          string `json:"version"`
	InterfaceVersion string `json:"interface_version"`
	UptimeS          int    `json:"uptime_s"`

	DoNotCall *registryView `json:"do_not_call,omitempty"`
}

// registryView tells how old the do-not-call registry is.
type registryView struct {
	Status  string     `json:"status"`
	Version *string    `json:"version"`
	AsOf    *time.Time `json:"as_of"`
	AgeS    *int64     `json:"age_s"`
	Numbers *uint64    `json:"numbers"`
}

func registryOf(r RegistryStatus) *registryView {
	v := &registryView{Status: checkOK}
	switch {
	case r.Unavailable:
		v.Status = statusUnavailable
	case r.Degraded:
		v.Status = checkDegraded
	}
	if !r.AsOf.IsZero() {
		at, age := r.AsOf.UTC(), int64(r.Age.Seconds())
		v.Version, v.AsOf, v.AgeS, v.Numbers = &r.Version, &at, &age, &r.Numbers
	}
	return v
}

type liveView struct {
	Status string `json:"status"`
}

type readyView struct {
	Status   string            `json:"status"`
	Checks   map[string]string `json:"checks"`
	Failing  []string          `json:"failing"`
	Degraded []string          `json:"degraded"`
}

func (h healthHandlers) health(context.Context, *request) (reply, error) {
	view := healthView{
		Status: checkOK, Service: "ringmaster", Version: h.version, InterfaceVersion: interfaceVersion,
		UptimeS: int(h.now().Sub(h.started).Seconds()),
	}
	if h.registry != nil {
		view.DoNotCall = registryOf(h.registry())
		view.Status = view.DoNotCall.Status
	}
	return ok(view), nil
}

func (h healthHandlers) live(context.Context, *request) (reply, error) {
	return ok(liveView{Status: checkOK}), nil
}

// ready asks every critical dependency at once. The answer names those that fail, and those that are degraded, which is no
// reason to answer 503; why stands in the log.
func (h healthHandlers) ready(ctx context.Context, r *request) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	checks := append([]Check{{Name: "database", Ready: h.store.Ping}}, h.checks...)
	errs := make([]error, len(checks))
	var asked sync.WaitGroup
	for i, c := range checks {
		asked.Go(func() { errs[i] = c.Ready(ctx) })
	}
	asked.Wait()
	view := readyView{Status: checkOK, Checks: map[string]string{}, Failing: []string{}, Degraded: []string{}}
	status := http.StatusOK
	for i, c := range checks {
		view.Checks[c.Name] = checkOK
		if errs[i] == nil {
			continue
		}
		h.log.InfoContext(ctx, "health check failed", "check", c.Name, "request_id", r.id, "error", errs[i])
		if errors.Is(errs[i], ErrDegraded) {
			view.Checks[c.Name] = checkDegraded
			view.Degraded = append(view.Degraded, c.Name)
			if view.Status == checkOK {
				view.Status = checkDegraded
			}
			continue
		}
		view.Checks[c.Name] = checkFailing
		view.Failing = append(view.Failing, c.Name)
		view.Status, status = statusUnavailable, http.StatusServiceUnavailable
	}
	return reply{status: status, body: view}, nil
}

func (healthHandlers) document(context.Context, *request) (reply, error) {
	doc, err := openapi.Document()
	return reply{status: http.StatusOK, raw: doc}, err
}

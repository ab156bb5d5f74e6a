package simcarrier

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// AddAgent makes a softphone and registers it; the state tells with which result. One that has the extension already gets the
// new account, and keeps its calls. Errors: ErrInvalidRequest, ErrUnreachable, ErrClosed.
func (s *Server) AddAgent(ctx context.Context, spec AgentSpec) (AgentState, error) {
	spec, voice, err := spec.check(s.cfg.Registrar)
	if err != nil {
		return AgentState{}, err
	}
	s.mu.Lock()
	if s.closed || !s.began {
		s.mu.Unlock()
		return AgentState{}, ErrClosed
	}
	a, known := s.agents[spec.Extension]
	if !known {
		a = &agent{
			s: s, extension: spec.Extension, callID: newAgentID(), kick: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		}
		a.spec, a.voice = spec, voice
		s.agents[spec.Extension] = a
		s.wg.Go(func() { a.run(context.WithoutCancel(ctx)) })
	}
	s.mu.Unlock()
	a.mu.Lock()
	a.spec, a.voice = spec, voice
	a.mu.Unlock()
	return a.again(ctx)
}

// again registers, and has the goroutine count from now.
func (a *agent) again(ctx context.Context) (AgentState, error) {
	err := a.send(ctx, a.expires())
	select {
	case a.kick <- struct{}{}:
	default:
	}
	return a.state(), err
}

func (s *Server) findAgent(extension string) (*agent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a, ok := s.agents[extension]; ok {
		return a, nil
	}
	return nil, fmt.Errorf("find agent %q: %w", extension, ErrUnknownAgent)
}

// contactPrefix begins the user part of every softphone's contact, which makes it no number of the carrier's.
const contactPrefix = "softphone-"

// agentOf is the softphone that a request was sent to, or nil: by its contact, or by its extension.
func (s *Server) agentOf(user string) *agent {
	extension := strings.TrimPrefix(user, contactPrefix)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.agents[extension]
}

// Agents lists the softphones by extension. Of a call it tells how it stands, not what was heard.
func (s *Server) Agents() []AgentState {
	s.mu.Lock()
	list := make([]*agent, 0, len(s.agents))
	for _, extension := range slices.Sorted(maps.Keys(s.agents)) {
		list = append(list, s.agents[extension])
	}
	s.mu.Unlock()
	out := make([]AgentState, 0, len(list))
	for _, a := range list {
		state, latest := a.brief()
		if latest != nil {
			latest.mu.Lock()
			r := latest.report
			latest.mu.Unlock()
			state.Call = &r
		}
		out = append(out, state)
	}
	return out
}

// Agent is one softphone's state.
func (s *Server) Agent(extension string) (AgentState, error) {
	a, err := s.findAgent(extension)
	if err != nil {
		return AgentState{}, err
	}
	return a.state(), nil
}

// SetAgentManner changes how a softphone takes its next call.
func (s *Server) SetAgentManner(extension string, m AgentManner) (AgentState, error) {
	m = m.withDefaults()
	if err := m.check(); err != nil {
		return AgentState{}, err
	}
	a, err := s.findAgent(extension)
	if err != nil {
		return AgentState{}, err
	}
	a.mu.Lock()
	a.spec.AgentManner = m
	a.mu.Unlock()
	return a.state(), nil
}

// RegisterAgent registers a softphone once more, with the account it has.
func (s *Server) RegisterAgent(ctx context.Context, extension string) (AgentState, error) {
	a, err := s.findAgent(extension)
	if err != nil {
		return AgentState{}, err
	}
	return a.again(ctx)
}

// LoseAgent cuts a softphone's network: it answers nothing, sends nothing, and does not register again.
func (s *Server) LoseAgent(extension string) (AgentState, error) {
	a, err := s.findAgent(extension)
	if err != nil {
		return AgentState{}, err
	}
	a.mu.Lock()
	a.lost = true
	a.mu.Unlock()
	for _, c := range s.callsOf(a) {
		if st := c.live(); st != nil {
			st.lost.Store(true)
		}
	}
	return a.state(), nil
}

// RecoverAgent gives a lost softphone its network back. It knows nothing of its calls of before, and registers anew.
func (s *Server) RecoverAgent(ctx context.Context, extension string) (AgentState, error) {
	a, err := s.findAgent(extension)
	if err != nil {
		return AgentState{}, err
	}
	for _, c := range s.callsOf(a) {
		c.end(Us, networkLost)
	}
	a.mu.Lock()
	a.lost = false
	a.mu.Unlock()
	return a.again(ctx)
}

// HangupAgent makes the agent hang up whatever call there is.
func (s *Server) HangupAgent(extension string) (AgentState, error) {
	a, err := s.findAgent(extension)
	if err != nil {
		return AgentState{}, err
	}
	for _, c := range s.callsOf(a) {
		c.askHangup()
	}
	return a.state(), nil
}

// RemoveAgent takes a softphone's registration back, unless its network is lost, and forgets it. A call goes on.
func (s *Server) RemoveAgent(ctx context.Context, extension string) (AgentState, error) {
	a, err := s.findAgent(extension)
	if err != nil {
		return AgentState{}, err
	}
	a.once.Do(func() { close(a.stop) })
	<-a.done
	if !a.isLost() {
		err = a.send(ctx, 0)
	}
	s.mu.Lock()
	if s.agents[extension] == a {
		delete(s.agents, extension)
	}
	s.mu.Unlock()
	return a.state(), err
}

// callsOf lists an agent's live calls.
func (s *Server) callsOf(a *agent) []*call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*call
	for _, c := range s.calls.live {
		if c.plan.agent == a {
			out = append(out, c)
		}
	}
	return out
}

// agentRoutes is the control surface of softphones.
func (s *surface) agentRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /agents", func(w http.ResponseWriter, _ *http.Request) { s.write(w, http.StatusOK, s.Agents()) })
	mux.HandleFunc("POST /agents", func(w http.ResponseWriter, r *http.Request) {
		var spec AgentSpec
		if err := decode(w, r, &spec); err != nil {
			s.reply(w, nil, err)
			return
		}
		state, err := s.AddAgent(r.Context(), spec)
		s.reply(w, state, err)
	})
	mux.HandleFunc("PATCH /agents/{extension}", func(w http.ResponseWriter, r *http.Request) {
		var m AgentManner
		if err := decode(w, r, &m); err != nil {
			s.reply(w, nil, err)
			return
		}
		state, err := s.SetAgentManner(r.PathValue("extension"), m)
		s.reply(w, state, err)
	})
	for route, do := range map[string]func(context.Context, string) (AgentState, error){
		"GET ":           func(_ context.Context, extension string) (AgentState, error) { return s.Agent(extension) },
		"DELETE ":        s.RemoveAgent,
		"POST /register": s.RegisterAgent,
		"POST /lose":     func(_ context.Context, extension string) (AgentState, error) { return s.LoseAgent(extension) },
		"POST /recover":  s.RecoverAgent,
		"POST /hangup":   func(_ context.Context, extension string) (AgentState, error) { return s.HangupAgent(extension) },
	} {
		method, action, _ := strings.Cut(route, " ")
		mux.HandleFunc(method+" /agents/{extension}"+action, func(w http.ResponseWriter, r *http.Request) {
			state, err := do(r.Context(), r.PathValue("extension"))
			s.reply(w, state, err)
		})
	}
}

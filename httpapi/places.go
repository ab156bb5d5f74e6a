package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"github.com/ringmaster/ringmaster/httpapi/relay"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// headerClient tells the other controller who has asked.
const headerClient = "X-Forwarded-For"

// relayedLess is how much sooner a request from another controller is given up than one from a client.
const relayedLess = 4 * time.Second

// placeFunc names the controller that a request is to be carried out by; this one when it is empty.
type placeFunc func(ctx context.Context, r *request) (node string, err error)

// places finds the controllers of calls, agents' phones and supervisors' sessions. What names nothing is this one's to refuse.
type places struct {
	store *store.Store
	calls Calls
}

// look reads in the request's tenant who has something; empty for nobody.
func (p places) look(r *request, read func(q *db.Queries) (string, error)) (node string, err error) {
	node, err = read(p.store.Read(r.who.TenantID))
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	return node, err
}

// withCall is the controller of a live call. A call that is here needs no look at the database.
func (p places) withCall(ctx context.Context, r *request, text string) (string, error) {
	id, err := parseID(text)
	if err != nil || p.calls.Runs(r.who.TenantID, id) {
		return "", nil //nolint:nilerr // refused here
	}
	return p.look(r, func(q *db.Queries) (string, error) { return q.NodeOfCall(ctx, r.who.TenantID, id) })
}

// withAgent is the controller that has the phone of an agent.
func (p places) withAgent(ctx context.Context, r *request, id uuid.UUID) (string, error) {
	return p.look(r, func(q *db.Queries) (string, error) {
		row, err := q.NodeOfAgent(ctx, r.who.TenantID, id)
		return row.Node, err
	})
}

// ofCall is where the call of the path is.
func (p places) ofCall(ctx context.Context, r *request) (string, error) {
	text, _ := r.rc.UserValue("call_id").(string)
	return p.withCall(ctx, r, text)
}

// ofSubject is where the call or agent of the body is.
func (p places) ofSubject(ctx context.Context, r *request) (string, error) {
	var in struct {
		CallID  string `json:"call_id"`
		AgentID string `json:"agent_id"`
	}
	if err := r.decode(&in); err != nil {
		return "", nil //nolint:nilerr // refused here
	}
	if agent, err := parseID(in.AgentID); err == nil && in.CallID == "" {
		return p.withAgent(ctx, r, agent)
	}
	return p.withCall(ctx, r, in.CallID)
}

// ofSession is where the phone of the path's supervisor's session is.
func (p places) ofSession(ctx context.Context, r *request) (string, error) {
	id, err := r.pathID("session_id", sessionNoun)
	if err != nil {
		return "", nil //nolint:nilerr // refused here
	}
	return p.look(r, func(q *db.Queries) (string, error) { return q.NodeOfSupervision(ctx, r.who.TenantID, id) })
}

// ofEscalation is where the call of the path's escalation is.
func (p places) ofEscalation(ctx context.Context, r *request) (string, error) {
	id, err := r.pathID("escalation_id", escalationNoun)
	if err != nil {
		return "", nil //nolint:nilerr // refused here
	}
	return p.look(r, func(q *db.Queries) (string, error) { return q.NodeOfEscalation(ctx, r.who.TenantID, id) })
}

// ofAgent is where the phone of the agent is who asks.
func (p places) ofAgent(ctx context.Context, r *request) (string, error) {
	return p.withAgent(ctx, r, r.who.ID)
}

// ofLogin is where an agent is who is on a call. Any other logs in here: this host's switch has the phone from now on.
func (p places) ofLogin(ctx context.Context, r *request) (string, error) {
	return p.look(r, func(q *db.Queries) (string, error) {
		row, err := q.NodeOfAgent(ctx, r.who.TenantID, r.who.ID)
		if row.CurrentCallID == nil {
			return "", err
		}
		return row.Node, err
	})
}

// elsewhere names the controller that is to carry the request out, if it is another one. What one has sent here is carried out here, or
// by nobody.
func (s *Server) elsewhere(ctx context.Context, r *request) (node string, err error) {
	if r.op.place == nil || s.relay == nil || r.relayed {
		return "", nil
	}
	node, err = r.op.place(ctx, r)
	if node == s.cfg.Node {
		return "", err
	}
	return node, err
}

// handOver has another controller carry the request out, and gives its answer. The credential goes with it, and is checked there again.
func (s *Server) handOver(ctx context.Context, r *request, node string) (reply, error) {
	r.sentTo = node
	in := &r.rc.Request.Header
	header := http.Header{headerRequestID: {r.id}, headerClient: {r.client}}
	for _, name := range []string{
		fasthttp.HeaderAuthorization, fasthttp.HeaderContentType, fasthttp.HeaderContentEncoding, fasthttp.HeaderOrigin, headerIdempotencyKey,
	} {
		for _, value := range in.PeekAll(name) {
			header.Add(name, string(value))
		}
	}
	got, err := s.relay.Send(ctx, node, relay.Request{
		Method: string(r.rc.Method()), Path: string(r.rc.Path()), Header: header, Body: r.rc.PostBody(),
		Keyed: header.Get(headerIdempotencyKey) != "" && (takesKey(r) || r.op.access == accessControl),
	})
	if err != nil {
		return reply{}, err
	}
	out := reply{status: got.Status, contentType: got.Header.Get(fasthttp.HeaderContentType), headers: map[string]string{}}
	if len(got.Body) > 0 {
		out.raw = got.Body
	}
	for _, name := range []string{headerRetryAfter, headerReplayed, fasthttp.HeaderWWWAuthenticate} {
		if value := got.Header.Get(name); value != "" {
			out.headers[name] = value
		}
	}
	return out, nil
}

// relayedKey is the user value that marks a request which another controller has sent.
const relayedKey = "ringmaster.relayed"

// doorOperations are those that other controllers may ask for.
func (s *Server) doorOperations() []operation {
	var all []operation
	for _, op := range s.api.operations() {
		if op.place != nil {
			all = append(all, op)
		}
	}
	return all
}

// openDoor serves other controllers.
func (s *Server) openDoor(base context.Context, door *ownListener) {
	with := s.newMain(base, s.doorOperations())
	handle := with.Handler
	with.Handler = func(rc *fasthttp.RequestCtx) {
		rc.SetUserValue(relayedKey, true)
		handle(rc)
	}
	door.speakTLS(s.relay.Door(base))
	s.serveOwn(door, with)
}

// Peer is how other controllers reach this server: the address of its door, empty where it has none, and the key that it is known by. Ask
// after Start.
func (s *Server) Peer() (addr string, key []byte) {
	if s.relay == nil {
		return "", nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.door != nil {
		addr = cmp.Or(s.cfg.PeerAddr, s.door.listener.Addr().String())
	}
	return addr, s.relay.Key()
}

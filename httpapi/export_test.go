package httpapi

import (
	"net"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/httpapi/auth"
)

// DecoyHash is what an unknown user's password is held against.
const DecoyHash = auth.DecoyHash

// Operation is what an operation's registration says of it.
type Operation struct {
	Method, Path, Scope string
	// Open needs no credential. Key, Session and Control say which kinds of credentials it takes.
	Open, Key, Session, Control bool
	// Roles are those of the users who may, where Session is true.
	Roles []string
	// Permission is what a user needs besides, which an administrator always has.
	Permission string
	// JSON and File say what its body is.
	JSON, File bool
	// Placed is carried out by the controller that has what it is about.
	Placed bool
}

// OperationsOf lists the operations of a server.
func OperationsOf(s *Server) []Operation {
	var list []Operation
	for _, op := range s.api.operations() {
		if op.page {
			continue
		}
		o := Operation{
			Method: op.method, Path: op.path, Scope: op.scope, Open: op.access == accessOpen || op.access == accessSwitch,
			Key:     op.access == accessKey || op.access == accessKeyOrSession || op.access == accessControl,
			Session: op.access == accessSession || op.access == accessKeyOrSession, Control: op.access == accessControl,
			Permission: op.permission, JSON: op.body == jsonBody, File: op.body == fileBody,
			Placed: op.place != nil,
		}
		for _, role := range []string{account.RoleAdmin, account.RoleSupervisor, account.RoleAgent} {
			if o.Session && op.roles.include(role) && (op.permission == "" || account.May(role, nil, op.permission)) {
				o.Roles = append(o.Roles, role)
			}
		}
		list = append(list, o)
	}
	return list
}

// BodyHash is what an idempotency key is bound to.
func BodyHash(body []byte) [32]byte { return bodyHash(body) }

// CheckOperations holds an operation without access, and one without roles or scope, against the rules.
func CheckOperations() []error {
	return []error{
		checkOperations([]operation{{path: "/x"}}),
		checkOperations([]operation{{path: "/x", access: accessSession}}),
		checkOperations([]operation{{path: "/x", access: accessKey}}),
		checkOperations([]operation{{path: "/x", access: accessKeyOrSession, scope: "x"}}),
	}
}

// ParseControl is the decoder of the control endpoint, for the fuzz test.
func ParseControl(body []byte) (status int, err error) {
	_, err = parseControl(body)
	if err == nil {
		return 0, nil
	}
	return mapError(err).status, err
}

// Addr is where both surfaces listen, once started.
func (s *Server) Addr() string { return s.address(func() net.Addr { return s.addr }) }

// MetricsAddr is where the metrics listen, once started.
func (s *Server) MetricsAddr() string { return s.address(func() net.Addr { return s.metricsAt }) }

func (s *Server) address(get func() net.Addr) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := get(); a != nil {
		return a.String()
	}
	return ""
}

// URL is the base address that customers reach us at.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.publicURL
}

// DirectoryAddr is where the directory listens, once started: its own listener, or that of both surfaces.
func (s *Server) DirectoryAddr() string {
	return s.address(func() net.Addr {
		if s.directory != nil {
			return s.directory.listener.Addr()
		}
		return s.addr
	})
}

// Scopes lists every scope that an API key may have.
func Scopes() []string { return account.Scopes() }

package httpapi

// DecoyHash is what an unknown user's password is held against.
const DecoyHash = decoyHash

// Operation is what an operation's registration says of it.
type Operation struct{ Method, Path, Scope string }

// OperationsOf lists the operations of a server.
func OperationsOf(s *Server) []Operation {
	var list []Operation
	for _, op := range s.operations() {
		list = append(list, Operation{op.method, op.path, op.scope})
	}
	return list
}

// ParseControl is the decoder of the control endpoint, for the fuzz test.
func ParseControl(body []byte) (status int, err error) {
	_, err = parseControl(body)
	if err == nil {
		return 0, nil
	}
	return mapError(err).status, err
}

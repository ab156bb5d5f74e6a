package agentbench

import (
	"context"
	"errors"
	"net/http"

	"github.com/ringmaster/ringmaster/integration/rest"
)

// post makes one request with a bearer token, and decodes the answer into `into` unless that is nil.
func (b *bench) post(ctx context.Context, token, path string, body, into any) error {
	return rest.Client{HTTP: b.http, Token: token}.Do(ctx, http.MethodPost, b.stack.Bootstrap.BaseURL+path, body, into)
}

// bear takes a conflict, which a person may well be told in the midst of things: the state has changed since it was read.
func bear(err error) error {
	if refused, ok := errors.AsType[*rest.StatusError](err); ok && refused.Status == http.StatusConflict {
		return nil
	}
	return err
}

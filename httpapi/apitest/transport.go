package apitest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Transport makes requests of other clients than Client, and holds each exchange against the document. What is not as documented is the request's
// error. Bodies that are streams of the server's, and files that are sent, aren't read.
type Transport struct{ Next http.RoundTripper }

// RoundTrip makes one request.
func (t Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	var sent []byte
	if req.Body != nil && req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		if sent, err = io.ReadAll(body); err != nil {
			return nil, err
		}
	}
	resp, err := t.Next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(strings.Split(resp.Header.Get("Content-Type"), ";")[0], "json") && resp.ContentLength != 0 || req.Body != nil && req.GetBody == nil {
		return resp, nil
	}
	answer, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(answer))
	if err != nil {
		return nil, err
	}
	if err := Check(req.Context(), req, sent, resp, answer); err != nil {
		return nil, fmt.Errorf("%s %s answered %d: %w", req.Method, req.URL.Path, resp.StatusCode, err)
	}
	return resp, nil
}

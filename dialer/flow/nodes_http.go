package flow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// request is http_request.
type request struct {
	method  string
	url     string
	headers map[string]string
	body    string
	isJSON  bool
	timeout time.Duration
	saveAs  string
}

// maxBody is the longest body of a request, in bytes.
const maxBody = 64 << 10

func readHTTP(f *fields) action {
	n := request{
		method: strings.ToUpper(f.text("method", true, 16)), url: f.address("url", true, "http", "https"),
		timeout: f.seconds("timeout_s", 0.1, 60), saveAs: f.variable("save_as"),
	}
	methods := []string{"GET", "POST", "PUT", "PATCH", "DELETE"}
	if n.method != "" && !slices.Contains(methods, n.method) {
		f.fault("method", "must be one of %s", strings.Join(methods, ", "))
	}
	f.get("headers", "an object of strings", false, &n.headers)
	for _, name := range slices.Sorted(maps.Keys(n.headers)) {
		if name == "" || strings.Trim(name, letters+digits+"-_") != "" || strings.ContainsAny(n.headers[name], "\r\n") {
			f.fault("headers", "hold a name or a value that can't be sent: %q", name)
		}
	}
	raw := bytes.TrimSpace(f.raw["body"])
	switch {
	case len(raw) == 0 || string(raw) == "null":
	case len(raw) > maxBody:
		f.fault("body", "may have %d characters", maxBody)
	case raw[0] == '"':
		n.body = f.text("body", false, maxBody)
		trimmed := strings.TrimSpace(n.body)
		n.isJSON = strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[")
	default:
		var compact bytes.Buffer
		if json.Compact(&compact, raw) == nil {
			n.body, n.isJSON = compact.String(), true
		}
	}
	return n
}

// idempotencyHeader tells a server that a request is one that it had before: a restart repeats the one that it has cut off.
const idempotencyHeader = "Idempotency-Key"

// names tells whether the node gives a header itself.
func (n request) names(header string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(n.headers)), func(name string) bool { return strings.EqualFold(name, header) })
}

func (n request) run(r *runner) (string, error) {
	req := Request{Method: n.method, URL: r.url(n.url), Header: map[string]string{}, Timeout: n.timeout}
	for name, value := range n.headers {
		req.Header[name] = r.text(value)
	}
	if !n.names(idempotencyHeader) {
		req.Header[idempotencyHeader] = r.stepKey()
	}
	if n.isJSON {
		req.Body = []byte(r.json(n.body))
	} else {
		req.Body = []byte(r.text(n.body))
	}
	if n.isJSON && !n.names("Content-Type") {
		req.Header["Content-Type"] = "application/json"
	}
	answer, err := r.web.Do(r.ctx, req)
	if err != nil {
		if r.ctx.Err() != nil {
			return OutcomeFailed, r.ctx.Err()
		}
		r.detail(err.Error())
		return OutcomeFailed, nil
	}
	if !r.saveDocument(n.saveAs, answer) {
		r.detail(fmt.Sprintf("the answer is not kept, the flow's variables hold %d KiB", maxVariables>>10))
		return OutcomeFailed, nil
	}
	return OutcomeDefault, nil
}

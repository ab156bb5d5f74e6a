package apitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
)

// Examples is a server that answers each operation with the document's example, and holds the requests against the document: what clients
// are tested with that need no more of the service.
type Examples struct {
	URL string

	mu       sync.Mutex
	override map[string]http.HandlerFunc
	asked    []string
}

// NewExamples starts one, which ends with the test.
func NewExamples(tb testing.TB) *Examples {
	tb.Helper()
	d, err := document()
	require.NoError(tb, err)
	x := &Examples{override: map[string]http.HandlerFunc{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client is gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		route, _, err := d.router.FindRoute(r)
		if err != nil {
			refuse(w, http.StatusNotFound, err)
			return
		}
		if own := x.note(r, route.Operation.OperationID, body); own != nil {
			own(w, r)
			return
		}
		status, answer, err := exampleOf(route.Operation)
		if err != nil {
			refuse(w, http.StatusNotImplemented, err)
			return
		}
		if answer != nil {
			w.Header().Set("Content-Type", "application/json")
		}
		for name, value := range map[string]string{"X-Request-Id": "r1", "X-RateLimit-Limit": "600", "X-RateLimit-Remaining": "599"} {
			w.Header().Set(name, value)
		}
		if err := Check(r.Context(), r, body, &http.Response{StatusCode: status, Header: w.Header(), Request: r}, answer); err != nil {
			refuse(w, http.StatusUnprocessableEntity, err)
			return
		}
		w.WriteHeader(status)
		_, _ = w.Write(answer)
	}))
	tb.Cleanup(server.Close)
	x.URL = server.URL
	return x
}

// Answer has an operation answered by the test's own function.
func (x *Examples) Answer(operation string, by http.HandlerFunc) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.override[operation] = by
}

// Asked gives the requests that came since it was asked last: method, path, query and body of each.
func (x *Examples) Asked() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	asked := x.asked
	x.asked = nil
	return asked
}

func (x *Examples) note(r *http.Request, operation string, body []byte) http.HandlerFunc {
	x.mu.Lock()
	defer x.mu.Unlock()
	line := r.Method + " " + r.URL.RequestURI()
	if media := r.Header.Get("Content-Type"); media == "application/json" {
		line += " " + string(body)
	} else if media != "" {
		line += " " + strings.Split(media, ";")[0]
	}
	x.asked = append(x.asked, line)
	return x.override[operation]
}

// exampleOf is the status and the example of an operation's success.
func exampleOf(op *openapi3.Operation) (int, []byte, error) {
	for _, status := range []int{http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent} {
		response := op.Responses.Value(strconv.Itoa(status))
		if response == nil {
			continue
		}
		media := response.Value.Content.Get("application/json")
		if media == nil && len(response.Value.Content) > 0 {
			break
		}
		if media == nil {
			return status, nil, nil
		}
		answer, err := json.Marshal(media.Example)
		return status, answer, err
	}
	return 0, nil, fmt.Errorf("the document has no example of an answer to %s", op.OperationID)
}

func refuse(w http.ResponseWriter, status int, reason error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"code": "not_as_documented", "detail": reason.Error(), "request_id": "r1"})
}

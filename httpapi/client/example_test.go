package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/ringmaster/ringmaster/httpapi/client"
)

// A call is placed, and its callee must not be called at this hour.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_, _ = fmt.Fprint(w, `{"status": 409, "code": "calling_window", "detail": "Nobody may be called at this time.", "request_id": "r1"}`)
	}))
	defer server.Close()

	c, err := client.New(client.Config{BaseURL: server.URL, Token: "svc_live_4f2a"})
	if err != nil {
		fmt.Println(err)
		return
	}
	call, err := c.Calls.PlaceCall(context.Background(), client.PlaceCall{To: "9876543210"})
	switch {
	case client.CodeOf(err) == client.ErrorCodeCallingWindow:
		fmt.Println("later:", err)
	case err != nil:
		fmt.Println("failed:", err)
	default:
		fmt.Println("on its way:", call.ID)
	}
	// Output: later: placeCall: 409 calling_window: Nobody may be called at this time. (request r1)
}

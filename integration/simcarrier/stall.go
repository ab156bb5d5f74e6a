package simcarrier

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// StallRequest asks a live call to send nothing for a while, and then at once what was due, as a network does that holds packets back.
type StallRequest struct {
	// MS is for how long: 1 to 400 ms. What is older is lost.
	MS int `json:"ms"`
}

const maxStall = maxCatchup * frameTime

// Stall holds back what a live call sends.
func (s *Server) Stall(key string, req StallRequest) error {
	d := time.Duration(req.MS) * time.Millisecond
	if d <= 0 || d > maxStall {
		return fmt.Errorf("%w: a stall of %d ms", ErrInvalidRequest, req.MS)
	}
	c, err := s.find(key)
	if err != nil {
		return err
	}
	st := c.live()
	if st == nil {
		return fmt.Errorf("%w: the call has no audio", ErrInvalidRequest)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.stalled = time.Now().Add(d)
	return nil
}

func (s *surface) postStall(w http.ResponseWriter, r *http.Request) {
	var req StallRequest
	err := decode(w, r, &req)
	if err == nil {
		err = s.Stall(r.PathValue("id"), req)
	}
	s.reply(w, map[string]bool{"ok": true}, err)
}

// Stall holds back what a live call sends.
func (c *Client) Stall(ctx context.Context, key string, req StallRequest) error {
	return c.do(ctx, http.MethodPost, "/calls/"+url.PathEscape(key)+"/stall", req, nil)
}

package client

import (
	"context"
	"time"
)

// WaitBy has the client wait by a test's own function.
func (c *Client) WaitBy(wait func(context.Context, time.Duration) error) { c.Calls.client.wait = wait }

package remote

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/httpapi/client"
)

const (
	// settled is how long it may take until an event that has its id can be seen: the transaction that it is of may last. Those of this time are looked at
	// again with one look of shallowLooks, or after deepEvery; other looks end with the first page that has nothing new, which is where nearly all of what
	// comes late is found.
	settled      = 15 * time.Second
	shallowLooks = 5
	deepEvery    = 5 * time.Second
	// tailPage is how many events a look asks for, and morePage how many it goes on with when they are all new or unsettled.
	tailPage, morePage = 50, 200
	// firstPause is before the next look at a service that is away; it doubles up to longestPause.
	firstPause, longestPause = 500 * time.Millisecond, 15 * time.Second
)

// tail gives a tenant's events as they come, each once, in the order of their ids, which is that of their call.
type tail struct {
	c        *client.Client
	patterns []string
	// newest is the time in the newest id; seen are those since settled before it.
	newest time.Time
	seen   map[string]time.Time
	// deep is when all of them were looked at last, and looks how often anything was since.
	deep  time.Time
	looks int
}

// startTail stands behind what has happened by now. Types that there aren't are refused.
func startTail(ctx context.Context, c *client.Client, patterns []string) (*tail, error) {
	t := &tail{c: c, patterns: patterns, seen: map[string]time.Time{}}
	for _, pattern := range patterns {
		if _, err := c.Webhooks.ListEventEnvelopes(ctx, &client.ListEventsParams{PageSize: new(1), Type: &pattern}); err != nil {
			return nil, err
		}
	}
	page, err := c.Webhooks.ListEventEnvelopes(ctx, &client.ListEventsParams{PageSize: new(1)})
	if err != nil {
		return nil, err
	}
	for _, event := range page.Items {
		t.newest = idTime(event.ID)
	}
	_, err = t.look(ctx)
	return t, err
}

// look gives the events that are new, the oldest first.
func (t *tail) look(ctx context.Context) (fresh []client.EventEnvelope, err error) {
	floor, newest, began := t.newest.Add(-settled), t.newest, time.Now()
	deep := began.Sub(t.deep) >= deepEvery || t.looks >= shallowLooks
	params := client.ListEventsParams{PageSize: new(tailPage)}
	for more := true; more; {
		page, err := t.c.Webhooks.ListEventEnvelopes(ctx, &params)
		if err != nil {
			return nil, err
		}
		before := len(fresh)
		for _, event := range page.Items {
			at := idTime(event.ID)
			if more = !at.Before(floor); !more {
				break
			}
			if _, known := t.seen[event.ID]; !known {
				fresh = append(fresh, event)
			}
			if at.After(newest) {
				newest = at
			}
		}
		more = more && page.NextCursor != nil && (deep || len(fresh) > before)
		params.Cursor, params.PageSize = page.NextCursor, new(morePage)
	}
	for _, event := range fresh {
		t.seen[event.ID] = idTime(event.ID)
	}
	t.newest = newest
	if t.looks++; deep {
		t.deep, t.looks = began, 0
	}
	for id, at := range t.seen {
		if at.Before(newest.Add(-settled)) {
			delete(t.seen, id)
		}
	}
	fresh = slices.DeleteFunc(fresh, func(event client.EventEnvelope) bool { return !t.wants(event.Type) })
	slices.Reverse(fresh)
	return fresh, nil
}

func (t *tail) wants(eventType string) bool {
	return len(t.patterns) == 0 || slices.ContainsFunc(t.patterns, func(pattern string) bool {
		prefix, all := strings.CutSuffix(pattern, "*")
		return pattern == eventType || all && strings.HasPrefix(eventType, prefix)
	})
}

// follow tells of each event, until ctx ends, the credential does, or telling fails.
func (t *tail) follow(ctx context.Context, e Env, every time.Duration, tell func(client.EventEnvelope) error) error {
	away := time.Duration(0)
	for {
		events, err := t.look(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && final(err):
			return err
		case err != nil && away == 0:
			e.say("the service can't be asked, and is asked again: %s", Clean(err.Error()))
		case err == nil && away > 0:
			e.say("the service is there again; nothing is lost")
		}
		if err != nil {
			away = min(max(2*away, firstPause), longestPause)
			if pause(ctx, max(away, retryAfter(err))) != nil {
				return ctx.Err()
			}
			continue
		}
		away = 0
		for _, event := range events {
			if err := tell(event); err != nil {
				return err
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if pause(ctx, every) != nil {
			return ctx.Err()
		}
	}
}

// final tells of a refusal that another request would get, too.
func final(err error) bool {
	refusal, ok := errors.AsType[*client.Error](err)
	return ok && refusal.Status < http.StatusInternalServerError && refusal.Status != http.StatusTooManyRequests && refusal.Status != http.StatusRequestTimeout
}

func retryAfter(err error) time.Duration {
	if refusal, ok := errors.AsType[*client.Error](err); ok {
		return refusal.RetryAfter
	}
	return 0
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// idTime is the time in an event's id, which is a UUID of version 7: its first 48 bits are milliseconds.
func idTime(id string) time.Time {
	const digits = 12
	text := strings.TrimPrefix(id, "evt_")
	if len(text) < digits {
		return time.Time{}
	}
	raw, err := hex.DecodeString(text[:digits])
	if err != nil {
		return time.Time{}
	}
	var ms int64
	for _, b := range raw {
		ms = ms<<8 | int64(b)
	}
	return time.UnixMilli(ms)
}

package demo

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/integration/rest"
	"github.com/ringmaster/ringmaster/integration/stack"
)

// api is the customer's side of the Public API, and the stand-ins' reports.
type api struct {
	base, key, carrier, ai string
}

func newAPI(b stack.Bootstrap) *api {
	ai := strings.TrimSuffix(strings.Replace(b.AIWSURL, "ws://", "http://", 1), "/echo")
	return &api{base: b.BaseURL, key: b.Tenants[0].LiveKey, carrier: strings.TrimSuffix(b.PlaceInboundCallURL, "/inbound"), ai: ai}
}

// callView is the call object of the Public API, as far as the demo looks at it.
type callView struct {
	ID                string     `json:"id"`
	LeadID            string     `json:"lead_id"`
	To                string     `json:"-"` // filled in from the lead
	Status            string     `json:"status"`
	RingTime          *time.Time `json:"ring_time"`
	AnswerTime        *time.Time `json:"answer_time"`
	EndTime           *time.Time `json:"end_time"`
	TalkDurationS     *int       `json:"talk_duration_s"`
	HangupCause       *string    `json:"hangup_cause"`
	HangupDisposition *string    `json:"hangup_disposition"`
	AnsweredBy        *string    `json:"answered_by_amd"`
	Quality           *struct {
		Inbound *struct {
			MOS float64 `json:"mos"`
		} `json:"inbound"`
	} `json:"quality"`
}

func (c callView) mos() *float64 {
	if c.Quality == nil || c.Quality.Inbound == nil {
		return nil
	}
	return &c.Quality.Inbound.MOS
}

// ring is how long it rang, to the answer or to the end.
func (c callView) ring() int {
	until := c.AnswerTime
	if until == nil {
		until = c.EndTime
	}
	if c.RingTime == nil || until == nil {
		return 0
	}
	return int(until.Sub(*c.RingTime).Round(time.Second).Seconds())
}

func (c callView) talk() int {
	if c.TalkDurationS == nil {
		return 0
	}
	return *c.TalkDurationS
}

func (a *api) post(ctx context.Context, path string, body, into any) error {
	return rest.Client{Token: a.key}.Do(ctx, http.MethodPost, a.base+path, body, into)
}

// get asks the API by a path, and the stand-ins by a URL.
func (a *api) get(ctx context.Context, url string, into any) error {
	if strings.HasPrefix(url, "/") {
		return rest.Client{Token: a.key}.Do(ctx, http.MethodGet, a.base+url, nil, into)
	}
	return rest.Client{}.Do(ctx, http.MethodGet, url, nil, into)
}

// calls pages through the campaign's calls.
func (a *api) calls(ctx context.Context, campaign string) ([]callView, error) {
	const size = 200
	var out []callView
	for page := 1; ; page++ {
		var list struct {
			Items []callView `json:"items"`
			Total int        `json:"total"`
		}
		if err := a.get(ctx, fmt.Sprintf("/api/v1/campaigns/%s/calls?page=%d&page_size=%d", campaign, page, size), &list); err != nil {
			return nil, err
		}
		out = append(out, list.Items...)
		if len(list.Items) < size || len(out) >= list.Total {
			return out, nil
		}
	}
}

type recordingView struct {
	Stereo bool `json:"stereo"`
}

// recording waits for the recording to be processed and downloads it.
func (a *api) recording(ctx context.Context, call string, limit time.Duration) (recordingView, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		var view recordingView
		err := a.get(ctx, "/api/v1/calls/"+call+"/recording", &view)
		if err == nil {
			var audio []byte
			if err = a.get(ctx, "/api/v1/calls/"+call+"/recording/audio", &audio); err == nil {
				return view, audio, nil
			}
		}
		select {
		case <-ctx.Done():
			return view, nil, err
		case <-tick.C:
		}
	}
}

// aiFrames sums what the AI heard and said over all connections of a call.
func (a *api) aiFrames(ctx context.Context, call string) (in, out int, err error) {
	var sessions []struct {
		FramesIn  int `json:"frames_in"`
		FramesOut int `json:"frames_out"`
	}
	if err := a.get(ctx, a.ai+"/sessions/"+call, &sessions); err != nil {
		return 0, 0, err
	}
	for _, s := range sessions {
		in += s.FramesIn
		out += s.FramesOut
	}
	return in, out, nil
}

// forbidden counts the numbers that rang and never should have.
func (a *api) forbidden(ctx context.Context) (int, error) {
	var stats struct {
		ForbiddenInvites int `json:"forbidden_invites"`
	}
	err := a.get(ctx, a.carrier+"/stats", &stats)
	return stats.ForbiddenInvites, err
}

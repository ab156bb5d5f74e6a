package demo

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/httpapi/client"
	"github.com/ringmaster/ringmaster/integration/rest"
	"github.com/ringmaster/ringmaster/integration/stack"
)

// api is the customer's side of the API, and the stand-ins' reports.
type api struct {
	*client.Client
	carrier, ai string
}

func newAPI(b stack.Bootstrap) (*api, error) {
	ai := strings.TrimSuffix(strings.Replace(b.AIWSURL, "ws://", "http://", 1), "/echo")
	c, err := client.New(client.Config{BaseURL: b.BaseURL, Token: b.Tenants[0].LiveKey})
	return &api{Client: c, carrier: strings.TrimSuffix(b.PlaceInboundCallURL, "/inbound"), ai: ai}, err
}

// dialed is a call, with the number that its lead was pushed with.
type dialed struct {
	client.Call
	number string
}

func (c dialed) mos() *float64 {
	if c.Quality == nil || c.Quality.Inbound == nil {
		return nil
	}
	return &c.Quality.Inbound.MOS
}

// ring is how long it rang, to the answer or to the end.
func (c dialed) ring() int {
	until := c.AnswerTime
	if until == nil {
		until = c.EndTime
	}
	if c.RingTime == nil || until == nil {
		return 0
	}
	return int(until.Sub(*c.RingTime).Round(time.Second).Seconds())
}

func (c dialed) talk() int {
	if c.TalkDurationS == nil {
		return 0
	}
	return *c.TalkDurationS
}

// get asks the stand-ins.
func (a *api) get(ctx context.Context, url string, into any) error {
	return rest.Client{}.Do(ctx, http.MethodGet, url, nil, into)
}

// calls are all of the campaign's.
func (a *api) calls(ctx context.Context, campaign uuid.UUID) (all []client.Call, err error) {
	for call, err := range a.Calls.AllCampaignCalls(ctx, campaign, &client.ListCampaignCallsParams{PageSize: new(200)}) {
		if err != nil {
			return nil, err
		}
		all = append(all, call)
	}
	return all, nil
}

// recording waits for the recording to be processed and downloads it.
func (a *api) recording(ctx context.Context, call uuid.UUID, limit time.Duration) (*client.RecordingURL, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		var audio bytes.Buffer
		url, err := a.Recordings.GetRecording(ctx, call)
		if err == nil {
			_, err = a.Recordings.DownloadRecording(ctx, call, &audio, client.Download{})
		}
		if err == nil {
			return url, audio.Bytes(), nil
		}
		select {
		case <-ctx.Done():
			return nil, nil, err
		case <-tick.C:
		}
	}
}

// aiFrames sums what the AI heard and said over all connections of a call.
func (a *api) aiFrames(ctx context.Context, call uuid.UUID) (in, out int, err error) {
	var sessions []struct {
		FramesIn  int `json:"frames_in"`
		FramesOut int `json:"frames_out"`
	}
	if err := a.get(ctx, a.ai+"/sessions/"+call.String(), &sessions); err != nil {
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

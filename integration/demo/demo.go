// Package demo runs one campaign on a stack, as a customer would over the API, and holds what became of every call against
// the number table of simcarrier.
//
// Read demo.go for the run, table.go for what is expected, client.go for the API.
package demo

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/httpapi/client"
	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/media/wav"
)

// Config says how large the campaign is.
type Config struct {
	Leads int
	// Recordings is the folder that the calls' recordings are downloaded to.
	Recordings string
	// Progress is told how many of the leads are done; may be nil.
	Progress func(done int)
}

// Summary is what `ringmaster demo --json` prints.
type Summary struct {
	Leads int    `json:"leads"`
	Calls []Call `json:"calls"`
	OK    bool   `json:"ok"`
	// Faults say what was not as the table has it.
	Faults []string `json:"faults,omitempty"`
}

// Call is one call of the campaign.
type Call struct {
	To          string `json:"to"`
	Outcome     string `json:"outcome"`
	HangupCause string `json:"hangup_cause"`
	RingS       int    `json:"ring_s"`
	TalkS       int    `json:"talk_s"`
	// AnsweredBy is human or machine; nil when nobody answered.
	AnsweredBy *string `json:"answered_by"`
	// MOS estimates how the caller's audio arrived, 1 to about 4.4; nil when it was not measured.
	MOS *float64 `json:"mos"`
	// Recording is the file that it was downloaded to, if that is kept.
	Recording *string `json:"recording"`
	Recorded  bool    `json:"recorded"`
	Stereo    bool    `json:"stereo"`
	// AIFramesIn were heard by the voice AI, AIFramesOut were spoken by it.
	AIFramesIn  int `json:"ai_frames_in"`
	AIFramesOut int `json:"ai_frames_out"`
}

// conversation is how long the echo AI talks before it ends the call.
const conversation = 5 * time.Second

// Limits of the run.
const (
	pollEvery   = 250 * time.Millisecond
	runLimit    = 5 * time.Minute
	recordLimit = 30 * time.Second
	ringTimeout = 15
	bulkLimit   = 500
)

// ErrLeads refuses a size.
var ErrLeads = errors.New("the demo takes 1 to 5000 leads")

const maxLeads = 5000

// CheckLeads returns ErrLeads for a size that the demo does not take.
func CheckLeads(n int) error {
	if n < 1 || n > maxLeads {
		return ErrLeads
	}
	return nil
}

// Run pushes the leads, starts the campaign, waits for its end, and compares.
func Run(ctx context.Context, s *stack.Stack, cfg Config) (Summary, error) {
	if err := CheckLeads(cfg.Leads); err != nil {
		return Summary{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	api, err := newAPI(s.Bootstrap)
	if err != nil {
		return Summary{}, err
	}
	r := &run{api: api, stack: s, cfg: cfg, numbers: numbers(cfg.Leads), byLead: map[uuid.UUID]string{}}
	if err := r.prepare(ctx); err != nil {
		return Summary{}, err
	}
	if err := r.await(ctx); err != nil {
		return Summary{}, err
	}
	return r.summarize(ctx)
}

type run struct {
	api      *api
	stack    *stack.Stack
	cfg      Config
	numbers  []string
	campaign uuid.UUID
	byLead   map[uuid.UUID]string // the number of each lead
}

// registered is a number on the registry: it is pushed with the others and must never ring.
const registered = "9876500090"

// prepare creates the voice agent and the campaign, pushes the leads and starts.
func (r *run) prepare(ctx context.Context) error {
	query := url.Values{"end_after": {conversation.String()}}
	agent, err := r.api.VoiceAgents.CreateVoiceAgent(ctx, client.CreateVoiceAgentRequest{
		Name: "demo", WsURL: client.Set(r.stack.Bootstrap.AIWSURL + "?" + query.Encode()), MaxConcurrent: client.Set(50),
	})
	if err != nil {
		return err
	}
	campaign, err := r.api.Campaigns.CreateCampaign(ctx, client.CreateCampaignRequest{
		Name: "demo", DialMode: client.DialModeProgressive, PostAnswerAction: new(client.PostAnswerActionConnectVoiceAgent),
		VoiceAgentID: client.Set(agent.ID), MaxAttempts: new(1), RingTimeoutS: new(ringTimeout), MaxConcurrent: client.Null[int](),
	})
	if err != nil {
		return err
	}
	r.campaign = campaign.ID
	for chunk := range slices.Chunk(append(slices.Clone(r.numbers), registered), bulkLimit) {
		var leads []client.LeadInput
		for _, n := range chunk {
			leads = append(leads, client.LeadInput{Phone: &n, Name: new("Demo " + n[len(n)-2:])})
		}
		pushed, err := r.api.Leads.PushLeads(ctx, r.campaign, client.PushLeadsRequest{Leads: leads})
		if err != nil {
			return err
		}
		for _, row := range pushed.Results {
			if row.ID != nil {
				r.byLead[*row.ID] = row.Phone
			}
		}
	}
	_, err = r.api.Campaigns.StartCampaign(ctx, r.campaign)
	return err
}

// await polls until every lead has had its call.
func (r *run) await(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		calls, err := r.api.calls(ctx, r.campaign)
		if err != nil {
			return err
		}
		done := 0
		for _, c := range calls {
			if c.EndTime != nil {
				done++
			}
		}
		if r.cfg.Progress != nil {
			r.cfg.Progress(min(done, len(r.numbers)))
		}
		if done >= len(r.numbers) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the campaign: %d of %d calls are done: %w", done, len(r.numbers), ctx.Err())
		case <-tick.C:
		}
	}
}

func (r *run) summarize(ctx context.Context) (Summary, error) {
	out := Summary{Leads: len(r.numbers), Calls: []Call{}}
	calls, err := r.api.calls(ctx, r.campaign)
	if err != nil {
		return out, err
	}
	if len(calls) != len(r.numbers) {
		out.Faults = append(out.Faults, fmt.Sprintf("%d calls for %d leads", len(calls), len(r.numbers)))
	}
	for _, c := range calls {
		d := dialed{Call: c}
		if c.LeadID != nil {
			d.number = r.byLead[*c.LeadID]
		}
		if d.number == "" {
			out.Faults = append(out.Faults, "call "+c.ID.String()+" is of no lead that was pushed")
			continue
		}
		call, faults, err := r.inspect(ctx, d)
		if err != nil {
			return out, err
		}
		out.Calls = append(out.Calls, call)
		out.Faults = append(out.Faults, faults...)
	}
	slices.SortFunc(out.Calls, func(a, b Call) int { return strings.Compare(a.To, b.To) })
	forbidden, err := r.api.forbidden(ctx)
	if err != nil {
		return out, err
	}
	if forbidden > 0 {
		out.Faults = append(out.Faults, fmt.Sprintf("%d numbers of the do-not-call registry were dialed", forbidden))
	}
	out.OK = len(out.Faults) == 0
	return out, nil
}

// inspect looks at one call: its record, what the AI heard and said, and its recording.
func (r *run) inspect(ctx context.Context, c dialed) (Call, []string, error) {
	out := Call{To: c.number, Outcome: string(c.Status), RingS: c.ring(), TalkS: c.talk(), MOS: c.mos()}
	if c.AnsweredByAMD != nil {
		out.AnsweredBy = new(string(*c.AnsweredByAMD))
	}
	if c.HangupCause != nil {
		out.HangupCause = *c.HangupCause
	}
	want := expected(c.number)
	faults := want.compare(c)
	if c.AnswerTime == nil {
		return out, faults, nil
	}
	var err error
	if out.AIFramesIn, out.AIFramesOut, err = r.api.aiFrames(ctx, c.ID); err != nil {
		return out, nil, err
	}
	if out.AIFramesIn == 0 || out.AIFramesOut == 0 {
		faults = append(faults, fmt.Sprintf("%s: the AI heard %d frames and said %d", c.number, out.AIFramesIn, out.AIFramesOut))
	}
	rec, audio, err := r.api.recording(ctx, c.ID, recordLimit)
	if err != nil {
		return out, append(faults, fmt.Sprintf("%s: no recording: %v", c.number, err)), nil
	}
	path := filepath.Join(r.cfg.Recordings, c.number+".wav")
	if err := os.WriteFile(path, audio, 0o600); err != nil {
		return out, nil, fmt.Errorf("keep the recording: %w", err)
	}
	out.Recording, out.Recorded, out.Stereo = &path, true, rec.Stereo
	faults = append(faults, checkAudio(c, want, audio)...)
	return out, faults, nil
}

// checkAudio looks whether both sides are in the file, and as long as the conversation was.
func checkAudio(c dialed, want expectation, audio []byte) []string {
	wav, err := wav.Parse(audio)
	if err != nil {
		return []string{fmt.Sprintf("%s: the recording is no WAV file: %v", c.number, err)}
	}
	var faults []string
	left, right := wav.Channel(0), wav.Channel(1)
	if wav.Channels != 2 {
		faults = append(faults, fmt.Sprintf("%s: the recording has %d channels", c.number, wav.Channels))
	}
	if !audible(left) && !want.silent {
		faults = append(faults, c.number+": the caller is not in the recording")
	}
	if !audible(right) {
		faults = append(faults, c.number+": the AI is not in the recording")
	}
	return faults
}

// audible is true when the loudest sample is well above line noise.
func audible(samples []int16) bool {
	const floor = 500
	return slices.ContainsFunc(samples, func(s int16) bool { return s > floor || s < -floor })
}

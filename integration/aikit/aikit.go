package aikit

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/oklog/ulid/v2"

	"github.com/ringmaster/ringmaster/dialer/voiceagents"
	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/frames"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/media/openai"
	"github.com/ringmaster/ringmaster/media/twilio"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
)

// Options are how a server is spoken to. Members are those of a voice agent, by the same names.
type Options struct {
	URL       string
	Transport media.Transport
	// AuthToken is sent as a bearer, or signs Twilio's handshake.
	AuthToken   string
	Subprotocol string
	Audio       media.AudioFormat
	// TransportConfig is that of openai_realtime.
	TransportConfig json.RawMessage
	// Variables are the call's prompt variables.
	Variables map[string]string
	// TLS verifies wss servers; nil is by the system's roots.
	TLS *tls.Config
	// Speech is what the caller says, at 8 kHz; made-up syllables when empty.
	Speech []int16
	// AnswerWithin is how long the server may take to answer the caller. 6 s.
	AnswerWithin time.Duration
	// Logger takes the endpoint's own log; nil discards it.
	Logger *slog.Logger
}

// OptionError means that something can't be asked for.
type OptionError struct{ Name, Message string }

// Error implements error.
func (e *OptionError) Error() string { return e.Name + ": " + e.Message }

// Kit is the endpoint and the caller.
type Kit struct {
	o      Options
	config openai.Config
	srv    *media.Server
	phone  *phone
	frames *frames.Set
	verbs  *verbs
}

// New starts the endpoint; Close ends it.
func New(ctx context.Context, o Options) (_ *Kit, err error) {
	k := &Kit{o: o}
	if k.config, err = o.check(); err != nil {
		return nil, err
	}
	if k.o.AnswerWithin <= 0 {
		k.o.AnswerWithin = 6 * time.Second
	}
	if k.o.Logger == nil {
		k.o.Logger = slog.New(slog.DiscardHandler)
	}
	if len(k.o.Speech) == 0 {
		k.o.Speech = madeUpSpeech()
	}
	if k.frames, err = frames.Load(string(o.Transport)); err != nil {
		return nil, err
	}
	if k.verbs, err = loadVerbs(); err != nil {
		return nil, err
	}
	k.srv, err = media.New(media.Config{
		SIPAddr: "127.0.0.1:0", RTPPortMin: 30000, RTPPortMax: 59998, Shards: 1, TLS: o.TLS, Logger: k.o.Logger,
		// It is the developer's own server, wherever it is.
		DialGuard: netguard.Policy{AllowLoopback: true, Allow: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}},
	})
	if err != nil {
		return nil, err
	}
	if err := k.srv.Start(ctx); err != nil {
		return nil, err
	}
	if k.phone, err = newPhone(ctx); err != nil {
		return nil, errors.Join(err, k.srv.Close(ctx))
	}
	return k, nil
}

// Close ends what New has started.
func (k *Kit) Close(ctx context.Context) error { return errors.Join(k.phone.close(), k.srv.Close(ctx)) }

// check refuses what no voice agent may have, in a developer's words.
func (o *Options) check() (openai.Config, error) {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil || u.Host == "":
		return openai.Config{}, &OptionError{"URL", fmt.Sprintf("%q is not a URL such as ws://127.0.0.1:8765/path", o.URL)}
	case u.Scheme != "ws" && u.Scheme != "wss":
		return openai.Config{}, &OptionError{"URL", fmt.Sprintf("begins with %s://, and must with ws:// or wss://", u.Scheme)}
	case u.User != nil:
		return openai.Config{}, &OptionError{"URL", "carries a user's name or password, which WebSockets have no place for; use --token"}
	case !slices.Contains(frames.Transports(), string(o.Transport)):
		return openai.Config{}, &OptionError{"transport", fmt.Sprintf("%q is none of %s", o.Transport, strings.Join(frames.Transports(), ", "))}
	}
	if o.Transport == media.TransportWebSocket {
		if err := o.checkAudio(); err != nil {
			return openai.Config{}, err
		}
	}
	config, err := openai.ParseConfig(o.TransportConfig)
	if err != nil {
		return config, &OptionError{"transport_config", err.Error()}
	}
	return config, nil
}

// checkAudio refuses a format as the API does.
func (o *Options) checkAudio() error {
	var in voiceagents.AudioFormatInput
	if o.Audio.Encoding != "" {
		in.Encoding = input.Some(string(o.Audio.Encoding))
	}
	if o.Audio.SampleRateHz != 0 {
		in.SampleRateHz = input.Some(o.Audio.SampleRateHz)
	}
	if o.Audio.FrameMS != 0 {
		in.FrameMS = input.Some(o.Audio.FrameMS)
	}
	var refused *fault.Error
	if err := in.Check(); errors.As(err, &refused) {
		wrong := refused.Fields[0]
		return &OptionError{strings.TrimPrefix(wrong.Field, "audio_format."), wrong.Message}
	}
	if o.Subprotocol == media.SubprotocolBeta && o.Audio.Encoding != "" && o.Audio.Encoding != media.EncodingPCM {
		return &OptionError{"encoding", "must be " + string(media.EncodingPCM) + " with " + media.SubprotocolBeta + ", which carries L16 alone"}
	}
	return nil
}

// spec describes a session of a made-up call, as the service would for a real one.
func (k *Kit) spec() (media.SessionSpec, error) {
	id, session := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	spec := media.SessionSpec{
		ID: session.String(), CallID: id.String(), Owner: "ai-kit", Transport: k.o.Transport, URL: k.o.URL, Subprotocol: k.o.Subprotocol,
		AuthToken: k.o.AuthToken, Audio: k.o.Audio, OpenAI: media.OpenAISession{Config: k.config},
	}
	call := map[string]string{
		"from_number": "+918000000042", "to_number": "+919876543210", "direction": "outbound", "call_id": id.String(),
		"tenant_id": uuid.Nil.String(), "voice_agent_id": uuid.Nil.String(),
	}
	var meta any = call
	token, control := "svc_cb_"+ulid.MustNew(ulid.Now(), rand.Reader).String(), "https://ringmaster.invalid/api/v1/ai-sessions/"+id.String()+"/control"
	switch k.o.Transport {
	case media.TransportTwilio:
		spec.Twilio = media.TwilioStream{
			AccountSID: twilio.SID(twilio.AccountPrefix, uuid.Nil), CallSID: twilio.SID(twilio.CallPrefix, id), StreamSID: twilio.SID(twilio.StreamPrefix, session),
		}
		call["service_callback_token"], call["control_url"] = token, control
		maps.Copy(call, k.o.Variables)
	case media.TransportOpenAI:
		maps.Copy(call, k.o.Variables)
		if k.config.AudioFormat == openai.FormatPCMA {
			spec.Audio.Encoding = media.EncodingPCMA
		}
	case media.TransportWebSocket:
		a := withDefaults(k.o.Audio, k.o.Subprotocol)
		variables := k.o.Variables
		if variables == nil {
			variables = map[string]string{}
		}
		meta = map[string]any{
			"call_id": id, "tenant_id": uuid.Nil, "voice_agent_id": uuid.Nil, "external_agent_id": nil, "direction": "outbound",
			"from": call["from_number"], "to": call["to_number"], "campaign_id": nil, "lead": nil, "metadata": nil, "variables": variables,
			"service_callback_token": token, "control_url": control, "protocol_version": "v1", "callSid": id, "sampleRate": a.SampleRateHz,
			"mixType": "mono", "audio_format": map[string]any{
				"encoding": a.Encoding, "sample_rate_hz": a.SampleRateHz, "channels": a.Channels, "frame_ms": a.FrameMS,
			},
		}
	}
	var err error
	if spec.Metadata, err = json.Marshal(meta); err != nil {
		return spec, fmt.Errorf("encode the first frame: %w", err)
	}
	return spec, nil
}

// withDefaults is the audio of our own transport.
func withDefaults(a media.AudioFormat, subprotocol string) media.AudioFormat {
	if a.Encoding == "" || subprotocol == media.SubprotocolBeta {
		a.Encoding = media.EncodingPCM
	}
	if a.SampleRateHz == 0 {
		a.SampleRateHz = 16000
		if a.Encoding != media.EncodingPCM {
			a.SampleRateHz = 8000
		}
	}
	if a.Channels == 0 {
		a.Channels = 1
	}
	if a.FrameMS == 0 {
		a.FrameMS = 20
	}
	return a
}

// Report is what became of a run.
type Report struct {
	URL       string    `json:"url"`
	Transport string    `json:"transport"`
	Scenarios []Outcome `json:"scenarios"`
	Errors    int       `json:"errors"`
	Warnings  int       `json:"warnings"`
}

// Outcome is what became of a scenario.
type Outcome struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
	Ran     bool    `json:"ran"`
	// NotJudged is why the scenario says nothing of what it is for, where the server gave no occasion.
	NotJudged string    `json:"not_judged,omitempty"`
	Findings  []Finding `json:"findings"`
	// More counts findings that are left out, for there are many by the same rule.
	More int `json:"more_findings,omitempty"`
	// FramesSent and FramesReceived count what crossed the socket, control frames included; HeardMS is how long the caller heard the server.
	FramesSent     int `json:"frames_sent"`
	FramesReceived int `json:"frames_received"`
	HeardMS        int `json:"heard_ms"`
}

// Run plays scenarios, all of them when none is named, one after the other. A server that can't be reached ends it. done, if not nil, is called as each ends.
func (k *Kit) Run(ctx context.Context, names []string, done func(Outcome)) (Report, error) {
	r := Report{URL: k.o.URL, Transport: string(k.o.Transport), Scenarios: []Outcome{}}
	chosen, err := choose(names)
	if err != nil {
		return r, err
	}
	reached := true
	for _, sc := range chosen {
		out := Outcome{Name: sc.Name, Findings: []Finding{}}
		if reached {
			if out, reached, err = k.play(ctx, sc); err != nil {
				return r, err
			}
		}
		for _, f := range out.Findings {
			if f.Level == LevelError {
				r.Errors++
			} else {
				r.Warnings++
			}
		}
		r.Scenarios = append(r.Scenarios, out)
		if done != nil {
			done(out)
		}
	}
	return r, nil
}

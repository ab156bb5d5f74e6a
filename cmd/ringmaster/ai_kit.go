package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/emiago/sipgo/sip"

	"github.com/ringmaster/ringmaster/integration/aikit"
	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/frames"
	"github.com/ringmaster/ringmaster/media/wav"
)

// aiKitCmd is for those who build a voice agent.
type aiKitCmd struct {
	Test   aiKitTestCmd   `cmd:"" help:"Play scripted calls against a voice agent's server, and print what it does wrong."`
	Listen aiKitListenCmd `cmd:"" help:"Call a voice agent's server, and show live what it sends."`
	Schema aiKitSchemaCmd `cmd:"" help:"Print the JSON Schema of a transport's frames, or of all transports."`
}

// aiKitServer is the server, as a voice agent describes it.
type aiKitServer struct {
	URL         string            `arg:"" help:"The server's address, a voice agent's ws_url." placeholder:"ws://…"`
	Transport   string            `help:"websocket, twilio or openai_realtime." default:"websocket" enum:"websocket,twilio,openai_realtime"`
	Token       string            `help:"The voice agent's auth_token: a bearer token; with twilio it signs the handshake." env:"RINGMASTER_AI_TOKEN"`
	Subprotocol string            `help:"Of transport websocket: audio.alpha.org or audio.beta.org." default:"audio.alpha.org" enum:"audio.alpha.org,audio.beta.org"`
	Encoding    string            `help:"Of transport websocket: pcm_s16le, pcmu or pcma." default:"pcm_s16le" enum:"pcm_s16le,pcmu,pcma"`
	Rate        int               `help:"Its sample rate in Hz; 16000, or 8000 for pcmu and pcma, when left out."`
	FrameMS     int               `name:"frame-ms" help:"Its frames' length in ms: 10, 20, 40, 60, 80 or 100." default:"20"`
	Config      string            `help:"File with the transport_config of openai_realtime." type:"existingfile" placeholder:"FILE"`
	Variable    map[string]string `help:"A prompt variable of the call." placeholder:"NAME=VALUE"`
	Say         string            `help:"What the caller says: a WAV file in place of made-up speech." type:"existingfile" placeholder:"FILE"`
	Within      time.Duration     `help:"How long the server may take to answer." default:"6s"`
	CA          string            `name:"ca" help:"File with the certificates that a wss server's is verified by." type:"existingfile" placeholder:"FILE"`
	JSON        bool              `help:"Print JSON."`
	Verbose     bool              `help:"Show the endpoint's log."`
}

// start brings the endpoint and its caller up.
func (s aiKitServer) start(ctx context.Context, e env) (*aikit.Kit, error) {
	sip.SetDefaultLogger(slog.New(slog.DiscardHandler)) // sipgo warns of what is ordinary when a transport closes
	o := aikit.Options{
		URL: s.URL, Transport: media.Transport(s.Transport), AuthToken: s.Token, Variables: s.Variable, AnswerWithin: s.Within,
	}
	if o.Transport == media.TransportWebSocket {
		o.Subprotocol = s.Subprotocol
		o.Audio = media.AudioFormat{Encoding: media.Encoding(s.Encoding), SampleRateHz: s.Rate, FrameMS: s.FrameMS}
	}
	var err error
	if s.Config != "" {
		if o.TransportConfig, err = os.ReadFile(s.Config); err != nil {
			return nil, err
		}
	}
	if s.Say != "" {
		if o.Speech, err = readSpeech(s.Say); err != nil {
			return nil, err
		}
	}
	if s.CA != "" {
		pem, err := os.ReadFile(s.CA)
		if err != nil {
			return nil, err
		}
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
		if !o.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--ca %s has no certificate in PEM", s.CA)
		}
	}
	if s.Verbose {
		o.Logger = slog.New(slog.NewTextHandler(e.stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return aikit.New(ctx, o)
}

// readSpeech reads a WAV file as the caller says it.
func readSpeech(path string) ([]int16, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	file, err := wav.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("--say %s: %w", path, err)
	}
	resampler, err := dsp.NewResampler(file.Rate, dsp.SampleRate)
	if err != nil {
		return nil, fmt.Errorf("--say %s: %w", path, err)
	}
	return resampler.Process(nil, wav.MixDown(file.Samples, file.Channels)), nil
}

// closing ends a kit after the command.
func closing(ctx context.Context, k *aikit.Kit, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return errors.Join(err, k.Close(ctx))
}

type aiKitTestCmd struct {
	aiKitServer
	Scenario []string `help:"Play these alone: connect, speech, silence, dtmf, barge-in, hangup, reconnect, slow-network." placeholder:"NAME"`
	Strict   bool     `help:"Fail over warnings too."`
}

// Run plays the scenarios. It fails where the server made an error.
func (cmd aiKitTestCmd) Run(ctx context.Context, e env) (err error) {
	kit, err := cmd.start(ctx, e)
	if err != nil {
		return err
	}
	defer func() { err = closing(ctx, kit, err) }()
	report, err := kit.Run(ctx, cmd.Scenario, func(o aikit.Outcome) {
		if !cmd.JSON {
			_ = o.Print(e.stdout)
		}
	})
	if err != nil {
		return err
	}
	if cmd.JSON {
		err = aikit.WriteJSON(e.stdout, report)
	} else {
		err = report.Print(e.stdout)
	}
	if err == nil && (report.Errors > 0 || cmd.Strict && report.Warnings > 0) {
		return &exitError{code: exitFailed}
	}
	return err
}

type aiKitListenCmd struct {
	aiKitServer
	For   time.Duration `help:"How long the call lasts." default:"30s"`
	WAV   string        `name:"wav" help:"Write what both say: left the caller, right the server." type:"path" placeholder:"FILE"`
	Quiet bool          `help:"The caller says nothing."`
	Press string        `help:"Keys that the caller presses after a second." placeholder:"KEYS"`
	All   bool          `help:"Show what is sent to the server too."`
}

// Run shows a call.
func (cmd aiKitListenCmd) Run(ctx context.Context, e env) (err error) {
	kit, err := cmd.start(ctx, e)
	if err != nil {
		return err
	}
	defer func() { err = closing(ctx, kit, err) }()
	l := aikit.Listening{For: cmd.For, Quiet: cmd.Quiet, Press: cmd.Press}
	if cmd.WAV != "" {
		if l.WAV, err = filepath.Abs(cmd.WAV); err != nil {
			return err
		}
	}
	shows := aikit.NewLines(e.stdout, cmd.JSON)
	l.Show = func(s aikit.Shown) {
		if cmd.All || !s.Sent {
			shows.Add(s)
		}
	}
	out, err := kit.Listen(ctx, l)
	shows.End()
	if err != nil {
		return err
	}
	if cmd.JSON {
		err = aikit.WriteJSON(e.stdout, out)
	} else if err = out.Print(e.stdout); err == nil && l.WAV != "" && len(out.Findings) == 0 {
		_, err = io.WriteString(e.stdout, "recorded in "+l.WAV+"\n")
	}
	for _, f := range out.Findings {
		if f.Level == aikit.LevelError {
			return errors.Join(err, &exitError{code: exitFailed})
		}
	}
	return err
}

type aiKitSchemaCmd struct {
	Transport string `arg:"" optional:"" help:"websocket, twilio or openai_realtime; all of them, by name, when left out."`
}

// Run prints it.
func (cmd aiKitSchemaCmd) Run(e env) error {
	if cmd.Transport != "" {
		schema, err := frames.Schema(cmd.Transport)
		if err != nil {
			return err
		}
		_, err = e.stdout.Write(schema)
		return err
	}
	all := map[string]json.RawMessage{}
	for _, transport := range frames.Transports() {
		schema, err := frames.Schema(transport)
		if err != nil {
			return err
		}
		all[transport] = schema
	}
	out := json.NewEncoder(e.stdout)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	if err := out.Encode(all); err != nil {
		return fmt.Errorf("print the schemas: %w", err)
	}
	return nil
}

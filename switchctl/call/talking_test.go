package call

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/prompt"
	"github.com/ringmaster/ringmaster/media/wav"
	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// fakePrompts gives files of one second; "missing" can't be had, and "gone" is no file.
type fakePrompts struct{ dir string }

func (p fakePrompts) Ready(string) (string, bool) { return "", false }

func (p fakePrompts) Path(ctx context.Context, _, url string) (string, error) {
	path := filepath.Join(p.dir, url)
	switch url {
	case "missing":
		return "", errors.New("server answered 404")
	case "gone":
		return path, nil
	case "slow":
		<-ctx.Done()
		return "", ctx.Err()
	case "tardy":
		time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock
	}
	return path, os.WriteFile(path, make([]byte, promptBytes), 0o600)
}

// wavPrompts gives a WAV file of a second, but for addresses that end in "missing".
type wavPrompts struct{ fakePrompts }

func (p wavPrompts) Path(_ context.Context, _, url string) (string, error) {
	if strings.HasSuffix(url, "missing") {
		return "", &prompt.FetchError{Step: "fetch", Err: &prompt.StatusError{Status: 404}}
	}
	path := filepath.Join(p.dir, filepath.Base(url))
	return path, os.WriteFile(path, wav.Encode(make([]int16, promptBytes/2)), 0o600)
}

// talkInput is what a handler does with its caller, and what the switch says of it.
func (b *bench) talkInput(f []string) {
	switch f[0] {
	case "prompts": // audio can be fetched
		b.c.cfg.Prompts = wavPrompts{fakePrompts{dir: b.c.cfg.RecordDir}}
	case "steps": // of the handler, one after the other; it leaves after the last
		b.c.cfg.Prompts = fakePrompts{dir: b.c.cfg.RecordDir}
		steps := strings.Split(strings.Join(f[1:], " "), "|")
		b.handler.answered = func(ctx context.Context, leg switchctl.Leg) error {
			for _, step := range steps {
				step = strings.TrimSpace(step)
				result := b.step(ctx, leg, strings.Fields(step))
				b.trace.add("handler: %s: %s", step, result)
			}
			return nil
		}
	case "digit": // with how it came
		ev := b.event(fs.DTMF, map[string]string{"DTMF-Digit": f[1], "DTMF-Source": f[2]})
		b.sock.say(ev)
	case "others_digit": // of another call, which a switch tells a socket that has no filter
		b.sock.say(b.event(fs.DTMF, map[string]string{"DTMF-Digit": f[1], "DTMF-Source": "RTP", "Unique-ID": uuid.NewString()}))
	case "played": // the newest playback, as the switch says
		b.sock.mu.Lock()
		id := b.sock.played
		b.sock.mu.Unlock()
		response := "FILE PLAYED"
		if len(f) > 1 {
			response = strings.Join(f[1:], " ")
		}
		b.sock.say(b.event(fs.ChannelExecuteComplete, map[string]string{"Application-UUID": id, "Application-Response": response}))
	default:
		b.sipInput(f)
	}
}

// step is one operation of a leg.
func (b *bench) step(ctx context.Context, leg switchctl.Leg, f []string) string {
	kv := keyValues(f)
	seconds := func(key string) time.Duration {
		n, err := strconv.Atoi(kv[key])
		if err != nil {
			return 0
		}
		return time.Duration(n) * time.Second
	}
	if within := seconds("within"); within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, within)
		defer cancel()
	}
	told := func(result string, err error) string {
		if err != nil {
			return result + " " + err.Error()
		}
		return result
	}
	switch f[0] {
	case "play":
		return told("done", leg.Play(ctx, f[1]))
	case "gather":
		digits, err := leg.Gather(ctx, switchctl.Gather{
			URL: kv["url"], MaxDigits: len(kv["max"]), Timeout: seconds("timeout"), Terminator: kv["end"], Tries: len(kv["tries"]),
		})
		return told(strconv.Quote(digits), err)
	case "voicemail":
		return told("done", leg.RecordVoicemail(ctx, switchctl.Voicemail{GreetingURL: kv["greeting"], Max: seconds("max")}))
	case "transfer":
		outcome, err := leg.Transfer(ctx, f[1], f[2])
		return told(string(outcome), err)
	case "agent":
		mode := phone.Held
		if kv["mode"] != "" {
			mode = phone.Mode(kv["mode"])
		}
		outcome, err := leg.ConnectAgent(ctx, switchctl.AgentConnect{
			Phone: testPhone(mode), WhisperURL: kv["whisper"], RingTimeout: 10 * time.Second, CallerName: kv["name"],
			KeepCaller: kv["keep"] == "yes", Theirs: kv["theirs"] == "yes",
		})
		return told(string(outcome), err)
	case "machine":
		return told("noted", leg.OnMachine(ctx, switchctl.MachineAction{MessageURL: kv["message"]}))
	case "record":
		return told("done", leg.Record(ctx))
	case "detect":
		return told("listening", leg.DetectMachine(ctx))
	case "announce":
		return told("done", leg.Announce(ctx, switchctl.Announcement{URL: f[1], RecordToEnd: kv["record"] == "to_end", Stereo: kv["stereo"] == "yes"}))
	case "music":
		return told("on", leg.StartMusic(ctx, kv["url"]))
	case "wait":
		return told("done", rt.Pause(ctx, b.c.clock, seconds("for")))
	case "note":
		return told("done", leg.Note(ctx, b.handler.agent, f[1]))
	case "connect":
		outcome, err := leg.ConnectVoiceAgent(ctx, switchctl.VoiceConnect{Agent: b.handler.agent, KeepCaller: kv["keep"] == "yes"})
		return told(string(outcome), err)
	default:
		<-ctx.Done()
		return "left"
	}
}

func TestPlayWithoutPrompts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.c.promptFile(t.Context(), b.tenant, "welcome")
	require.ErrorIs(t, err, switchctl.ErrAudio)
}

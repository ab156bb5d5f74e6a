package e2e

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/openai"
)

// realtimeEvent is what a server of OpenAI's Realtime API gets.
type realtimeEvent struct {
	Type, Audio  string
	ItemID       string `json:"item_id"`
	AudioEndMS   int64  `json:"audio_end_ms"`
	ContentIndex int    `json:"content_index"`
	Session      struct {
		Type, Instructions string
		Audio              struct {
			Input, Output struct{ Format struct{ Type string } }
		}
		Tools []struct{ Name string }
	}
	Response struct{ Instructions string }
	Item     struct {
		Type, Role, Output string
		CallID             string `json:"call_id"`
		Content            []struct{ Text string }
	}
}

// realtimeBot stands in for OpenAI's socket, as its reference describes the events. What the model says and calls, a test says.
type realtimeBot struct {
	url   string
	conns chan *realtimeConn
}

// realtimeConn is one of its sessions.
type realtimeConn struct {
	ws   *websocket.Conn
	head http.Header
	over chan struct{} // closed when the session has ended

	mu     sync.Mutex
	events []realtimeEvent // those without audio
	ear    *tone.Listener
	format string // "" until the session is described
	early  bool   // audio came before that
	faults []string
	turn   int
	code   int // the close frame's
}

func newRealtimeBot(t *testing.T) *realtimeBot {
	t.Helper()
	b := &realtimeBot{conns: make(chan *realtimeConn, 8)}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := new(websocket.Upgrader).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		c := &realtimeConn{ws: ws, head: r.Header, over: make(chan struct{}), ear: tone.NewListener(dsp.SampleRate, nil)}
		c.tell("session.created", map[string]any{"session": map[string]any{
			"object": "realtime.session", "id": "sess_1", "type": "realtime", "model": r.URL.Query().Get("model"),
		}})
		b.conns <- c
		c.read()
	}))
	t.Cleanup(srv.Close)
	b.url = "ws" + strings.TrimPrefix(srv.URL, "http") + "/v1/realtime?model=gpt-realtime"
	return b
}

// tell sends an event.
func (c *realtimeConn) tell(typ string, members map[string]any) {
	e := map[string]any{"type": typ, "event_id": "event_" + typ}
	maps.Copy(e, members)
	_ = c.ws.WriteJSON(e) // a session that has ended is seen by the reader
}

func (c *realtimeConn) read() {
	defer close(c.over)
	defer func() { _ = c.ws.Close() }()
	for {
		_, b, err := c.ws.ReadMessage()
		c.mu.Lock()
		if err != nil {
			if closed, ok := errors.AsType[*websocket.CloseError](err); ok {
				c.code = closed.Code
			}
			c.mu.Unlock()
			return
		}
		c.take(b)
		c.mu.Unlock()
	}
}

// take does with an event what the API does.
func (c *realtimeConn) take(b []byte) {
	var e realtimeEvent
	if err := json.Unmarshal(b, &e); err != nil {
		c.faults = append(c.faults, string(b))
		return
	}
	switch e.Type {
	case "input_audio_buffer.append":
		audio, err := base64.StdEncoding.DecodeString(e.Audio)
		if err != nil || len(audio) == 0 {
			c.faults = append(c.faults, string(b))
		}
		c.early = c.early || c.format == ""
		pcm := make([]int16, len(audio))
		if c.format == openai.FormatPCMA {
			dsp.DecodeALaw(pcm, audio)
		} else {
			dsp.DecodeULaw(pcm, audio)
		}
		c.ear.Hear(time.Now(), pcm, nil)
		return
	case "session.update":
		in, out := e.Session.Audio.Input.Format.Type, e.Session.Audio.Output.Format.Type
		if in != "" { // what an update leaves out stays
			c.format = in
		}
		if in != out {
			c.faults = append(c.faults, string(b))
		}
	case "conversation.item.create", "conversation.item.truncate", "response.create", "response.cancel":
	default:
		c.faults = append(c.faults, string(b))
	}
	c.events = append(c.events, e)
}

// next waits for the next session, until it is described.
func (b *realtimeBot) next(t *testing.T) *realtimeConn {
	t.Helper()
	select {
	case c := <-b.conns:
		c.await(t, "session.update", 1)
		c.tell("session.updated", map[string]any{"session": map[string]any{"type": "realtime"}})
		return c
	case <-time.After(30 * time.Second):
		require.FailNow(t, "the voice agent was not dialed")
		return nil
	}
}

func (c *realtimeConn) of(typ string) (found []realtimeEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.events {
		if e.Type == typ {
			found = append(found, e)
		}
	}
	return found
}

// await waits for so many events of a type and returns the last.
func (c *realtimeConn) await(t *testing.T, typ string, n int) realtimeEvent {
	t.Helper()
	eventually(t, 20*time.Second, fmt.Sprintf("%d %s come", n, typ), func() bool { return len(c.of(typ)) >= n })
	return c.of(typ)[n-1]
}

// begin begins a response, with a message that says something, which comes at once.
func (c *realtimeConn) begin(hz float64, d time.Duration) (response, item string) {
	c.turn++
	response, item = fmt.Sprintf("resp_%d", c.turn), fmt.Sprintf("item_%d", c.turn)
	c.tell("response.created", map[string]any{"response": map[string]any{"id": response, "status": "in_progress"}})
	c.tell("response.output_item.added", map[string]any{"response_id": response, "item": map[string]any{"id": item, "type": "message", "status": "in_progress"}})
	c.mu.Lock()
	format := c.format
	c.mu.Unlock()
	pcm := tone.Sine(int(d.Seconds()*dsp.SampleRate), dsp.SampleRate, hz, -12)
	audio := make([]byte, len(pcm))
	if format == openai.FormatPCMA {
		dsp.EncodeALaw(audio, pcm)
	} else {
		dsp.EncodeULaw(audio, pcm)
	}
	for part := range slices.Chunk(audio, 3200) {
		c.tell("response.output_audio.delta", map[string]any{
			"response_id": response, "item_id": item, "output_index": 0, "content_index": 0, "delta": base64.StdEncoding.EncodeToString(part),
		})
	}
	c.tell("response.output_audio_transcript.delta", map[string]any{"response_id": response, "item_id": item, "delta": `a "tone"`})
	return response, item
}

// end ends a response, which may call functions: name and arguments.
func (c *realtimeConn) end(response string, calls ...[2]string) {
	output := []any{}
	for i, call := range calls {
		item := map[string]any{
			"id": fmt.Sprintf("fc_%s_%d", response, i), "type": "function_call", "status": "completed",
			"name": call[0], "call_id": fmt.Sprintf("call_%s_%d", response, i), "arguments": call[1],
		}
		c.tell("response.function_call_arguments.done", map[string]any{
			"response_id": response, "item_id": item["id"], "call_id": item["call_id"], "name": call[0], "arguments": call[1],
		})
		c.tell("response.output_item.done", map[string]any{"response_id": response, "item": item})
		output = append(output, item)
	}
	c.tell("response.done", map[string]any{"response": map[string]any{"id": response, "status": "completed", "output": output}})
}

// realtimeCampaign starts a campaign of one lead, whom a voice agent of OpenAI's Realtime API takes.
func (c *customer) realtimeCampaign(t *testing.T, bot *realtimeBot, number string, config map[string]any) (campaign string) {
	t.Helper()
	campaign = c.campaign(t, c.voiceAgent(t, "", map[string]any{
		"ws_url": bot.url, "transport": "openai_realtime", "auth_token": "sk-1", "transport_config": config,
	}), nil)
	c.push(t, campaign, number)
	c.start(t, campaign)
	return campaign
}

// A model holds a conversation: it greets, hears the caller, is interrupted and told how much of it was heard, calls functions, and hands the caller to
// somebody else once its last words have been heard.
func TestRealtimeConversation(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		bot := newRealtimeBot(t)
		const number, other = "9876191000", "9876191001"
		campaign := c.realtimeCampaign(t, bot, number, map[string]any{
			"session":       map[string]any{"instructions": "You are a tone."},
			"functions":     []string{"transfer", "set_disposition"},
			"first_message": "Beep.",
		})
		s := bot.next(t)
		require.Equal(t, "Bearer sk-1", s.head.Get("Authorization"))
		require.Empty(t, s.head.Values("Sec-Websocket-Protocol"))
		update := s.of("session.update")[0].Session
		require.Equal(t, "realtime", update.Type)
		require.Equal(t, "You are a tone.", update.Instructions)
		require.Len(t, update.Tools, 2)
		require.Contains(t, s.await(t, "response.create", 1).Response.Instructions, "Beep.")
		call := c.calls(t, campaign)[0]
		told := s.of("conversation.item.create")[0].Item
		require.Equal(t, "system", told.Role)
		require.Contains(t, told.Content[0].Text, call.ID)
		require.Contains(t, told.Content[0].Text, "+91"+number)
		require.NotContains(t, told.Content[0].Text, "svc_cb_")

		caller := c.callee(t, number)
		response, _ := s.begin(agentHz, time.Second)
		s.end(response)
		eventually(t, 10*time.Second, "the caller hears all of it", func() bool { return caller(agentHz) >= 900 })
		eventually(t, 20*time.Second, "the caller is heard", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			heard := s.ear.Heard()
			return len(heard) > 0 && heard[0].TotalMS > 500
		})

		before := caller(agentHz)
		response, item := s.begin(agentHz, 20*time.Second)
		caller.hears(t, agentHz, "the caller hears what is to be cut")
		eventually(t, 10*time.Second, "some of it is heard", func() bool { return caller(agentHz) > before+1000 })
		s.tell("input_audio_buffer.speech_started", map[string]any{"audio_start_ms": 1000, "item_id": "item_caller"})
		s.tell("response.done", map[string]any{"response": map[string]any{"id": response, "status": "cancelled"}})
		cut := s.await(t, "conversation.item.truncate", 1)
		require.Equal(t, item, cut.ItemID)
		caller.quiet(t, agentHz, "the caller's words cut it")
		require.InDelta(t, caller(agentHz)-before, cut.AudioEndMS, 250, "the model knows what was heard")

		response, _ = s.begin(agentHz, 100*time.Millisecond)
		s.end(response, [2]string{"set_disposition", `{"disposition":"interested"}`}, [2]string{"weather", `{}`})
		s.await(t, "conversation.item.create", 3)
		for _, e := range s.of("conversation.item.create")[1:] {
			require.Equal(t, strings.HasSuffix(e.Item.CallID, "_0"), strings.Contains(e.Item.Output, `"ok":true`), e.Item.Output)
		}
		s.await(t, "response.create", 2)

		before = caller(agentHz)
		response, _ = s.begin(agentHz, time.Second)
		s.end(response, [2]string{"transfer", `{"destination_type":"e164","destination":"+91` + other + `"}`})
		require.Contains(t, s.await(t, "conversation.item.create", 4).Item.Output, `"ok":true`)
		require.Greater(t, caller(agentHz), before+800, "the last words are heard first")
		eventually(t, 15*time.Second, "the other party hears the caller", func() bool {
			report, ok := c.report(t, "+91"+other)
			return ok && len(onsets(report.Heard, callerHz)) > 0
		})
		select {
		case <-s.over:
		case <-time.After(20 * time.Second):
			require.FailNow(t, "the session stays open")
		}
		require.Equal(t, 1000, s.code)
		require.Empty(t, s.faults)
		require.False(t, s.early, "audio came before the session was described")
		require.Len(t, s.of("response.create"), 2, "nobody talks into the transfer")
		c.hangUp(t, "+91"+other)
		require.Equal(t, "completed", c.ended(t, campaign, 1, 20*time.Second)[0].Status)
	})
}

// A model that says goodbye and calls hangup is heard to the end.
func TestRealtimeGoodbye(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		bot := newRealtimeBot(t)
		const number = "9876191002"
		campaign := c.realtimeCampaign(t, bot, number, map[string]any{"functions": []string{"hangup"}, "greet": true})
		s := bot.next(t)
		s.await(t, "response.create", 1)
		caller := c.callee(t, number)
		response, _ := s.begin(agentHz, 2*time.Second)
		s.end(response, [2]string{"hangup", `{}`})
		ended := c.ended(t, campaign, 1, 20*time.Second)
		require.Equal(t, "completed", ended[0].Status)
		require.Equal(t, "send_bye", *ended[0].HangupDisposition)
		require.GreaterOrEqual(t, caller(agentHz), int64(1900), "all of it is heard")
	})
}

package e2e

import (
	wire "encoding/binary"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/apitest"
	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
	"github.com/ringmaster/ringmaster/media/wav"
)

// promptHz is what the prompts of these tests sound like.
const promptHz = 1400

// signedIn is the API as one of the tenant's users sees it.
func (c *customer) signedIn(t *testing.T, role string) apitest.Client {
	t.Helper()
	for _, u := range c.tenant.Users {
		if u.Role != role {
			continue
		}
		var out struct {
			Token string `json:"access_token"`
		}
		c.api.JSON(t, http.MethodPost, "/api/auth/login", map[string]any{"email": u.Email, "password": u.Password}, http.StatusOK, &out)
		return apitest.Client{BaseURL: c.api.BaseURL, Key: out.Token}
	}
	require.Fail(t, "no seeded user has the role", role)
	return apitest.Client{}
}

// prompts serves a tone of 44.1 kHz in stereo.
func prompts(t *testing.T, length time.Duration) string {
	t.Helper()
	return promptsOnce(t, length, func() bool { return true })
}

// promptsOnce serves it as soon as it is ready, and before that fails.
func promptsOnce(t *testing.T, length time.Duration, ready func() bool) string {
	t.Helper()
	const rate = 44100
	samples := tone.Sine(int(length*rate/time.Second), rate, promptHz, -12)
	b := []byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x02\x00")
	b = wire.LittleEndian.AppendUint32(b, rate)
	b = wire.LittleEndian.AppendUint32(b, 4*rate)
	b = append(b, 4, 0, 16, 0)
	b = wire.LittleEndian.AppendUint32(append(b, "data"...), uint32(4*len(samples)))
	for _, s := range samples {
		b = wire.LittleEndian.AppendUint16(wire.LittleEndian.AppendUint16(b, uint16(s)), uint16(s))
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !ready() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write(b)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/prompt.wav"
}

// flowOfTheNumber leads the tenant's number to a flow until the test's end.
func (c *customer) flowOfTheNumber(t *testing.T, nodes string) (flowID string) {
	t.Helper()
	admin := c.signedIn(t, "admin")
	var f id
	admin.JSON(t, http.MethodPost, "/api/flows", fmt.Sprintf(`{"name":%q,"nodes":%s}`, t.Name(), nodes), http.StatusCreated, &f)
	var numbers struct {
		Items []struct {
			ID     string  `json:"id"`
			E164   string  `json:"e164"`
			FlowID *string `json:"flow_id"`
		} `json:"items"`
	}
	admin.JSON(t, http.MethodGet, "/api/numbers", nil, http.StatusOK, &numbers)
	for _, n := range numbers.Items {
		if !strings.HasSuffix(n.E164, strings.TrimPrefix(c.tenant.Numbers[0], "+")) {
			continue
		}
		path := "/api/numbers/" + n.ID
		admin.JSON(t, http.MethodPatch, path, map[string]any{"flow_id": f.ID}, http.StatusOK, nil)
		t.Cleanup(func() {
			status, _, _ := admin.Do(t, http.MethodPatch, path, map[string]any{"flow_id": n.FlowID})
			require.Equal(t, http.StatusOK, status)
		})
		return f.ID
	}
	require.Fail(t, "the tenant's number is not listed")
	return ""
}

// hears waits until the other side of a call has heard a tone so often.
func (c *customer) hears(t *testing.T, callID string, hz float64, times int, what string) {
	t.Helper()
	eventually(t, 20*time.Second, what, func() bool {
		report, ok := c.report(t, callID)
		return ok && len(onsets(report.Heard, hz)) >= times
	})
}

// hearsMenu waits until a caller has heard a second of the menu: FreeSWITCH drops the first half second of a recording that ends, or is bridged,
// within it.
func (c *customer) hearsMenu(t *testing.T, callID string) {
	t.Helper()
	eventually(t, 20*time.Second, "the caller hears the menu", func() bool {
		report, _ := c.report(t, callID)
		return slices.ContainsFunc(report.Heard, func(h tone.Heard) bool {
			return math.Abs(h.Hz-promptHz) < frequencyTolerance && h.TotalMS >= 1000
		})
	})
}

// speaks waits until a caller has sent so many packets of 20 ms more.
func (c *customer) speaks(t *testing.T, callID string, packets int64) {
	t.Helper()
	before, _ := c.report(t, callID)
	eventually(t, 20*time.Second, "the caller speaks", func() bool {
		report, _ := c.report(t, callID)
		return report.RTPOut.Packets >= before.RTPOut.Packets+packets
	})
}

// menuRecorded gives a call's recording, which the menu must be in, so often.
func (c *customer) menuRecorded(t *testing.T, callID string, times int) wav.File {
	t.Helper()
	wav, err := wav.Parse(c.recording(t, callID))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(wavOnsets(wav.Channel(wav.Channels-1), wav.Rate, promptHz)), times, "the menu is in the recording")
	if wav.Channels == 2 {
		require.Empty(t, wavOnsets(wav.Channel(0), wav.Rate, promptHz), "the caller's side has the caller alone")
	}
	return wav
}

type flowCall struct {
	call
	Disposition      *string    `json:"disposition"`
	AgentConnectTime *time.Time `json:"agent_connect_time"`
	Flows            []struct {
		FlowID  string `json:"flow_id"`
		Version int    `json:"version"`
		Outcome string `json:"outcome"`
		Trace   []struct {
			Node, Outcome string
		} `json:"trace"`
	} `json:"flows"`
}

// traced reads a call with its trace, as node=outcome.
func (c *customer) traced(t *testing.T, callID string) (flowCall, []string) {
	t.Helper()
	var out flowCall
	c.do(t, http.StatusOK, http.MethodGet, "/api/v1/calls/"+callID, nil, &out)
	require.Len(t, out.Flows, 1)
	steps := make([]string, 0, len(out.Flows[0].Trace))
	for _, s := range out.Flows[0].Trace {
		steps = append(steps, s.Node+"="+s.Outcome)
	}
	return out, steps
}

// A caller hears a menu and presses a key, in each way that keys travel: for the voice agent, to leave a message, or to be let go.
func TestFlowWithMenu(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		url := prompts(t, 5*time.Second)
		agent := c.voiceAgent(t, "/tone?hz=1000", nil)
		c.flowOfTheNumber(t, `[{"id":"s","type":"start","next":{"default":"menu"}},
			{"id":"menu","type":"gather_dtmf","data":{"audio_url":"`+url+`","variable":"key","max_digits":1,"timeout_s":2,"tries":2},"next":{"default":"which","timeout":"bye"}},
			{"id":"which","type":"branch","data":{"variable":"key"},"next":{"1":"ai","2":"message","default":"menu"}},
			{"id":"ai","type":"connect_voice_agent","data":{"voice_agent_id":"`+agent+`"}},
			{"id":"message","type":"voicemail","data":{"max_s":20},"next":{"default":"tag"}},
			{"id":"tag","type":"set_disposition","data":{"disposition":"message"},"next":{"default":"bye"}},
			{"id":"bye","type":"hangup","data":{"cause":"CALL_REJECTED"}}]`)
		number := c.tenant.Numbers[0]
		press := func(callID, digits, by string) {
			require.NoError(t, c.phones().Press(t.Context(), callID, simcarrier.PressRequest{Digits: digits, By: by}))
		}
		for i, by := range []string{simcarrier.ByEvent, simcarrier.ByInfo} {
			from := fmt.Sprintf("98771000%02d", i)
			out := c.dialIn(t, from, number)
			require.True(t, out.Answered, "%+v", out)
			c.hearsMenu(t, out.CallID)
			press(out.CallID, "1", by)
			c.hears(t, out.CallID, 1000, 1, "the caller hears the voice agent, after "+by)
			callID, ok := c.inboundCall(t, from)
			require.True(t, ok)
			report, _ := c.report(t, out.CallID)
			require.Less(t, onsets(report.Heard, 1000)[0].Sub(onsets(report.Heard, promptHz)[0]), 4900*time.Millisecond, "the key cuts the menu off")
			c.speaks(t, out.CallID, 25) // the voice agent is heard meanwhile
			c.hangUp(t, out.CallID)
			c.endedCall(t, callID.String())
			_, steps := c.traced(t, callID.String())
			require.Equal(t, []string{"s=default", "menu=default", "which=1"}, steps[:3])
			wav := c.menuRecorded(t, callID.String(), 1)
			require.Equal(t, 2, wav.Channels)
			require.NotEmpty(t, wavOnsets(wav.Channel(1), wav.Rate, 1000), "the voice agent is in the recording")
		}

		const from = "9877200000"
		out := c.dialIn(t, from, number)
		require.True(t, out.Answered)
		c.hears(t, out.CallID, promptHz, 1, "the caller hears the menu")
		press(out.CallID, "92", simcarrier.ByEvent) // the 9 leads back to the menu, which the 2 then cuts off
		c.hears(t, out.CallID, 1000, 1, "the caller hears the beep")
		callID, ok := c.inboundCall(t, from)
		require.True(t, ok)
		c.speaks(t, out.CallID, 125)
		press(out.CallID, "#", simcarrier.ByEvent)
		ended := c.endedCall(t, callID.String())
		require.Equal(t, "CALL_REJECTED", deref(ended.HangupCause))
		detail, steps := c.traced(t, callID.String())
		require.Equal(t, []string{
			"s=default", "menu=default", "which=default", "menu=default", "which=2", "message=default", "tag=default", "bye=default",
		}, steps)
		require.Equal(t, "message", deref(detail.Disposition))
		wav := c.menuRecorded(t, callID.String(), 1)
		require.Equal(t, 1, wav.Channels)
		lasts := float64(len(wav.Samples)) / float64(wav.Rate)
		require.Greater(t, lasts, 1.6)
		require.Less(t, lasts, ended.EndTime.Sub(*ended.AnswerTime).Seconds()+1)
		require.NotEmpty(t, wavOnsets(wav.Channel(0), wav.Rate, callerHz), "the message is in the recording")

		const silent = "9877300000"
		out = c.dialIn(t, silent, number)
		require.True(t, out.Answered)
		callID, ok = c.inboundCall(t, silent)
		require.True(t, ok)
		c.endedCall(t, callID.String())
		_, steps = c.traced(t, callID.String())
		require.Equal(t, []string{"s=default", "menu=timeout", "bye=default"}, steps)
		report, _ := c.report(t, out.CallID)
		require.GreaterOrEqual(t, len(onsets(report.Heard, promptHz)), 2, "the menu is played twice")
		require.Equal(t, 1, c.menuRecorded(t, callID.String(), 2).Channels, "a call that only a flow had is recorded")
		c.atRest(t)
	})
}

// A key is its caller's alone: another caller who hears the same menu is led nowhere by it.
func TestKeysOfAnotherCaller(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		agent := c.voiceAgent(t, "/tone?hz=1000", nil)
		c.flowOfTheNumber(t, `[{"id":"s","type":"start","next":{"default":"menu"}},
			{"id":"menu","type":"gather_dtmf","data":{"audio_url":"`+prompts(t, 4*time.Second)+`","variable":"key","max_digits":1,"timeout_s":20},"next":{"default":"which"}},
			{"id":"which","type":"branch","data":{"variable":"key"},"next":{"1":"ai","2":"bye"}},
			{"id":"ai","type":"connect_voice_agent","data":{"voice_agent_id":"`+agent+`"}},
			{"id":"bye","type":"hangup"}]`)
		caller := func(from string) (phone, callID string) {
			out := c.dialIn(t, from, c.tenant.Numbers[0])
			require.True(t, out.Answered, "%+v", out)
			found, ok := c.inboundCall(t, from)
			require.True(t, ok)
			return out.CallID, found.String()
		}
		waiting, waits := caller("9877600000")
		pressing, leaves := caller("9877600001")
		c.hearsMenu(t, waiting)
		c.hearsMenu(t, pressing)
		require.NoError(t, c.phones().Press(t.Context(), pressing, simcarrier.PressRequest{Digits: "2"}))
		c.endedCall(t, leaves)
		require.NoError(t, c.phones().Press(t.Context(), waiting, simcarrier.PressRequest{Digits: "1"}))
		c.hears(t, waiting, 1000, 1, "the other caller hears the voice agent")
		c.hangUp(t, waiting)
		c.endedCall(t, waits)
		_, steps := c.traced(t, waits)
		require.Equal(t, []string{"s=default", "menu=default", "which=1"}, steps[:3])
		c.atRest(t)
	})
}

// A caller is led to a number; when they have parted the flow goes on.
func TestFlowTransfers(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		url := prompts(t, time.Second)
		const other = "9876200101"
		c.flowOfTheNumber(t, `[{"id":"s","type":"start","next":{"default":"t"}},
			{"id":"t","type":"transfer","data":{"destination_type":"e164","destination":"+91`+other+`"},"next":{"ended":"p"}},
			{"id":"p","type":"play_audio","data":{"audio_url":"`+url+`"},"next":{"default":"b"}},
			{"id":"b","type":"transfer","data":{"destination_type":"e164","destination":"+919876200160"},"next":{"failed":"h"}},
			{"id":"h","type":"hangup"}]`)
		const from = "9877400000"
		out := c.dialIn(t, from, c.tenant.Numbers[0])
		require.True(t, out.Answered, "%+v", out)
		c.hears(t, "+91"+other, callerHz, 1, "the other party hears the caller")
		c.hears(t, out.CallID, callerHz, 1, "the caller hears the other party")
		callID, ok := c.inboundCall(t, from)
		require.True(t, ok)
		c.hangUp(t, "+91"+other)
		c.hears(t, out.CallID, promptHz, 1, "the caller is back in the flow")
		c.endedCall(t, callID.String())
		_, steps := c.traced(t, callID.String())
		require.Equal(t, []string{"s=default", "t=ended", "p=default", "b=failed", "h=default"}, steps)
		require.NotEmpty(t, c.recording(t, callID.String()))
		c.atRest(t)
	})
}

// A caller presses a key for a person: the flow queues the caller, and the agent's phone is bridged.
func TestFlowToAnAgent(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		url := prompts(t, 2*time.Second)
		c.flowOfTheNumber(t, `[{"id":"s","type":"start","next":{"default":"menu"}},
			{"id":"menu","type":"gather_dtmf","data":{"audio_url":"`+url+`","variable":"key","max_digits":1,"timeout_s":5},"next":{"default":"which"}},
			{"id":"which","type":"branch","data":{"variable":"key"},"next":{"2":"person"}},
			{"id":"person","type":"connect_agent","data":{"max_wait_s":30},
				"next":{"timeout":"sorry","unavailable":"sorry","ended":"sorry"}},
			{"id":"sorry","type":"play_audio","data":{"audio_url":"`+url+`"},"next":{"default":"bye"}},
			{"id":"bye","type":"hangup"}]`)
		number := c.tenant.Numbers[0]
		press := func(from string) (out simcarrier.PlaceResult, callID string) {
			out = c.dialIn(t, from, number)
			require.True(t, out.Answered, "%+v", out)
			c.hearsMenu(t, out.CallID)
			require.NoError(t, c.phones().Press(t.Context(), out.CallID, simcarrier.PressRequest{Digits: "2"}))
			found, ok := c.inboundCall(t, from)
			require.True(t, ok)
			return out, found.String()
		}

		_, callID := press("9877500000")
		c.endedCall(t, callID) // nobody is there, and the flow says so
		_, before := c.traced(t, callID)
		require.Equal(t, []string{"s=default", "menu=default", "which=2", "person=unavailable", "sorry=default", "bye=default"}, before)

		agent := c.signedIn(t, "agent")
		var login struct {
			SIP struct{ Extension, Domain, Password string } `json:"sip"`
		}
		agent.JSON(t, http.MethodPost, "/api/agent/login", map[string]any{}, http.StatusOK, &login)
		defer func() { _, _, _ = agent.Do(t, http.MethodPost, "/api/agent/logout", nil) }()
		c.softphone(t, simcarrier.AgentSpec{Extension: login.SIP.Extension, Password: login.SIP.Password, Voice: "tone:1000"})
		eventually(t, 15*time.Second, "the agent's phone is held", func() bool {
			state, err := c.phones().Agent(t.Context(), login.SIP.Extension)
			return err == nil && state.Call != nil && state.Calls > 0
		})

		out, callID := press("9877500001")
		c.hears(t, out.CallID, 1000, 1, "the caller hears the agent")
		eventually(t, 10*time.Second, "the agent hears the caller", func() bool {
			state, err := c.phones().Agent(t.Context(), login.SIP.Extension)
			return err == nil && state.Call != nil && len(onsets(state.Call.Heard, callerHz)) > 0
		})
		talkSome(t)
		c.hangUp(t, out.CallID)
		c.endedCall(t, callID)
		detail, steps := c.traced(t, callID)
		require.NotNil(t, detail.AgentConnectTime)
		require.Equal(t, "person=call_ended", steps[3])
		agent.JSON(t, http.MethodPost, "/api/agent/dispose", map[string]any{"call_id": callID, "disposition": "done"}, http.StatusOK, nil)
		c.checkMono(t, callID, callerHz, agentHz)
		c.menuRecorded(t, callID, 1)

		out, callID = press("9877500003")
		c.hears(t, out.CallID, 1000, 1, "the caller hears the agent, who hangs up by the API")
		agent.JSON(t, http.MethodPost, "/api/agent/hangup", nil, http.StatusOK, nil)
		c.endedCall(t, callID)
		_, steps = c.traced(t, callID)
		require.Equal(t, []string{"person=ended", "sorry=default", "bye=default"}, steps[3:], "the flow goes on")
		agent.JSON(t, http.MethodPost, "/api/agent/dispose", map[string]any{"call_id": callID, "disposition": "done"}, http.StatusOK, nil)

		out, callID = press("9877500002")
		c.hears(t, out.CallID, 1000, 1, "the caller hears the agent again")
		_, err := c.phones().HangupAgent(t.Context(), login.SIP.Extension)
		require.NoError(t, err)
		c.endedCall(t, callID)
		detail, steps = c.traced(t, callID)
		require.Equal(t, []string{"person=ended", "sorry=default", "bye=default"}, steps[3:], "the flow goes on when the agent has hung up")
		require.Equal(t, "completed", detail.Status)
	})
}

package fs

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/esl"
)

func TestCommands(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]Command{
		"uuid_exists c":                                   Exists("c"),
		"uuid_dump c json":                                Dump("c"),
		"show channels as json":                           Channels(),
		"uuid_kill c USER_BUSY":                           Kill("c", "USER_BUSY"),
		"uuid_bridge c d":                                 Bridge("c", "d"),
		"uuid_transfer c rm_reattach XML ringmaster":      Transfer("c", "rm_reattach", "ringmaster"),
		"uuid_setvar c x":                                 SetVar("c", "x", ""),
		"uuid_setvar c x y":                               SetVar("c", "x", "y"),
		"uuid_setvar_multi c x=1;y=2":                     SetVars("c", Var{Name: "x", Value: "1"}, Var{Name: "y", Value: "2"}),
		"uuid_getvar c x":                                 GetVar("c", "x"),
		"uuid_record c start /r/a.wav":                    Record("c", "/r/a.wav", 0),
		"uuid_record c start /r/a.wav 3":                  Record("c", "/r/a.wav", 2001*time.Millisecond),
		"uuid_setvar c RECORD_STEREO true":                RecordStereo("c", true),
		"uuid_record c stop /r/a.wav":                     StopRecording("c", "/r/a.wav"),
		"uuid_record c mask /r/a.wav":                     MaskRecording("c", "/r/a.wav"),
		"uuid_broadcast c playback::/p.wav aleg":          Play("c", "/p.wav"),
		"uuid_displace c start /p.wav 0 m":                PlayInto("c", "/p.wav"),
		"uuid_break c all":                                StopPlaying("c"),
		"uuid_send_dtmf c 12@100":                         SendDTMF("c", "12", 100*time.Millisecond),
		"uuid_media off c":                                MediaOff("c"),
		"uuid_media c":                                    MediaOn("c"),
		"uuid_media_reneg c":                              Reinvite("c"),
		"sofia xmlstatus profile internal user 1001@h":    Registration("internal", "1001", "h"),
		"sofia profile internal flush_inbound_reg 1001@h": ForgetRegistration("internal", "1001", "h"),
		"xml_flush_cache id 1001 h":                       ForgetDirectory("1001", "h"),
		"global_getvar core_uuid":                         CoreUUID(),
		"fsctl sync_clock_when_idle":                      SyncClock(),
		"uuid_setvar_multi s eavesdrop_enable_dtmf=false;eavesdrop_whisper_aleg=true;eavesdrop_whisper_bleg=false": MuxPartner.Set("s"),
		"uuid_transfer s 'set:eavesdrop_enable_dtmf=false,set:eavesdrop_whisper_aleg=true,set:eavesdrop_whisper_bleg=true,set:x=1,eavesdrop:c," +
			"transfer:rm_agent XML ringmaster' inline": Listen("s", "c", MuxBoth, []Var{{"x", "1"}}, "rm_agent", "ringmaster"),
	} {
		require.Equal(t, want, got.String())
	}
	require.Equal(t, "uuid_kill", Kill("c", "X").Name())
	require.Equal(t, "'&native_eavesdrop(c read)'", NativeEavesdrop("c", Read))
}

// sent is a switch that notes what it is sent, and refuses or loses some of it.
type sent struct {
	lines []string
	fails map[string]error
}

func (s *sent) API(_ context.Context, cmd Command) (string, error) {
	s.lines = append(s.lines, "api "+cmd.String())
	return "", s.fails[cmd.Name()]
}

func (s *sent) Background(_ context.Context, cmd Command) (string, error) {
	s.lines = append(s.lines, "bgapi "+cmd.String())
	return "", s.fails[cmd.Name()]
}

func TestScriptGoesInOrder(t *testing.T) {
	t.Parallel()
	refused, lost := &esl.ReplyError{Text: "-ERR no"}, errors.New("link lost")
	script := Script{SetVar("c", "a", "1"), Try(PlayInto("c", "tone")), Record("c", "f", 0), Exists("c")}
	for name, tc := range map[string]struct {
		fails map[string]error
		want  error
		lines int
	}{
		"all":               {lines: 4},
		"tried and refused": {fails: map[string]error{"uuid_displace": refused}, lines: 4},
		"tried and lost":    {fails: map[string]error{"uuid_displace": lost}, want: lost, lines: 2},
		"refused":           {fails: map[string]error{"uuid_record": refused}, want: refused, lines: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &sent{fails: tc.fails}
			require.ErrorIs(t, script.Run(t.Context(), s), tc.want)
			require.Equal(t, []string{"api uuid_setvar c a 1", "bgapi uuid_displace c start tone 0 m", "bgapi uuid_record c start f", "api uuid_exists c"}[:tc.lines], s.lines)
		})
	}
}

// TestValuesStayValues: a variable's value can't become another variable, word or command.
func TestValuesStayValues(t *testing.T) {
	t.Parallel()
	evil := Var{Name: "x", Value: "1;y=2' inline\napi hupall,\"$"}
	require.Equal(t, "uuid_setvar_multi c x=1y=2inlineapihupall", SetVars("c", evil).String())
	require.Contains(t, Listen("c", "d", MuxNobody, []Var{evil}, "rm_agent", "ringmaster").String(), ",set:x=1y=2inlineapihupall,eavesdrop:d,")
	require.Equal(t, "uuid_setvar_multi c x=sip:a-b@10.0.0.1:5060", SetVars("c", Var{Name: "x", Value: "sip:a-b@10.0.0.1:5060"}).String())
}

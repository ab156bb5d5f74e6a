package switchctl

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// variables are a leg's channel variables.
type variables map[string]string

// forDial gives the variables of a leg that the switch dials. A redirect (300, 301, 302, 305) fails it: the switch would follow it to any
// address, which nobody has judged (sofia.c, sofia_handle_sip_r_invite).
func (v variables) forDial() variables {
	v["outbound_redirect_fatal"] = "true"
	return v
}

// block writes variables as the originate syntax's {a=b,c=d}, in name order.
func (v variables) block() (string, error) {
	var b strings.Builder
	b.WriteByte('{')
	for i, name := range slices.Sorted(maps.Keys(v)) {
		if i > 0 {
			b.WriteByte(',')
		}
		value, err := quoteVariable(name, v[name])
		if err != nil {
			return "", err
		}
		b.WriteString(name)
		b.WriteByte('=')
		b.WriteString(value)
	}
	b.WriteByte('}')
	return b.String(), nil
}

// quoteVariable escapes one value. The switch splits a command at blanks (quotes group), finds the block's end by
// counting braces, and splits the block at commas (a backslash keeps one). What could end the block, a quote, or the
// command itself can't be carried and is refused.
func quoteVariable(name, value string) (string, error) {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		return "", &VariableError{Name: name}
	}
	blank := false
	var b strings.Builder
	for _, r := range value {
		switch {
		case r < ' ' || r == 0x7f || strings.ContainsRune(`'"{}[]<>\^|$`, r):
			return "", &VariableError{Name: name}
		case r == ',':
			b.WriteString(`\,`)
		case r == ' ':
			blank = true
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	if blank {
		return "'" + b.String() + "'", nil
	}
	return b.String(), nil
}

// checkEndpoint refuses a dial string that could hold anything but one endpoint.
func checkEndpoint(endpoint string) error {
	if endpoint == "" || strings.ContainsFunc(endpoint, func(r rune) bool {
		return r <= ' ' || r == 0x7f || strings.ContainsRune(`'"{}[]<>\^|,&$`, r)
	}) {
		return &VariableError{Name: "endpoint"}
	}
	return nil
}

// originateCommand builds the command that dials one leg and sends it to target once it is answered.
func originateCommand(v variables, endpoint, target string) (string, error) {
	if err := checkEndpoint(endpoint); err != nil {
		return "", err
	}
	block, err := v.forDial().block()
	if err != nil {
		return "", err
	}
	return "originate " + block + endpoint + " " + target, nil
}

// ringSeconds is originate_timeout. The switch fires up to 0.7 s early, so a second is added: a callee who rings for
// the whole time is not cut short.
func ringSeconds(d time.Duration) string {
	return strconv.Itoa(max(1, int((d+time.Second-1)/time.Second)) + 1)
}

// callerVariables are on every caller leg of ours: they find the call again.
func (c *Controller) callerVariables(a *actor) variables {
	v := variables{
		"rm_call_id":   a.id.String(),
		"rm_tenant_id": a.tenant.String(),
		"rm_node":      c.cfg.NodeID,
		"rm_role":      roleCaller,
		// The call outlives the media leg, and us: it goes to an extension that calls us again and parks.
		"transfer_after_bridge": "rm_reattach:XML:" + c.cfg.Context,
		// A media leg that is refused leaves the caller to us.
		"continue_on_fail": "true",
		// A leg that the switch waits for without a timer can't hang up: its BYE is taken up with its next packet, which never
		// comes, or after 5 s (switch_rtp.c, rtp_common_read).
		"rtp_notimer_during_bridge":   "false",
		"rtp_autoflush_during_bridge": "false",
	}
	if a.call.CampaignID != nil {
		v["rm_campaign_id"] = a.call.CampaignID.String()
	}
	if a.call.LeadID != nil {
		v["rm_lead_id"] = a.call.LeadID.String()
	}
	return v
}

// outboundVariables are those of a leg towards a carrier.
func outboundVariables(v variables, channel, from string, ring time.Duration, route Route) variables {
	maps.Copy(v, route.Vars)
	v["origination_uuid"] = channel
	v["ignore_early_media"] = "true"
	v["originate_timeout"] = ringSeconds(ring)
	v["sip_copy_custom_headers"] = "false"
	if from != "" {
		v["origination_caller_id_number"] = from
		v["origination_caller_id_name"] = from
	}
	return v
}

// legCodecs are the codecs of a leg to our endpoint, the carrier's first, so that the switch need not transcode.
func legCodecs(carrier string) string {
	if carrier == "PCMA" {
		return "PCMA,PCMU"
	}
	return "PCMU,PCMA"
}

// mediaBridge is the argument of the bridge application that leads a caller to an AI session. Each try has a channel UUID
// of its own, so that the end of an earlier leg is not taken for this one's.
//
// carrier is the carrier's codec, which the leg prefers. codec is that of a leg which is to go into bypass, empty for any
// other: that leg speaks the carrier's codec alone, and is read by the switch's timer, since a read that waits for packets that
// now go past the switch would hold it up for seconds.
func (c *Controller) mediaBridge(callID, sessionID, leg, mediaAddr, carrier, codec string) (string, error) {
	v := variables{
		"origination_uuid": leg,
		// A media leg that dies with us is noticed by the switch itself.
		"media_timeout": millis(legTimeout),
		// The media endpoint sends always, so its packets are read as they come: that saves a hop of up to 20 ms and a
		// backlog that stays.
		"rtp_timer_name":        "none",
		"absolute_codec_string": legCodecs(carrier),
		// Reports tell how the switch hears us; without them the quality of what the caller hears stays unknown.
		"rtcp_audio_interval_msec": "5000",
		"rm_role":                  roleMedia,
		"rm_session_id":            sessionID,
		"rm_call_id":               callID,
		"rm_node":                  c.cfg.NodeID,
	}
	if codec != "" {
		v["absolute_codec_string"], v["rtp_timer_name"] = codec, "soft"
	}
	endpoint := "sofia/" + c.cfg.MediaProfile + "/" + sessionID + "@" + mediaAddr
	if err := checkEndpoint(endpoint); err != nil {
		return "", err
	}
	block, err := v.forDial().block()
	if err != nil {
		return "", err
	}
	return block + endpoint, nil
}

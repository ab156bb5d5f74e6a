package call

import (
	"maps"
	"time"

	"github.com/ringmaster/ringmaster/switchctl/admission"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// reattachExtension calls us again, and parks; varAfterBridge says where a channel goes when its bridge ends.
const (
	reattachExtension = "rm_reattach"
	varAfterBridge    = "transfer_after_bridge"
)

// callerVariables are on every caller leg of ours: they find the call again.
func (c *host) callerVariables(a *core) fs.Variables {
	v := fs.Variables{
		"rm_call_id":   a.id.String(),
		"rm_tenant_id": a.tenant.String(),
		"rm_node":      c.cfg.NodeID,
		"rm_role":      roleCaller,
		// The call outlives the media leg, and us: it goes to an extension that calls us again and parks.
		varAfterBridge: fs.AfterBridge(reattachExtension, c.cfg.Context),
		// A media leg that is refused leaves the caller to us.
		"continue_on_fail": "true",
	}.With(fs.WhileBridged()...)
	if a.call.CampaignID != nil {
		v["rm_campaign_id"] = a.call.CampaignID.String()
	}
	if a.call.LeadID != nil {
		v["rm_lead_id"] = a.call.LeadID.String()
	}
	return v
}

// outboundVariables are those of a leg towards a carrier.
func outboundVariables(v fs.Variables, channel, from string, ring time.Duration, route admission.Route) fs.Variables {
	maps.Copy(v, route.Vars)
	v["origination_uuid"] = channel
	v["ignore_early_media"] = "true"
	v["originate_timeout"] = fs.RingSeconds(ring)
	v["sip_copy_custom_headers"] = "false"
	v[varNoHeaders] = "."
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
func (c *host) mediaBridge(callID, sessionID, leg, mediaAddr, carrier, codec string) (string, error) {
	return fs.DialString(c.mediaVariables(callID, sessionID, leg, carrier, codec), c.mediaEndpoint(sessionID, mediaAddr))
}

// mediaEndpoint is where an AI session is dialed.
func (c *host) mediaEndpoint(sessionID, mediaAddr string) string {
	return "sofia/" + c.cfg.MediaProfile + "/" + sessionID + "@" + mediaAddr
}

func (c *host) mediaVariables(callID, sessionID, leg, carrier, codec string) fs.Variables {
	v := fs.Variables{
		"origination_uuid": leg,
		// A media leg that dies with us is noticed by the switch itself.
		"media_timeout": fs.Millis(legTimeout),
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
	return v
}

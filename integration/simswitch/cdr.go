package simswitch

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// object writes a JSON object in the order in which FreeSWITCH writes it.
type object struct {
	b bytes.Buffer
	n int
}

func (o *object) raw(name string, value []byte) {
	if o.n++; o.n > 1 {
		o.b.WriteByte(',')
	}
	o.b.Write(jsonString(name))
	o.b.WriteByte(':')
	o.b.Write(value)
}

func (o *object) str(name, value string) { o.raw(name, jsonString(value)) }

func (o *object) strs(members []header) {
	for _, m := range members {
		o.str(m.name, m.value)
	}
}

func (o *object) bytes() []byte { return append(append([]byte{'{'}, o.b.Bytes()...), '}') }

// array joins JSON values.
func array(items [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(items, []byte{','})...), ']')
}

// writeCDR writes the leg's call record as mod_json_cdr does: in place, with URL-encoded variables. A failure loses the record,
// not the call.
func (ch *ending) writeCDR() {
	dir := ch.sw.cfg.CDRDir
	if dir == "" {
		return
	}
	ch.mu.Lock()
	record := ch.cdr()
	ch.mu.Unlock()
	if err := os.WriteFile(filepath.Join(dir, ch.uuid+".cdr.json"), append(record, '\n'), 0o644); err != nil {
		ch.sw.log.Error("call record not written", "channel", ch.uuid, "error", err)
	}
}

// cdr is the record (switch_ivr_generate_json_cdr). The caller holds mu.
func (ch *ending) cdr() []byte {
	var o, data object
	o.str("core-uuid", ch.sw.coreUUID)
	o.str("switchname", ch.sw.hostname)
	data.str("state", ch.running.String())
	data.str("direction", ch.direction())
	data.str("state_number", strconv.Itoa(int(ch.state)))
	data.str("flags", "0=1")
	data.str("caps", "1=1")
	o.raw("channel_data", data.bytes())
	o.raw("callStats", ch.callStats())
	var vars object
	for _, v := range ch.vars.list {
		vars.str(v.name, urlEncode(v.value))
	}
	o.raw("variables", vars.bytes())
	if len(ch.app.appLog) > 0 {
		var log object
		var apps [][]byte
		for _, a := range ch.app.appLog {
			var app object
			app.str("app_name", a.app)
			app.str("app_data", a.data)
			app.str("app_stamp", micros(a.at))
			apps = append(apps, app.bytes())
		}
		log.raw("applications", array(apps))
		o.raw("app_log", log.bytes())
	}
	flows := [][]byte{profileRecord(ch.profile)}
	for _, p := range ch.way.history {
		flows = append(flows, profileRecord(p))
	}
	o.raw("callflow", array(flows))
	return o.bytes()
}

func (ch *ending) callStats() []byte {
	var stats, audio object
	if ch.media == nil {
		return stats.bytes()
	}
	direction := func(name string, c *counters) {
		var o object
		for _, n := range c.counts() {
			o.raw(n.name, []byte(n.value))
		}
		audio.raw(name, o.bytes())
	}
	direction("inbound", &ch.media.rx)
	direction("outbound", &ch.media.tx)
	stats.raw("audio", audio.bytes())
	return stats.bytes()
}

// profileRecord is one entry of callflow.
func profileRecord(p *callerProfile) []byte {
	var o object
	if p.dialplan != "" {
		o.str("dialplan", p.dialplan)
	}
	o.str("profile_index", strconv.Itoa(p.index))
	if e := p.extension; e != nil {
		o.raw("extension", extensionRecord(e))
	}
	cp := callerRecord(p)
	for _, side := range []struct {
		name string
		list []*callerProfile
	}{{"originator", p.originator}, {"originatee", p.originatee}} {
		if len(side.list) == 0 {
			continue
		}
		var list [][]byte
		for _, other := range side.list {
			c := callerRecord(other)
			list = append(list, c.bytes())
		}
		var wrapped object
		wrapped.raw(side.name+"_caller_profiles", array(list))
		cp.raw(side.name, wrapped.bytes())
	}
	o.raw("caller_profile", cp.bytes())
	var t object
	t.strs([]header{
		{"created_time", micros(p.times.created)},
		{"profile_created_time", micros(p.times.profileCreated)},
		{"progress_time", micros(p.times.progress)},
		{"progress_media_time", micros(p.times.progressMedia)},
		{"answered_time", micros(p.times.answered)},
		{"bridged_time", micros(p.times.bridged)},
		{"last_hold_time", micros(p.times.lastHold)},
		{"hold_accum_time", strconv.FormatInt(p.times.holdAccum.Microseconds(), 10)},
		{"hangup_time", micros(p.times.hungup)},
		{"resurrect_time", "0"},
		{"transfer_time", micros(p.times.transferred)},
	})
	o.raw("times", t.bytes())
	return o.bytes()
}

func extensionRecord(e *extensionRun) []byte {
	var o object
	o.str("name", e.name)
	o.str("number", e.number)
	var apps [][]byte
	current := ""
	for i, a := range e.actions {
		var app object
		if i == e.current {
			app.str("last_executed", "true")
			current = a.app
		}
		app.str("app_name", a.app)
		app.str("app_data", a.data)
		apps = append(apps, app.bytes())
	}
	o.raw("applications", array(apps))
	if current != "" {
		o.str("current_app", current)
	}
	return o.bytes()
}

func callerRecord(p *callerProfile) *object {
	var o object
	o.strs([]header{
		{"username", ""},
		{"dialplan", p.dialplan},
		{"caller_id_name", p.cidName},
		{"ani", p.ani},
		{"aniii", ""},
		{"caller_id_number", p.cidNumber},
		{"network_addr", p.networkAddr},
		{"rdnis", p.rdnis},
		{"destination_number", p.destination},
		{"uuid", p.uuid},
		{"source", p.source},
		{"context", p.context},
		{"chan_name", p.chanName},
	})
	return &o
}

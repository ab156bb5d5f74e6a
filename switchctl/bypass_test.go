package switchctl

import (
	"net/netip"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media"
)

// jobName is how the command of a job begins, which is told from "uuid_media off".
func (b *bench) jobName(name string) string {
	switch name {
	case "uuid_media_off":
		return "uuid_media off"
	case "uuid_media":
		return "uuid_media " + b.call.FsUuid
	}
	return name
}

// bypassInput is a line of a flow about the way of a call's audio.
func (b *bench) bypassInput(f []string) {
	switch f[0] {
	case "bypass": // the trunk's calls are taken past the switch
		id := uuid.MustParse("01930000-0000-7000-8000-0000000000aa")
		b.gate.mu.Lock()
		b.gate.trunk = &id
		b.gate.mu.Unlock()
	case "reinvites": // are accepted, refused with a status, or not answered
		b.link.mu.Lock()
		b.link.reinvite = map[bool]string{true: "", false: f[1]}[f[1] == "accepted"]
		b.link.mu.Unlock()
	case "mediabridged":
		b.c.dispatch(b.event(evBridge, map[string]string{"Bridge-A-Unique-ID": b.call.FsUuid, "Bridge-B-Unique-ID": b.sock.leg()}))
	case "moved":
		gap, err := time.ParseDuration(f[2])
		require.NoError(b.t, err)
		b.media.session().send(media.LegMoved{Remote: netip.MustParseAddrPort(f[1]), Gap: gap})
	case "silent":
		b.media.session().send(media.LegSilent{For: 10 * time.Second})
	default:
		b.t.Fatalf("flow has an unknown input: %q", f)
	}
}

package switchctl

import "context"

// recordHuman has the switch record a call that goes to a person: in mono, from now on. It survives us, and its file is whole
// when the call's end is seen, since RECORD_STOP comes before CHANNEL_HANGUP_COMPLETE. A call that a voice agent had goes on in
// stereo, in a second part. The switch takes a file that it records already for what was wanted.
func (a *actor) recordHuman(ctx context.Context) {
	if a.answerAt == nil || a.rec.second != "" || a.rec.failed {
		return
	}
	at := a.c.clock.Now()
	if a.ai != nil && (a.ai.media != nil || a.ai.resumed) {
		a.recordRest(ctx, at)
		return
	}
	path := a.c.recordPath(a.id)
	a.rec.second = path
	call, offset := a.call, max(0, at.Sub(*a.answerAt))
	a.record(ctx, "recording", func(ctx context.Context) error {
		return a.c.ledger.BeginRecording(ctx, call, path, offset)
	}, nil)
	a.command(ctx, jobRecord, "uuid_record "+a.channel+" start "+path)
}

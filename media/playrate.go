package media

import (
	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/record"
)

// Playout runs at the leg's rate: the AI's audio is brought there once, when it comes, and a frame goes out as it lies in
// the queue. Until a leg's rate is known the queue holds the AI's own. When a leg comes, or a re-INVITE changes its rate,
// what is queued stays as it is and is converted on its way out (toCaller.wire) until it is little enough to be converted in
// place, and until that can be done without a seam.

// maxSettle is how much of a queue is converted in place, in seconds.
const maxSettle = 1

// setPlayRate leads playout to a leg's rate.
func (tx *toCaller) setPlayRate(rate int) (err error) {
	tx.wire, tx.rec.thin = nil, nil
	if rate != dsp.SampleRate && tx.rec.rec != nil {
		if tx.rec.thin, err = dsp.NewResampler(rate, dsp.SampleRate); err != nil {
			return err
		}
	}
	switch tx.queue.Rate {
	case rate:
		return nil
	case tx.down.rate:
		tx.wire, err = tx.down.filter(rate)
	default:
		tx.wire, err = dsp.NewResampler(tx.queue.Rate, rate)
	}
	if err == nil {
		tx.settle()
	}
	return err
}

// settle changes the queue to the leg's rate as soon as nobody hears it.
func (tx *toCaller) settle() {
	q := &tx.queue
	if q.Backlog() > maxSettle*q.Rate || tx.ai.sock != nil && tx.ai.sock.paused { // a frame is being decoded for the old rate
		return
	}
	if q.Rate == tx.down.rate && !tx.texted {
		// The filter on the way out is the one that the AI's audio will need: it goes on, and there is no seam.
		q.Recast(tx.rx.caller.Rate, tx.wire)
		tx.down.res, tx.wire = tx.wire, nil
		return
	}
	if !q.EndsSilent() {
		return
	}
	next, err := tx.down.filter(tx.rx.caller.Rate)
	if err != nil {
		tx.log.Error("changing the playout rate failed", "error", err, "rate_hz", tx.rx.caller.Rate)
		return
	}
	q.PushLoud(tx.down.res.Flush(nil))
	if tx.ai.sock != nil {
		q.PushLoud(tx.ai.sock.dec.Flush())
	}
	q.Recast(tx.rx.caller.Rate, tx.wire)
	q.PushLoud(tx.wire.Flush(nil))
	tx.down.res, tx.wire = next, nil
}

// record lays a frame of the leg's rate on the recording, or leaves its place silent.
func (rg *recording) record(frame []int16, heard bool) {
	switch {
	case rg.rec == nil:
	case !heard:
		if rg.thin != nil {
			rg.thin.Reset()
		}
	case rg.thin != nil:
		rg.narrow = rg.thin.Process(rg.narrow[:0], frame)
		rg.rec.Put(record.Right, rg.playPos, rg.narrow)
	default:
		rg.rec.Put(record.Right, rg.playPos, frame)
	}
}

// playText queues the audio of a text frame, at the queue's rate also when that has changed while the frame was decoded.
func (a *aiSocket) playText(f textFrame) {
	pcm := f.pcm
	if f.rate != a.tx.queue.Rate {
		var err error
		if pcm, err = wholeAudio(pcm, f.rate, a.tx.queue.Rate); err != nil {
			a.badFrame(f.typ, err)
			return
		}
	}
	a.tx.texted = true
	a.lose(f.cut)
	a.enqueue(pcm, true)
}

package media

import (
	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/twilio"
	"github.com/ringmaster/ringmaster/media/wav"
)

// twilioText is Text for Twilio Media Streams. Audio of the usual length is decoded here and allocates nothing; a long frame is decoded off the
// shard's thread.
func (a *aiSocket) twilioText(d *twilioDialect, msg []byte) bool {
	s := a.sock
	s.dec.to, s.dec.room = a.tx.queue.Rate, max(1, a.tx.queue.Room())
	s.spend(unitsPerText - 1 + len(msg)/textPerUnit)
	if len(msg) > inlineText {
		sid := d.stream.StreamSID
		a.decodeApart(s, msg, func(t *textDecoder, msg []byte) (textFrame, error) { return t.readTwilio(msg, sid) })
		return false
	}
	f, err := twilio.Read(msg, d.stream.StreamSID)
	if err != nil || string(f.Event) != twilio.EventMedia {
		a.takeText(twilioFrame(f), err, len(msg))
		return a.sock == s
	}
	if a.sh.raw, err = twilio.Audio(a.sh.raw, f.Payload); err != nil {
		a.takeText(twilioFrame(f), err, len(msg))
		return a.sock == s
	}
	a.takeAudio(a.sh.raw)
	if a.sock == s {
		a.endAudio(len(a.sh.raw))
	}
	return a.sock == s
}

// twilioFrame is what a frame without audio asks for, in our own terms.
func twilioFrame(f twilio.Frame) textFrame {
	switch string(f.Event) {
	case twilio.EventMedia:
		return textFrame{typ: textPlayAudio}
	case twilio.EventMark:
		return textFrame{typ: textMark, mark: string(f.Name)}
	case twilio.EventClear:
		return textFrame{typ: textKillAudio}
	}
	return textFrame{typ: string(f.Event)}
}

// twilioName is what Twilio Media Streams call a kind of ours.
func twilioName(typ string) string {
	switch typ {
	case textPlayAudio:
		return twilio.EventMedia
	case textKillAudio:
		return twilio.EventClear
	}
	return typ
}

// readTwilio reads a long frame of Twilio Media Streams. It keeps no reference to msg.
func (t *textDecoder) readTwilio(msg []byte, streamSID string) (textFrame, error) {
	f, err := twilio.Read(msg, streamSID)
	out := twilioFrame(f)
	if err != nil || string(f.Event) != twilio.EventMedia {
		return out, err
	}
	ulaw, err := twilio.Audio(nil, f.Payload)
	if err != nil {
		return out, err
	}
	out.rate = t.to
	if t.to == dsp.SampleRate {
		n := min(len(ulaw), t.room)
		out.pcm, out.cut = make([]int16, n), len(ulaw)-n
		dsp.DecodeULaw(out.pcm, ulaw[:n])
		keepNegativeZeros(out.pcm, ulaw[:n])
		return out, nil
	}
	res, err := t.filter(dsp.SampleRate, true)
	if err != nil {
		return out, err
	}
	out.pcm, out.cut = t.convert(wav.Info{Format: wav.FormatULaw, Bits: 8, Channels: 1, Rate: dsp.SampleRate}, ulaw, res)
	return out, nil
}

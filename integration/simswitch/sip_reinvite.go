package simswitch

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/emiago/sipgo/sip"
)

// answerOffer answers a re-INVITE (or an UPDATE with an offer): new address, hold, or no offer at all.
func (l *sipLeg) answerOffer(req *sip.Request, tx sip.ServerTransaction) {
	l.mu.Lock()
	phase, glare := l.phase, l.inviting
	l.mu.Unlock()
	switch {
	case phase != phaseConfirmed:
		l.prof.reply(req, tx, 481)
		return
	case glare:
		l.prof.reply(req, tx, 491)
		return
	}
	body, dir, ok := l.reanswer(req.Body())
	if !ok {
		l.prof.reply(req, tx, 488)
		return
	}
	l.mu.Lock()
	l.learn(req.Contact(), "", nil, false)
	l.mu.Unlock()
	res := sip.NewResponseFromRequest(req, 200, "OK", body)
	res.AppendHeader(l.prof.contact(l.transport))
	res.AppendHeader(sip.NewHeader("User-Agent", userAgent))
	res.AppendHeader(sip.NewHeader("Content-Type", "application/sdp"))
	if err := tx.Respond(res); err != nil {
		l.prof.sw.log.Debug("SIP response not sent", "channel", l.ch.uuid, "error", err)
		return
	}
	if req.Method == sip.INVITE && l.transport == "udp" {
		l.repeatUntilAck(req.CSeq().SeqNo, res, tx)
	}
	l.farHold(dir)
}

// reanswer makes the session description for a re-INVITE, and tells the direction that the far end wants.
func (l *sipLeg) reanswer(offer []byte) ([]byte, direction, bool) {
	port := l.ch.media.port()
	l.mu.Lock()
	l.version++
	version, codecs, te := l.version, l.codecs, l.telEvent
	l.mu.Unlock()
	if len(offer) == 0 {
		return localSDP(l.prof.sw.cfg.RTPIP, port, version, codecs, te, sendRecv), sendRecv, true
	}
	r, err := parseSDP(offer)
	if err != nil {
		return nil, "", false
	}
	c, ok := r.choose(codecs)
	if !ok {
		return nil, "", false
	}
	l.mu.Lock()
	l.offer = &r
	l.mu.Unlock()
	l.startMedia(r, c)
	return localSDP(l.prof.sw.cfg.RTPIP, port, version, []codec{c}, r.telEvent, r.direction.answer()), r.direction, true
}

// repeatUntilAck keeps the handler, and so the transaction, until the ACK is there.
func (l *sipLeg) repeatUntilAck(cseq uint32, res *sip.Response, tx sip.ServerTransaction) {
	l.prof.sw.goFunc(func() {
		wait := sip.T1
		for range 7 {
			select {
			case <-l.prof.sw.stop:
				return
			case <-l.ch.gone:
				return
			case <-time.After(wait):
			}
			l.mu.Lock()
			done := l.ackedCSeq >= cseq
			l.mu.Unlock()
			if done || tx.Respond(res) != nil {
				return
			}
			wait = min(2*wait, sip.T2)
		}
	})
}

// farHold tells that the far end put the call on hold or took it back.
func (l *sipLeg) farHold(dir direction) {
	hold := dir == sendOnly || dir == inactive
	l.ch.markHold(hold)
}

// markHold keeps the books of hold and tells its events.
func (ch *channel) markHold(hold bool) {
	now := time.Now()
	ch.mu.Lock()
	if ch.held == hold {
		ch.mu.Unlock()
		return
	}
	if hold {
		ch.held, ch.holdSince = true, now
		ch.profile.times.lastHold = now
	} else {
		ch.vars.push("hold_events", "{"+micros(ch.holdSince)+","+micros(now)+"}")
		ch.end.endHoldLocked()
	}
	ch.mu.Unlock()
	if hold {
		ch.events.setCallState("HELD")
		ch.events.emit("CHANNEL_HOLD")
		return
	}
	ch.events.setCallState("UNHELD")
	ch.events.emit("CHANNEL_UNHOLD")
	ch.events.setCallState("ACTIVE")
}

// reinvite changes the direction of the media towards the far end: hold and resume.
func (l *sipLeg) reinvite(dir direction) {
	l.mu.Lock()
	if l.phase != phaseConfirmed || l.inviting {
		l.mu.Unlock()
		return
	}
	l.inviting = true
	l.mu.Unlock()
	l.prof.sw.goFunc(func() {
		defer func() {
			l.mu.Lock()
			l.inviting = false
			l.mu.Unlock()
		}()
		for range 3 {
			if l.offerOnce(dir) {
				return
			}
			select {
			case <-time.After(time.Duration(20+rand.IntN(200)) * time.Millisecond):
			case <-l.ch.gone:
				return
			}
		}
	})
}

// offerOnce sends one re-INVITE. False asks for another try (491).
func (l *sipLeg) offerOnce(dir direction) bool {
	l.mu.Lock()
	if l.phase != phaseConfirmed {
		l.mu.Unlock()
		return true
	}
	l.version++
	req := l.request(sip.INVITE)
	cseq := req.CSeq().SeqNo
	codecs, version := []codec{l.ch.media.codec()}, l.version
	l.mu.Unlock()
	req.AppendHeader(sip.NewHeader("Content-Type", "application/sdp"))
	req.SetBody(localSDP(l.prof.sw.cfg.RTPIP, l.ch.media.port(), version, codecs, l.telEvent, dir))
	l.ch.set("sip_cseq", strconv.Itoa(int(cseq)))
	res, err := l.do(req)
	switch {
	case err != nil:
		l.ch.hangup(causeTimerExpire)
	case res.IsSuccess():
		l.ack(cseq)
		if len(res.Body()) > 0 {
			if err := l.takeAnswer(res.Body()); err != nil {
				l.prof.sw.log.Warn("re-INVITE answered without audio of ours", "channel", l.ch.uuid, "error", err)
			}
		}
	case res.StatusCode == 491:
		return false
	case res.StatusCode == 481 || res.StatusCode == 408:
		l.ch.hangup(causeTemporaryFailure)
	}
	return true
}

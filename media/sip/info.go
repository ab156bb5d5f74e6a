package sip

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/emiago/sipgo"
	"github.com/emiago/sipgo/sip"

	"github.com/ringmaster/ringmaster/media/dtmf"
)

const (
	// infoTimeout bounds an INFO of ours.
	infoTimeout = 2 * time.Second
	// infoPause lies between two digits that are sent by INFO.
	infoPause = 80 * time.Millisecond
)

// ErrEnded means that a leg is over.
var ErrEnded = errors.New("the SIP leg has ended")

// onInfo takes a digit that came by SIP INFO; other INFOs are only answered.
func (e *Endpoint) onInfo(req *sip.Request, tx sip.ServerTransaction) {
	l := e.find(req)
	if l == nil {
		e.reject(req, tx, sip.StatusCallTransactionDoesNotExists, "Call/Transaction Does Not Exist")
		return
	}
	e.respond(tx, sip.NewResponseFromRequest(req, sip.StatusOK, "OK", nil))
	ct := req.ContentType()
	if ct == nil {
		return
	}
	if digit, dur, ok := dtmf.ParseInfo(ct.Value(), string(req.Body())); ok {
		l.to.Owner.Digit(digit[0], dur)
	}
}

// SendKeys sends digits by SIP INFO, one after the other, beside the caller.
func (l *Leg) SendKeys(keys []dtmf.Key) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return ErrEnded
	}
	if len(l.keys)+len(keys) > dtmf.MaxQueue {
		return dtmf.ErrQueueFull
	}
	l.keys = append(l.keys, keys...)
	if !l.keying {
		l.keying = true
		l.ep.cfg.Spawn(l.pressKeys)
	}
	return nil
}

// nextKey takes the next digit off the queue.
func (l *Leg) nextKey() (dtmf.Key, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || len(l.keys) == 0 {
		l.keying, l.keys = false, nil
		return dtmf.Key{}, false
	}
	k := l.keys[0]
	l.keys = l.keys[1:]
	return k, true
}

func (l *Leg) pressKeys() {
	for {
		k, ok := l.nextKey()
		if !ok {
			return
		}
		dur := k.Duration()
		if !k.Pause() {
			if err := l.info(k); err != nil {
				l.to.Log.Warn("sending a digit by INFO failed", "error", err)
			}
			l.ep.cfg.Digits.WithLabelValues("sent_info").Inc()
			dur += infoPause
		}
		t := time.NewTimer(dur)
		select {
		case <-t.C:
		case <-l.ep.cfg.Done:
			t.Stop()
			return
		}
	}
}

// info sends one digit.
func (l *Leg) info(k dtmf.Key) error {
	ctx, cancel := context.WithTimeout(context.Background(), infoTimeout)
	defer cancel()
	req := l.request(sip.INFO)
	ct := sip.ContentTypeHeader(dtmf.InfoType)
	req.AppendHeader(&ct)
	req.SetBody(dtmf.InfoBody(k))
	res, err := l.ep.client.Do(ctx, req, sipgo.ClientRequestAddVia)
	if err != nil {
		return err
	}
	if res.StatusCode >= 300 {
		return fmt.Errorf("INFO was answered with %d", res.StatusCode)
	}
	return nil
}

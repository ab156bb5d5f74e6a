package freeswitch

import (
	"context"
	"errors"
	"net"
	"strconv"
)

// FreeSWITCH binds its RTP ports with SO_REUSEADDR, and at random ones: of two switches that share a range one gets, now and then, what a leg of the
// other's is sent, and neither hears of it. So each switch has a range of its own, whichever process has started it.
const (
	rtpFirst  = 20000
	rtpPorts  = 1000 // for 500 legs
	rtpRanges = 12   // which ends below the ports that the system gives to outgoing connections
)

// rtpRange is a switch's until it is let go; a listener on the first of its ports is the lock.
type rtpRange struct {
	lock  net.Listener
	start int
}

func (r rtpRange) end() int { return r.start + rtpPorts - 2 }

func (r rtpRange) letGo() {
	if r.lock != nil {
		_ = r.lock.Close()
	}
}

// takeRTPRange finds a range that no other switch has.
func takeRTPRange(ctx context.Context) (rtpRange, error) {
	for i := range rtpRanges {
		if r, err := lockRTPRange(ctx, rtpFirst+i*rtpPorts); err == nil {
			return r, nil
		}
	}
	return rtpRange{}, errors.New("find a range of RTP ports: as many switches run as there are ranges")
}

func lockRTPRange(ctx context.Context, start int) (rtpRange, error) {
	var lc net.ListenConfig
	lock, err := lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(start)))
	return rtpRange{lock: lock, start: start}, err
}

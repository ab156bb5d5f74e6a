package access

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// The outcomes of a verification.
const (
	outcomeGood        = "good"
	outcomeInvalid     = "invalid"
	outcomeExpired     = "expired"
	outcomeRevoked     = "revoked"
	outcomeUnavailable = "unavailable"
)

type metrics struct {
	minted   prometheus.Counter
	verified *prometheus.CounterVec
}

func newMetrics(t *Tokens, reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		minted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ringmaster_oauth_access_tokens_issued_total", Help: "OAuth access tokens issued.",
		}),
		verified: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ringmaster_oauth_access_tokens_verified_total",
			Help: "OAuth access tokens verified, by outcome: good, invalid, expired, revoked, unavailable (it was not known what is revoked).",
		}, []string{"outcome"}),
	}
	for _, outcome := range []string{outcomeGood, outcomeInvalid, outcomeExpired, outcomeRevoked, outcomeUnavailable} {
		m.verified.WithLabelValues(outcome)
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.minted, m.verified,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ringmaster_oauth_revocations", Help: "Revoked OAuth access tokens and families of tokens that are kept in memory until they have expired.",
		}, func() float64 { return float64(t.revoked.count()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ringmaster_oauth_revocations_watched", Help: "1 while the database tells of revoked OAuth tokens; 0 while none is accepted, but for the first second.",
		}, func() float64 {
			if t.revoked.current() {
				return 1
			}
			return 0
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ringmaster_oauth_signing_key_age_seconds", Help: "How long the present signing key of OAuth's tokens has signed; it is replaced after 30 days.",
		}, func() float64 {
			if set := t.keys.Load(); set != nil {
				if k, err := set.signing(t.now()); err == nil {
					return t.now().Sub(k.signsAt).Seconds()
				}
			}
			return 0
		}),
	} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register the metrics of access tokens: %w", err)
		}
	}
	return m, nil
}

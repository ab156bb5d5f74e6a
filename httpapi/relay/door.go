package relay

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"sync"
	"time"

	"github.com/ringmaster/ringmaster/media/netguard"
)

const (
	// keyCheck bounds the look at who knocks, and looks how many there are at a time: strangers are not to keep the database busy.
	keyCheck = 3 * time.Second
	looks    = 2
	// What was found is remembered so long. Of strangers so many are: their certificates cost them nothing.
	knownFor     = 5 * time.Second
	strangerFor  = 2 * time.Second
	maxStrangers = 1024
)

// errStranger ends the connection of somebody who is no controller of the database's.
var errStranger = errors.New("relay: the certificate is no controller's")

// newCertificate makes one for this process alone. Nobody checks its names or dates: it is known by its hash.
func newCertificate(node string, now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make the key for other controllers: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: node},
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.AddDate(10, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make the certificate for other controllers: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// Key is what other controllers know this one by: the SHA-256 of its certificate.
func (r *Relay) Key() []byte { return keyOf(r.certificate.Certificate[0]) }

func keyOf(certificate []byte) []byte {
	sum := sha256.Sum256(certificate)
	return sum[:]
}

// Door is how the listener for other controllers speaks TLS: with them alone. ctx bounds its use of the database.
func (r *Relay) Door(ctx context.Context) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{r.certificate},
		ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: true,
		VerifyConnection: func(cs tls.ConnectionState) error {
			err := r.admit(ctx, cs)
			if err != nil {
				r.metrics.strangers.Inc()
				if n := r.callers.refused.Count(r.now()); n > 0 {
					r.log.WarnContext(ctx, "connection to hosts.listen refused", "error", err, "refused", n)
				}
			}
			return err
		},
	}
}

// admit refuses who has no controller's certificate.
func (r *Relay) admit(ctx context.Context, cs tls.ConnectionState) error {
	if len(cs.PeerCertificates) == 0 {
		return errStranger
	}
	key := sha256.Sum256(cs.PeerCertificates[0].Raw)
	known, remembered := r.callers.recall(key, r.now())
	if !remembered {
		var err error
		if known, err = r.look(ctx, key); err != nil {
			return fmt.Errorf("look for the controller that has the certificate: %w", err)
		}
	}
	if !known {
		return errStranger
	}
	return nil
}

// look asks the database who has a key.
func (r *Relay) look(ctx context.Context, key [sha256.Size]byte) (known bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, keyCheck)
	defer cancel()
	select {
	case r.callers.looks <- struct{}{}:
		defer func() { <-r.callers.looks }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if known, err = r.st.ReadSystem().NodeIsPeer(ctx, key[:]); err == nil {
		r.callers.remember(key, known, r.now())
	}
	return known, err
}

// callers remembers who has knocked. It is safe for concurrent use.
type callers struct {
	looks   chan struct{} // has an element for each look at the database
	refused netguard.Refusals

	mu               sync.Mutex                      // guards what follows
	known, strangers map[[sha256.Size]byte]time.Time // until when that is remembered
}

func newCallers() *callers {
	return &callers{looks: make(chan struct{}, looks), known: map[[sha256.Size]byte]time.Time{}, strangers: map[[sha256.Size]byte]time.Time{}}
}

func (c *callers) recall(key [sha256.Size]byte, now time.Time) (known, remembered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Before(c.known[key]) {
		return true, true
	}
	return false, now.Before(c.strangers[key])
}

func (c *callers) remember(key [sha256.Size]byte, known bool, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.known, func(_ [sha256.Size]byte, until time.Time) bool { return !now.Before(until) })
	if known {
		c.known[key] = now.Add(knownFor)
		return
	}
	if len(c.strangers) >= maxStrangers {
		clear(c.strangers)
	}
	c.strangers[key] = now.Add(strangerFor)
}

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
	"math/big"
	"time"

	"github.com/ringmaster/ringmaster/store"
)

// keyCheck bounds the look at who knocks.
const keyCheck = 3 * time.Second

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
				r.log.WarnContext(ctx, "connection to the door for other controllers refused", "error", err)
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
	ctx, cancel := context.WithTimeout(ctx, keyCheck)
	defer cancel()
	known := false
	err := r.st.InSystem(ctx, func(tx *store.Tx) error {
		var err error
		known, err = tx.Q.NodeIsPeer(ctx, keyOf(cs.PeerCertificates[0].Raw))
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("look for the controller that has the certificate: %w", err)
	case !known:
		return errStranger
	}
	return nil
}

package httpapi

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificateCheck is how often the TLS certificate's files are looked at for a renewal.
const certificateCheck = time.Minute

// certificateFiles is a TLS certificate that is read anew when its files change, as they do at each renewal.
type certificateFiles struct {
	certFile, keyFile string
	log               *slog.Logger

	mu      sync.RWMutex // guards all below
	cert    *tls.Certificate
	changed [2]time.Time
}

func loadCertificate(certFile, keyFile string, log *slog.Logger) (*certificateFiles, error) {
	c := &certificateFiles{certFile: certFile, keyFile: keyFile, log: log}
	if err := c.reload(); err != nil {
		return nil, err
	}
	return c, nil
}

// get is tls.Config.GetCertificate.
func (c *certificateFiles) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.cert, nil
}

// reload reads the files when they have changed. Files that don't fit together, as in the middle of a renewal, leave the old one.
func (c *certificateFiles) reload() error {
	var changed [2]time.Time
	for i, name := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(name)
		if err != nil {
			return fmt.Errorf("load the TLS certificate: %w", err)
		}
		changed[i] = info.ModTime()
	}
	c.mu.RLock()
	same := c.cert != nil && changed == c.changed
	c.mu.RUnlock()
	if same {
		return nil
	}
	cert, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("load the TLS certificate: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cert, c.changed = &cert, changed
	return nil
}

// run looks at the files until ctx ends.
func (c *certificateFiles) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := c.reload(); err != nil {
				c.log.ErrorContext(ctx, "reading the renewed TLS certificate failed, the old one is served", "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

package prompt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	schemeLocal  = "prompt"
	maxRedirects = 5
	idleConns    = 16
	// maxHeader bounds an answer's header; a part of it is kept with the audio.
	maxHeader = 16 << 10
)

// stamp tells one version of a source from the next.
type stamp struct {
	etag, modified string
}

// errUnchanged: the source is what it was.
var errUnchanged = errors.New("unchanged")

// newClient dials public addresses only, by the address that a name really resolved to.
func newClient(cfg Config) *http.Client {
	dialer := net.Dialer{Timeout: cfg.Timeout, Control: cfg.Guard.Control}
	return &http.Client{
		Timeout: cfg.Timeout,
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: cfg.Timeout, ResponseHeaderTimeout: cfg.Timeout,
			MaxIdleConns: idleConns, IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: maxHeader, ForceAttemptHTTP2: true,
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return fmt.Errorf("more than %d redirects: %w", maxRedirects, ErrAddress)
			}
			return checkScheme(req.URL)
		},
	}
}

func checkScheme(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("scheme %q: %w", u.Scheme, ErrAddress)
	}
	return nil
}

// read gets a source, unless it is as known says.
func (c *Cache) read(ctx context.Context, address string, known stamp) ([]byte, stamp, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, stamp{}, &FetchError{Step: "address", Err: ErrAddress}
	}
	if u.Scheme == schemeLocal {
		return c.readLocal(u, known)
	}
	if err := checkScheme(u); err != nil {
		return nil, stamp{}, &FetchError{Step: "address", Err: err}
	}
	body, now, err := c.readHTTP(ctx, u, known)
	if err != nil && !errors.Is(err, errUnchanged) {
		return nil, now, &FetchError{Step: "fetch", Err: withoutURL(err)}
	}
	return body, now, err
}

func (c *Cache) readHTTP(ctx context.Context, u *url.URL, known stamp) ([]byte, stamp, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, stamp{}, err
	}
	req.Header.Set("Accept", "audio/wav, audio/x-wav, audio/mpeg")
	if known.etag != "" {
		req.Header.Set("If-None-Match", known.etag)
	} else if known.modified != "" {
		req.Header.Set("If-Modified-Since", known.modified)
	}
	res, err := c.client.Do(req)
	if err != nil {
		return nil, stamp{}, err
	}
	defer res.Body.Close() //nolint:errcheck // it was read, or is of no use
	switch {
	case res.StatusCode == http.StatusNotModified && known != stamp{}:
		return nil, known, errUnchanged
	case res.StatusCode != http.StatusOK:
		return nil, stamp{}, &StatusError{Status: res.StatusCode}
	case res.ContentLength > c.cfg.MaxSource:
		return nil, stamp{}, ErrTooLarge
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, c.cfg.MaxSource+1))
	if err != nil {
		return nil, stamp{}, err
	}
	if int64(len(body)) > c.cfg.MaxSource {
		return nil, stamp{}, ErrTooLarge
	}
	return body, stamp{etag: res.Header.Get("ETag"), modified: res.Header.Get("Last-Modified")}, nil
}

// Shown is an address as logs show it: without credentials, query and fragment, which may carry secrets.
func Shown(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Opaque: u.Opaque, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// withoutURL drops the URL that http.Client puts into its errors.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// readLocal reads one of the operator's files. The root keeps it inside of the folder, whatever its name says.
func (c *Cache) readLocal(u *url.URL, known stamp) ([]byte, stamp, error) {
	failed := func(err error) ([]byte, stamp, error) { return nil, stamp{}, &FetchError{Step: "address", Err: err} }
	name := strings.TrimLeft(u.Opaque+u.Host+u.Path, "/")
	if c.cfg.Local == "" || name == "" || !filepath.IsLocal(name) {
		return failed(ErrAddress)
	}
	root, err := os.OpenRoot(c.cfg.Local)
	if err != nil {
		return failed(err)
	}
	defer root.Close() //nolint:errcheck // nothing was written
	f, err := root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return failed(fmt.Errorf("no such local prompt: %w", ErrAddress))
	}
	if err != nil {
		return failed(err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	info, err := f.Stat()
	if err != nil {
		return failed(err)
	}
	now := stamp{modified: info.ModTime().String() + " " + strconv.FormatInt(info.Size(), 10)}
	switch {
	case !info.Mode().IsRegular():
		return failed(ErrAddress)
	case now == known:
		return nil, known, errUnchanged
	case info.Size() > c.cfg.MaxSource:
		return failed(ErrTooLarge)
	}
	body, err := io.ReadAll(io.LimitReader(f, c.cfg.MaxSource))
	if err != nil {
		return failed(err)
	}
	return body, now, nil
}

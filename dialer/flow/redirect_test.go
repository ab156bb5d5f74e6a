package flow

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/netguard"
)

// TestRedirectsKeepTheMethod where the question must not be lost: 307 and 308 are followed with the body, and what would make a GET of it is refused.
func TestRedirectsKeepTheMethod(t *testing.T) {
	t.Parallel()
	var method string
	var length int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, redirects := map[string]int{"/301": 301, "/302": 302, "/303": 303, "/307": 307, "/308": 308}[r.URL.Path]
		if redirects {
			http.Redirect(w, r, "/end?key=secret", status)
			return
		}
		method, length = r.Method, r.ContentLength
	}))
	defer server.Close()
	client := NewClient(netguard.Policy{AllowLoopback: true})
	defer client.Close()
	ask := func(path string, keep bool) error {
		method, length = "", 0
		_, err := client.Do(t.Context(), Request{Method: http.MethodPost, URL: server.URL + path, Body: []byte("{}"), Timeout: time.Minute, KeepMethod: keep})
		return err
	}
	for _, path := range []string{"/307", "/308"} {
		require.NoError(t, ask(path, true), path)
		require.Equal(t, http.MethodPost, method, path)
		require.EqualValues(t, 2, length, path)
	}
	host := server.Listener.Addr().String()
	for _, path := range []string{"/301", "/302", "/303"} {
		require.EqualError(t, ask(path, true), "the server answered "+path[1:]+", a redirect to "+host+" that turns a POST into a GET; only 307 and 308 are followed")
		require.Empty(t, method, path)
		require.NoError(t, ask(path, false), path)
		require.Equal(t, http.MethodGet, method, path)
	}
}

// TestFailuresNameNoAddress: what a customer is told of a connection that fails has no address, nor that of a resolver.
func TestFailuresNameNoAddress(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	client := NewClient(netguard.Policy{AllowLoopback: true})
	defer client.Close()
	ask := func(url string) error {
		_, err := client.Do(t.Context(), Request{Method: http.MethodPost, URL: url, Timeout: time.Minute})
		return err
	}
	err = ask("http://" + l.Addr().String())
	require.Error(t, err)
	require.Contains(t, []string{"the connection was closed without an answer", "the connection was reset"}, err.Error())
	require.NoError(t, l.Close())
	require.EqualError(t, ask("http://"+l.Addr().String()), "the connection was refused")
	require.NotContains(t, ask("http://no-such-host.invalid").Error(), ":")
	mail, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	go func() {
		if c, err := mail.Accept(); err == nil {
			_, _ = c.Read(make([]byte, 1<<10))
			_, _ = io.WriteString(c, "220 mail.internal ESMTP\r\n")
			_ = c.Close()
		}
	}()
	require.EqualError(t, ask("http://"+mail.Addr().String()), "the answer is not HTTP")
	require.NoError(t, mail.Close())
}

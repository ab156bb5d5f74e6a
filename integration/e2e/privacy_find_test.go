package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// written keeps all of what is written to it. Safe for concurrent use.
type written struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *written) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(b)
}

func (w *written) bytes() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Clone(w.buf.Bytes())
}

func (w *written) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Reset()
}

// RoundTrip keeps what is answered, and for which path.
func (w *written) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	_, err = fmt.Fprintf(w, "%s %s: %d %v\n%s\n", req.Method, req.URL.Path, res.StatusCode, res.Header, body)
	return res, err
}

// separators stand between the digits of numbers that people write.
const separators = " \t-.()/_\u00a0"

// formsOf are the texts that give a number away, whose last ten digits are given: those digits, as they are, and in hexadecimal and base64.
// E.164, SIP and tel URIs and what is URL-encoded have the ten digits in them.
func formsOf(digits string) []string {
	forms := []string{digits, hex.EncodeToString([]byte(digits))}
	for skip := range 3 { // where the digits may begin in base64's groups of three
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", skip) + digits))
		from := (skip*8 + 5) / 6 // the first character that is the digits' alone
		forms = append(forms, text[from:(skip+len(digits))*8/6])
	}
	return forms
}

// leaks names what gives a number away in a text, with what stands around it.
func leaks(where string, text []byte, numbers []string) []string {
	var found []string
	plain := bytes.Map(func(c rune) rune {
		if strings.ContainsRune(separators, c) {
			return -1
		}
		return c
	}, text)
	for _, number := range numbers {
		for _, form := range formsOf(number) {
			for _, in := range [][]byte{text, plain} {
				if at := bytes.Index(in, []byte(form)); at >= 0 {
					found = append(found, fmt.Sprintf("%s has %s: …%q…", where, number, in[max(0, at-200):min(len(in), at+100)]))
					break
				}
			}
		}
	}
	return found
}

// dump is every row of the database, as COPY writes it.
func (c *customer) dump(t *testing.T) map[string][]byte {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.DatabaseAdminURL())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	rows, err := conn.Query(t.Context(), `SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'm') AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\_%'`)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Greater(t, len(tables), 30)
	all := map[string][]byte{}
	for _, table := range tables {
		var text bytes.Buffer
		_, err := conn.PgConn().CopyTo(t.Context(), &text, "COPY (SELECT * FROM "+table+") TO STDOUT")
		require.NoError(t, err)
		all[table] = text.Bytes()
	}
	return all
}

// databaseLog is the database's own log.
func (c *customer) databaseLog(t *testing.T) []byte {
	t.Helper()
	u, err := url.Parse(c.DatabaseAdminURL())
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(filepath.Dir(u.Query().Get("host")), "postgres.log"))
	require.NoError(t, err)
	return text
}

// files are what the stack's folder has: the controller's spool, recordings, call records and prompts among it. A real switch's own folder, with
// its table of the channels that are up, is the switch's.
func (c *customer) files(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	require.NoError(t, filepath.WalkDir(c.Dir(), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone by now
		}
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(path, filepath.Join(c.Dir(), "freeswitch", "db")) {
			return err
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		all[path] = append([]byte(path+"\n"), text...)
		return err
	}))
	return all
}

func TestLeaksAreFound(t *testing.T) {
	t.Parallel()
	const number = "9876140000"
	for _, text := range []string{
		"+919876140000", "09876140000", "%2B919876140000", "sip:+919876140000@host", "98761 40000", "+91-98761-40000", "(987) 614-0000", "tel:98761.40000",
		hex.EncodeToString([]byte("+91" + number)), base64.StdEncoding.EncodeToString([]byte("+91" + number)),
		base64.URLEncoding.EncodeToString([]byte(`{"phone":"` + number + `"}`)), base64.RawStdEncoding.EncodeToString([]byte("x" + number + "y")),
	} {
		require.NotEmpty(t, leaks("it", []byte("before "+text+" after"), []string{number}), text)
	}
	require.Empty(t, leaks("it", []byte("••••0000 9876140001"), []string{number}))
}

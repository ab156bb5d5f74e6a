package receiver_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/webhook"
	"github.com/ringmaster/ringmaster/httpapi/webhook/receiver"
)

// vector is a delivery of vectors.json.
type vector struct {
	Name    string
	Valid   bool
	Now     int64
	Secret  string
	Headers map[string]string
	Body    string
}

func vectors(t *testing.T) (all []vector, raw []byte) {
	t.Helper()
	raw, err := os.ReadFile("vectors.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &all))
	require.Greater(t, len(all), 10)
	return all, raw
}

func want(all []vector) (out []bool) {
	for _, v := range all {
		out = append(out, v.Valid)
	}
	return out
}

// The vectors are what is sent: where one secret signs, our own signatures are the same.
func TestVectorsAreOurs(t *testing.T) {
	t.Parallel()
	all, _ := vectors(t)
	n := 0
	for _, v := range all {
		if !v.Valid || strings.Contains(v.Name, "replaced") {
			continue
		}
		n++
		stamp, err := strconv.ParseInt(v.Headers["webhook-timestamp"], 10, 64)
		require.NoError(t, err)
		at := time.Unix(stamp, 0)
		require.Equal(t, v.Headers["X-Service-Signature"], webhook.Sign(v.Secret, at, []byte(v.Body)), v.Name)
		require.Equal(t, v.Headers["webhook-signature"], webhook.SignStandard(v.Headers["webhook-id"], at, []byte(v.Body), v.Secret), v.Name)
	}
	require.Positive(t, n)
}

func TestGo(t *testing.T) {
	t.Parallel()
	all, _ := vectors(t)
	for _, v := range all {
		require.Equal(t, v.Valid, receiver.Verify(v.Secret, v.Headers["X-Service-Signature"], []byte(v.Body), time.Unix(v.Now, 0)), v.Name)
	}
}

// others runs a verifier in another language over the vectors.
func others(t *testing.T, program string, args ...string) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("NOT TESTED: %s is not installed, so the verifier for it was not run", program)
	}
	all, raw := vectors(t)
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stdin = bytes.NewReader(raw)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	var got []bool
	require.NoError(t, json.Unmarshal(out, &got))
	require.Equal(t, want(all), got)
}

func TestPython(t *testing.T) {
	t.Parallel()
	others(t, "python3", "-B", "-c", `import json, sys
sys.path.insert(0, ".")
from verify import verify
vs = json.load(sys.stdin)
print(json.dumps([verify(v["secret"], v["headers"]["X-Service-Signature"], v["body"].encode(), v["now"]) for v in vs]))`)
}

func TestNode(t *testing.T) {
	t.Parallel()
	others(t, "node", "--input-type=module", "-e", `import { readFileSync } from "node:fs";
import { verify } from "./verify.mjs";
const vs = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(vs.map((v) => verify(v.secret, v.headers["X-Service-Signature"], Buffer.from(v.body), v.now))));`)
}

// The Go library of Standard Webhooks accepts what we send, and refuses what was altered, replayed under a new time, or is stale.
func TestStandardLibrary(t *testing.T) {
	t.Parallel()
	all, _ := vectors(t)
	for _, v := range all {
		wh, err := standardwebhooks.NewWebhook(v.Secret)
		require.NoError(t, err, v.Name)
		header := http.Header{}
		for name, value := range v.Headers {
			header.Set(name, value)
		}
		// It goes by the clock of the machine: times are checked below.
		err = wh.VerifyIgnoringTimestamp([]byte(v.Body), header)
		timely := !strings.Contains(v.Name, "six minutes") && !strings.Contains(v.Name, "no time")
		require.Equal(t, v.Valid || !timely, err == nil, "%s: %v", v.Name, err)
	}
	secret, other, body := webhook.NewSecret(), webhook.NewSecret(), []byte(`{"a":1}`)
	wh, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	sent := func(at time.Time) http.Header {
		return webhook.Signed(secret, "evt_0197a3f25d3e7c419a393c1f0f2a7b11", "call.ended", at, body)
	}
	with := func(header http.Header, name, value string) http.Header {
		header.Set(name, value)
		return header
	}
	now, stale := time.Now(), time.Now().Add(-6*time.Minute)
	require.NoError(t, wh.Verify(body, sent(now)))
	require.NoError(t, wh.Verify(body, sent(now.Add(-4*time.Minute))))
	id, stamp := webhook.HeaderStandardID, webhook.HeaderStandardTimestamp
	for name, refused := range map[string]error{
		"altered":                     wh.Verify([]byte(`{"a":2}`), sent(now)),
		"signed with another secret":  wh.Verify(body, webhook.Signed(other, "evt_1", "call.ended", now, body)),
		"of another id":               wh.Verify(body, with(sent(now), id, "evt_0197a3f25d3e7c419a393c1f0f2a7b12")),
		"stale":                       wh.Verify(body, sent(stale)),
		"of the future":               wh.Verify(body, sent(now.Add(6*time.Minute))),
		"replayed under a new time":   wh.Verify(body, with(sent(stale), stamp, strconv.FormatInt(now.Unix(), 10))),
		"replayed with another body":  wh.Verify([]byte(`{"a":1} `), sent(now)),
		"without its signature":       wh.Verify(body, with(sent(now), webhook.HeaderStandardSignature, "")),
		"with a signature of nothing": wh.Verify(body, with(sent(now), webhook.HeaderStandardSignature, "v1,")),
	} {
		require.Error(t, refused, name)
	}
}

// The verifiers are short enough to be copied.
func TestVerifiersAreShort(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"verify.py", "verify.mjs"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		require.LessOrEqual(t, strings.Count(string(text), "\n"), 12, name)
	}
}

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/openai"
)

// agentsFiles are a voice agent that nobody here wrote: OpenAI's library for Twilio Media Streams, in the versions of the lock file, unchanged.
const agentsFiles = "testdata/twilio_agents"

// agentsRegistry is where the library comes from.
const agentsRegistry = "https://registry.npmjs.org"

// installAgents gives the folder that the library is installed in, which is kept for the next run. skip says why it can't be.
func installAgents(ctx context.Context) (dir, skip string, err error) {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return "", program + " is not installed", nil
		}
	}
	lock, err := os.ReadFile(filepath.Join(agentsFiles, "package-lock.json"))
	if err != nil {
		return "", "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", "", err
	}
	cache = filepath.Join(cache, "ringmaster-tests")
	dir = filepath.Join(cache, fmt.Sprintf("twilio-agents-%.8x", sha256.Sum256(lock)))
	if _, err := os.Stat(dir); err == nil {
		return dir, "", nil
	}
	if err := os.MkdirAll(cache, 0o750); err != nil {
		return "", "", err
	}
	work, err := os.MkdirTemp(cache, "installing-")
	if err != nil {
		return "", "", err
	}
	defer func() { _ = os.RemoveAll(work) }() // it is elsewhere by then, or of no use
	if err := os.CopyFS(work, os.DirFS(agentsFiles)); err != nil {
		return "", "", err
	}
	cmd := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline")
	cmd.Dir = work
	cmd.Env = append(os.Environ(), "npm_config_update_notifier=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		req, bad := http.NewRequestWithContext(ctx, http.MethodHead, agentsRegistry, nil)
		if bad != nil {
			return "", "", bad
		}
		client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment}}
		res, away := client.Do(req)
		if away != nil {
			return "", fmt.Sprintf("%s can't be reached: %v", agentsRegistry, away), nil
		}
		return "", "", errors.Join(fmt.Errorf("%w: %s", err, out), res.Body.Close())
	}
	if err := os.Rename(work, dir); err != nil {
		if _, there := os.Stat(dir); there != nil { // another run may have been quicker
			return "", "", err
		}
	}
	return dir, "", nil
}

// serveAgents runs the library's server, and gives its URL, and what the library has complained of so far.
func serveAgents(t *testing.T, dir, realtimeURL string) (url string, complaints func() string) {
	t.Helper()
	server, err := filepath.Abs(filepath.Join(agentsFiles, "server.mjs"))
	require.NoError(t, err)
	text, err := os.ReadFile(server)
	require.NoError(t, err)
	own := filepath.Join(dir, "server.mjs")
	installed, err := os.ReadFile(own)
	require.NoError(t, err)
	if !bytes.Equal(text, installed) {
		require.NoError(t, os.WriteFile(own, text, 0o600))
	}
	cmd := exec.CommandContext(t.Context(), "node", own)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "REALTIME_URL="+realtimeURL, "OPENAI_AGENTS_DISABLE_TRACING=1")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var said struct {
		sync.Mutex
		bytes.Buffer
	}
	faults, write := io.Pipe()
	cmd.Stderr = write
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(faults); lines.Scan(); {
			said.Lock()
			said.WriteString(lines.Text() + "\n")
			said.Unlock()
		}
	})
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close() // which ends it
		_ = cmd.Wait()
		_ = write.Close()
		reading.Wait()
		if t.Failed() {
			t.Logf("the library complains:\n%s", complaints())
		}
	})
	complaints = func() string {
		said.Lock()
		defer said.Unlock()
		return said.String()
	}
	port, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, complaints())
	return "ws://127.0.0.1:" + strings.TrimSpace(port) + "/media", complaints
}

// A library that nobody here wrote, and that knows Twilio alone, holds a conversation: OpenAI's own adapter of Twilio Media Streams, unchanged, between us and
// a stand-in of its Realtime API. It is heard and hears, is interrupted, clears what plays, and knows by our marks how much of it was heard.
func TestForeignTwilioLibrary(t *testing.T) {
	agents := sync.OnceValues(func() ([2]string, error) {
		dir, skip, err := installAgents(context.WithoutCancel(t.Context()))
		return [2]string{dir, skip}, err
	})
	onEachSwitch(t, func(t *testing.T, c *customer) {
		installed, err := agents()
		require.NoError(t, err)
		if installed[1] != "" {
			t.Skipf("*** SKIPPED: NO FOREIGN TWILIO LIBRARY: %s ***", installed[1])
		}
		bot := newRealtimeBot(t)
		url, complaints := serveAgents(t, installed[0], bot.url)
		const number = "9876193000"
		campaign := c.campaign(t, c.voiceAgent(t, "", map[string]any{"ws_url": url, "transport": "twilio"}), nil)
		c.push(t, campaign, number)
		c.start(t, campaign)
		s := bot.next(t)
		eventually(t, 10*time.Second, "the session is asked for in Twilio's format", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.format == openai.FormatPCMU
		})
		caller := c.callee(t, number)
		defer func() {
			if t.Failed() {
				t.Logf("the caller has heard %d ms of the library", caller(agentHz))
			}
		}()

		response, item := s.begin(agentHz, time.Second)
		s.tell("response.output_audio.done", map[string]any{"response_id": response, "item_id": item, "output_index": 0, "content_index": 0})
		s.end(response)
		eventually(t, 10*time.Second, "the caller hears all of it", func() bool { return caller(agentHz) >= 800 })
		eventually(t, 20*time.Second, "the caller is heard", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			heard := s.ear.Heard()
			return len(heard) > 0 && heard[0].TotalMS > 1000
		})

		before := caller(agentHz)
		_, item = s.begin(agentHz, 20*time.Second)
		caller.hears(t, agentHz, "the caller hears what is to be cut")
		eventually(t, 10*time.Second, "some of it is heard", func() bool { return caller(agentHz) > before+2000 })
		s.tell("input_audio_buffer.speech_started", map[string]any{"audio_start_ms": 1000, "item_id": "item_caller"})
		cut := s.await(t, "conversation.item.truncate", 1)
		require.Equal(t, item, cut.ItemID)
		caller.quiet(t, agentHz, "the library clears what plays")
		heard := caller(agentHz) - before
		require.Less(t, heard, int64(15000))
		// Pieces have 400 ms, and each has a mark; the library adds 50 ms.
		require.InDelta(t, heard-200, cut.AudioEndMS, 500, "it knows by our marks what was heard")

		c.hangUp(t, number)
		select {
		case <-s.over:
		case <-time.After(20 * time.Second):
			require.FailNow(t, "the library's session stays open")
		}
		c.ended(t, campaign, 1, 20*time.Second)
		require.NotContains(t, complaints(), "rror", "the library complains of nothing")
		require.NotContains(t, complaints(), "Invalid mark")
	})
}

package remote_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCampaigns(t *testing.T) {
	t.Parallel()
	golden(t, "campaigns", setup(t).session(t,
		"campaigns list",
		"campaigns get "+anID+" --columns id,name,status",
		"campaigns create autumn --voice-agent "+anID+" --set max_concurrent=5 --set 'notes=two words' --columns id",
		"campaigns create people --mode predictive --set caller_id=9180000001 --set wrap_up_s=30 --set max_concurrent=null --columns id",
		"campaigns create ivr --flow "+anID+" --columns id",
		"campaigns create wrong --set wrap_up=30",
		"campaigns create wrong --set wrap_up_s=soon",
		"campaigns update "+anID+" --set notes=null --set amd=true --columns id",
		"campaigns start "+anID+" --columns id,status",
		"campaigns pause "+anID+" --columns id,status",
		"campaigns stop "+anID+" --columns id,status",
		"campaigns delete "+anID,
		"campaigns stats "+anID+" --columns campaign_id,leads.total,pacing.mode",
		"campaigns scrub "+anID+" --columns total,pending",
	))
}

func TestLeads(t *testing.T) {
	t.Parallel()
	golden(t, "leads", setup(t).session(t,
		"leads list "+anID+" --status callback",
		"leads get "+anID+" --columns id,phone",
		"leads push "+anID+" 9876543210 --name Asha --crm-lead-id 17 --priority 5 --metadata {\"segment\":\"gold\"} --columns id",
		"leads update "+anID+" --set crm_lead_id=17 --set email=null --set custom_fields={\"a\":1} --set priority=-3 --columns id",
		"leads delete "+anID,
		"suppressions list --phone 9876543210",
		"suppressions add 9876543210 --reason complaint --columns id",
		"suppressions delete "+anID,
	))
}

func TestVoiceAgents(t *testing.T) {
	t.Parallel()
	golden(t, "voice_agents", setup(t).session(t,
		"voice-agents list --status active",
		"voice-agents get "+anID+" --columns id,name",
		"voice-agents create sales wss://ai.example/calls --set max_concurrent=50 --set external_agent_id=7 --columns id",
		"voice-agents update "+anID+" --set status=paused --columns id",
		"voice-agents update "+anID+" --set transport=openai_realtime --set transport_config={\"greet\":true,\"functions\":[\"hangup\"]} --columns id",
		"voice-agents archive "+anID+" --columns id",
		"voice-agents delete "+anID,
		"voice-agents default",
		"voice-agents default "+anID,
		"voice-agents default --clear",
	))
}

func TestWebhooks(t *testing.T) {
	t.Parallel()
	golden(t, "webhooks", setup(t).session(t,
		"webhooks list",
		"webhooks get "+anID+" --columns id,url",
		"webhooks create https://hooks.example/calls --event call.ended --event ai_session.* --campaign "+anID+" --columns id,signing_secret",
		"webhooks update "+anID+" --set is_active=false --set event_types=[\"call.ended\"] --set campaign_id=null --columns id",
		"webhooks delete "+anID,
		"webhooks test "+anID+" --columns id",
		"webhooks deliveries --webhook "+anID+" --status dead_lettered --event call.ended --columns id,status",
		"webhooks replay "+anID+" --columns id",
		"webhooks replay-events "+anID+" --from 2026-11-25T00:00:00Z --to 2026-11-26T00:00:00Z --event call.ended --only-failed",
		"webhooks rotate-secret "+anID+" --columns signing_secret",
		"webhooks events --type call.ended --from 2026-11-25 --columns type,data.call_id",
		"usage",
		"usage --from 2026-11-01 --to 2026-12-01 --by campaign --json",
	))
}

// TestKeys are managed by a signed-in user, and their secrets are shown once.
func TestKeys(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, _, err := b.run(t, "keys", "list")
	require.ErrorContains(t, err, "ringmaster login")
	b.stdin = "correct horse"
	_, _, err = b.run(t, "login", "--email", "admin@acme.example")
	require.NoError(t, err)
	b.Asked()
	got := b.session(t,
		"keys list --include-revoked",
		"keys create backend --scope calls:read --scope calls:write --rate-limit 100 --origin https://app.example --columns id,key",
		"keys create trial --environment test --all --columns id,key",
		"keys rotate "+anID+" --label new --columns key",
		"keys revoke "+anID+" --reason leaked",
	)
	b.Answer("rotateKey", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id": "`+anID+`", "key": "svc_live_••••abcd"}`)
	})
	golden(t, "keys", got+b.session(t, "keys rotate "+anID))
}

// TestImports send files as they are read, and show what became of the rows.
func TestImports(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var sent []string
	b.Answer("uploadLeads", func(w http.ResponseWriter, r *http.Request) {
		file, header, err := r.FormFile("file")
		if err != nil {
			return
		}
		text, _ := io.ReadAll(file)
		sent = append(sent, header.Filename+": "+string(text))
		_, _ = io.WriteString(w, `{"total": 2, "valid": 1, "duplicates": 0, "invalid": 1, "errors": [{"row": 3, "field": "phone", "message": "is too short"}]}`)
	})
	path := filepath.Join(t.TempDir(), "autumn.csv")
	require.NoError(t, os.WriteFile(path, []byte("phone\n9876543210\n12\n"), 0o600))
	var terminal bytes.Buffer
	b.progress = &terminal
	stdout, stderr, err := b.run(t, "leads", "import", anID, path)
	require.NoError(t, err)
	require.Equal(t, "2 rows: 1 added, 0 duplicates, 1 invalid\nROW  FIELD  MESSAGE\n3    phone  is too short\n", stdout)
	require.Empty(t, stderr)
	require.Contains(t, terminal.String(), "autumn.csv")
	b.progress, b.stdin = nil, "phone\n"
	stdout, stderr, err = b.run(t, "leads", "import", anID, "-", "--json")
	require.NoError(t, err)
	require.Contains(t, stdout, `"row": 3`)
	require.Empty(t, stderr, "no bar where there is no terminal")
	require.Equal(t, []string{"autumn.csv: phone\n9876543210\n12\n", "leads.csv: phone\n"}, sent)
	_, _, err = b.run(t, "leads", "import", anID, path+"x")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestExports(t *testing.T) {
	t.Parallel()
	b := setup(t)
	got := b.session(t,
		"leads export "+anID+" --status completed",
		"leads export "+anID+" --columns phone,metadata.segment",
		"leads export "+anID+" --columns nothing",
	)
	golden(t, "export", got)
	path := filepath.Join(t.TempDir(), "leads.csv")
	_, _, err := b.run(t, "leads", "export", anID, "-o", path, "--columns", "phone")
	require.NoError(t, err)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Regexp(t, `^phone\n\S+\n$`, string(text))
	_, _, err = b.run(t, "leads", "export", anID, "-o", path)
	require.ErrorIs(t, err, os.ErrExist)
}

// TestDownloads fetch a recording: once it is there, and from where an earlier one broke off.
func TestDownloads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	folder := t.TempDir()
	audio, processing := strings.Repeat("0123456789", 100), 2
	b.Answer("streamRecording", func(w http.ResponseWriter, r *http.Request) {
		if processing--; processing >= 0 {
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"code": "recording_processing", "detail": "It is being made."}`)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(audio))
	})
	path := filepath.Join(folder, "call.wav")
	_, _, err := b.run(t, "recordings", "download", anID, "-o", path)
	require.ErrorContains(t, err, "recording_processing")
	require.NoFileExists(t, path+".part")
	var terminal bytes.Buffer
	b.progress = &terminal
	stdout, _, err := b.run(t, "recordings", "download", anID, "-o", path, "--wait", "--every", "1ms")
	require.NoError(t, err)
	require.Equal(t, path+"\n", stdout)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, audio, string(text))
	require.Contains(t, terminal.String(), "recording")
	_, _, err = b.run(t, "recordings", "download", anID, "-o", path)
	require.ErrorContains(t, err, "exists already")

	for _, have := range []string{audio[:500], audio, audio + "more"} {
		require.NoError(t, os.Remove(path))
		require.NoError(t, os.WriteFile(path+".part", []byte(have), 0o600))
		_, _, err = b.run(t, "recordings", "download", anID, "-o", path, "--json")
		require.NoError(t, err)
		text, err = os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, audio, string(text))
	}
	stdout, _, err = b.run(t, "recordings", "download", anID, "-o", "-")
	require.NoError(t, err)
	require.Equal(t, audio, stdout)
	b.Answer("openSignedRecording", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" && r.URL.Query().Get("sig") == "x" {
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(audio))
		}
	})
	path = filepath.Join(folder, "signed.wav")
	_, _, err = b.run(t, "recordings", "open", b.URL+"/recordings/"+anID+"?sig=x", "-o", path)
	require.NoError(t, err)
	text, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, audio, string(text))
	golden(t, "recordings", b.session(t, "recordings get "+anID+" --columns call_id,format"))
}

// TestMoreThanTheLimit says that there is more, and doesn't ask for it.
func TestMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Answer("listCalls", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"items": [{"id": %q, "notes": "a\u001b[31m\nb"}, {"id": %q}], "next_cursor": %q}`, anID, anID, anID)
	})
	stdout, stderr, err := b.run(t, "calls", "list", "--limit", "1", "--columns", "id, notes")
	require.NoError(t, err)
	require.Equal(t, "ID                                    NOTES\n"+anID+"  a [31m b\n", stdout, "a terminal obeys nothing that callers wrote")
	require.Equal(t, "there are more than 1: see --limit\n", stderr)
	require.Len(t, b.Asked(), 1)
}

package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/xuri/excelize/v2"

	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/httpapi/apitest"
	"github.com/ringmaster/ringmaster/store/storetest"
)

type leadUpload struct {
	Total, Valid, Invalid, Duplicates int
	Errors                            []struct {
		Row            int
		Field, Message string
	}
}

// fileForm gives a multipart form with one file, and its content type.
func fileForm(tb testing.TB, field string, file []byte) (body []byte, contentType string) {
	tb.Helper()
	var buf bytes.Buffer
	w := multipart.NewWriter(&buf)
	require.NoError(tb, w.WriteField("comment", "before the file"))
	part, err := w.CreateFormFile(field, "leads.csv")
	require.NoError(tb, err)
	_, err = part.Write(file)
	require.NoError(tb, err)
	require.NoError(tb, w.Close())
	return buf.Bytes(), w.FormDataContentType()
}

func upload(t *testing.T, c apitest.Client, path string, file []byte) leadUpload {
	t.Helper()
	body, contentType := fileForm(t, "file", file)
	var out leadUpload
	c.With("Content-Type", contentType).JSON(t, http.MethodPost, path, body, http.StatusOK, &out)
	return out
}

func TestLeadUpload(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	path := "/api/campaigns/" + newCampaign(t, b, nil).text(t, "id") + "/leads/upload"
	out := upload(t, s.supervisor, path, []byte("Mobile; First Name ;lead_id;City;email\n"+
		"09812345678;Ann;crm-1;Pune;a@b.test\n+919812345691;Bo;;;\n9812345678;again;;;\n;nobody;;;\n12;short;;;\n"+
		"9812345601;same crm;crm-1;;\n\n9812345602;Cy;crm-2;;"+strings.Repeat("x", 400)+"\n"))
	require.Equal(t, []int{7, 2, 3, 2}, []int{out.Total, out.Valid, out.Invalid, out.Duplicates})
	require.Len(t, out.Errors, 3)
	for i, want := range []struct {
		row   int
		field string
	}{{5, "phone"}, {6, "phone"}, {9, "email"}} {
		require.Equal(t, want.row, out.Errors[i].Row)
		require.Equal(t, want.field, out.Errors[i].Field)
		require.NotEmpty(t, out.Errors[i].Message)
	}
	require.Equal(t, 1, storetest.Count(t, b.st, `SELECT count(*) FROM leads WHERE phone = '9812345678' AND name = 'Ann'
		AND crm_lead_id = 'crm-1' AND email = 'a@b.test' AND metadata = '{"City":"Pune"}' AND dnd_checked AND dnd_clean AND status = 'new'`))
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM leads WHERE phone = '9812345691' AND NOT dnd_clean AND status = 'dnc'"),
		"on the registry")
	again := upload(t, s.admin, path, []byte("phone\n9812345678\n"))
	require.Equal(t, []int{1, 0, 0, 1}, []int{again.Total, again.Valid, again.Invalid, again.Duplicates})
	require.NotNil(t, again.Errors)

	book := excelize.NewFile()
	require.NoError(t, book.SetSheetRow("Sheet1", "A1", &[]any{"phone", "name"}))
	require.NoError(t, book.SetSheetRow("Sheet1", "A2", &[]any{9812345603, "Di"}))
	var sheet bytes.Buffer
	require.NoError(t, book.Write(&sheet))
	require.NoError(t, book.Close())
	out = upload(t, s.admin, path, sheet.Bytes())
	require.Equal(t, []int{1, 1}, []int{out.Total, out.Valid})
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM leads WHERE phone = '9812345603' AND name = 'Di'"))
}

func TestStrayQuotesInAnUploadTakeNoOtherRows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	path := "/api/campaigns/" + newCampaign(t, b, nil).text(t, "id") + "/leads/upload"
	out := upload(t, s.admin, path, []byte("phone,name\n9876650080,\"Bob\" Lee\n9876650081,y\n9876650082,\"z\n9876650083,w\n"))
	require.Equal(t, []int{4, 3, 1}, []int{out.Total, out.Valid, out.Invalid})
	require.Len(t, out.Errors, 1)
	require.Equal(t, 4, out.Errors[0].Row)
	require.Equal(t, "name", out.Errors[0].Field)
	require.Contains(t, out.Errors[0].Message, "quotation mark")
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM leads WHERE phone = '9876650080' AND name = 'Bob Lee'"))
	require.Equal(t, 2, storetest.Count(t, b.st, "SELECT count(*) FROM leads WHERE phone IN ('9876650081', '9876650083') AND name IN ('y', 'w')"))
}

func TestLeadUploadIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *httpapi.Config, _ *httpapi.Deps) { c.MaxUploadBytes = 64 << 10 })
	s := newStaff(t, b)
	path := "/api/campaigns/" + newCampaign(t, b, nil).text(t, "id") + "/leads/upload"
	good, contentType := fileForm(t, "file", []byte("phone\n9812345678\n"))
	multi := func(c apitest.Client) apitest.Client { return c.With("Content-Type", contentType) }
	denied(t, multi(s.agent), http.MethodPost, path, good, http.StatusForbidden)
	denied(t, multi(b.scoped(t, "leads:read")), http.MethodPost, path, good, http.StatusForbidden)
	denied(t, multi(b.client("")), http.MethodPost, path, good, http.StatusUnauthorized)
	denied(t, multi(s.foreign), http.MethodPost, path, good, http.StatusNotFound)
	denied(t, multi(s.admin), http.MethodPost, "/api/campaigns/"+storetest.NewID(t).String()+"/leads/upload", good, http.StatusNotFound)
	denied(t, multi(s.admin), http.MethodPost, "/api/campaigns/nonsense/leads/upload", good, http.StatusNotFound)
	denied(t, s.admin, http.MethodPost, path, object{"file": "x"}, http.StatusUnsupportedMediaType)
	denied(t, s.admin.With("Content-Type", "multipart/form-data"), http.MethodPost, path, good, http.StatusUnprocessableEntity)
	denied(t, multi(s.admin), http.MethodPost, path, good[:len(good)-40], http.StatusBadRequest)
	denied(t, multi(s.admin), http.MethodPost, path, "no form", http.StatusUnprocessableEntity)
	require.Equal(t, []string{"body.file"}, denied(t, multi(s.admin), http.MethodPost, path, nil, http.StatusUnprocessableEntity))
	for name, file := range map[string]string{
		"no phone column": "name\nAnn\n", "empty": "", "picture": "\x89PNG\x00\x00\x01\x02\x03", "old workbook": "\xD0\xCF\x11\xE0",
	} {
		body, kind := fileForm(t, "file", []byte(file))
		require.Equal(t, []string{"body.file"},
			denied(t, s.admin.With("Content-Type", kind), http.MethodPost, path, body, http.StatusUnprocessableEntity), name)
	}
	body, kind := fileForm(t, "other", []byte("phone\n1\n"))
	require.Equal(t, []string{"body.file"},
		denied(t, s.admin.With("Content-Type", kind), http.MethodPost, path, body, http.StatusUnprocessableEntity))
	body, kind = fileForm(t, "file", []byte("phone\n"+strings.Repeat("9812345678\n", 10_000)))
	denied(t, s.admin.With("Content-Type", kind), http.MethodPost, path, body, http.StatusRequestEntityTooLarge)
	require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM leads"))
}

// A row that ends the file's reading keeps those before it.
func TestLeadUploadThatBreaks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	path := "/api/campaigns/" + newCampaign(t, b, nil).text(t, "id") + "/leads/upload"
	body, kind := fileForm(t, "file", []byte("phone,name\n9812345678,Ann\n9812345677,\""+strings.Repeat("x", 300_000)))
	require.Equal(t, []string{"body.file"},
		denied(t, s.admin.With("Content-Type", kind), http.MethodPost, path, body, http.StatusUnprocessableEntity))
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM leads"))
}

func TestStrictTenantsUploadIsSealed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET privacy_mode = 'strict' WHERE id = $1", b.tenant)
	path := "/api/campaigns/" + newCampaign(t, b, nil).text(t, "id") + "/leads/upload"
	out := upload(t, s.admin, path, []byte("phone\n9812345678\n981234567\n"))
	require.Equal(t, 1, out.Valid)
	require.NotContains(t, fmt.Sprint(out.Errors), "98123456")
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM leads WHERE phone IS NULL AND phone_sealed IS NOT NULL"))
	require.NotContains(t, b.logs.String(), "98123456")
}

// The list of faults is bounded; the counts are not.
func TestLeadUploadErrorsAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	path := "/api/campaigns/" + newCampaign(t, b, nil).text(t, "id") + "/leads/upload"
	out := upload(t, s.admin, path, []byte("phone\n"+strings.Repeat("12\n", 5000)))
	require.Equal(t, []int{5000, 5000}, []int{out.Total, out.Invalid})
	require.Len(t, out.Errors, 1000)
}

// streamLeads uploads a file that is written while it is sent, and gives the answer.
func streamLeads(tb testing.TB, c apitest.Client, path string, write func(io.Writer) error) leadUpload {
	tb.Helper()
	r, w := io.Pipe()
	parts := multipart.NewWriter(w)
	var writing sync.WaitGroup
	writing.Go(func() {
		part, err := parts.CreateFormFile("file", "leads.csv")
		if err == nil {
			err = write(part)
		}
		if err == nil {
			err = parts.Close()
		}
		_ = w.CloseWithError(err)
	})
	defer writing.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.BaseURL+path, r)
	require.NoError(tb, err)
	req.Header.Set("Authorization", "Bearer "+c.Key)
	req.Header.Set("Content-Type", parts.FormDataContentType())
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	require.NoError(tb, err)
	defer func() { require.NoError(tb, resp.Body.Close()) }()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(tb, err)
	require.Equal(tb, http.StatusOK, resp.StatusCode, "%s", answer)
	var out leadUpload
	require.NoError(tb, json.Unmarshal(answer, &out))
	return out
}

// heapPeak gives the most that the heap held above its beginning while work ran. Garbage is collected early: what piles up of it goes by the size
// of all that the process holds, not by the work.
func heapPeak(work func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	begin, peak := m.HeapAlloc, uint64(0)
	done := make(chan struct{})
	go func() { defer close(done); work() }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return peak
		case <-tick.C:
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapAlloc-min(m.HeapAlloc, begin))
		}
	}
}

// A file far larger than what may be held of it, which isn't declared to be that long either.
func TestLeadUploadIsBoundedInMemory(t *testing.T) { //nolint:paralleltest // other tests' memory would be counted too
	b := setup(t)
	s := newStaff(t, b)
	path := "/api/campaigns/" + newCampaign(t, b, nil).text(t, "id") + "/leads/upload"
	row := "12," + strings.Repeat("x", 8000) + "\n"
	const rows = 4_000
	var out leadUpload
	peak := heapPeak(func() {
		out = streamLeads(t, s.admin, path, func(w io.Writer) error {
			if _, err := io.WriteString(w, "phone,about\n9812345678,first\n"); err != nil {
				return err
			}
			for range rows {
				if _, err := io.WriteString(w, row); err != nil {
					return err
				}
			}
			_, err := io.WriteString(w, "9812345679,last\n")
			return err
		})
	})
	require.Equal(t, []int{rows + 2, 2, rows}, []int{out.Total, out.Valid, out.Invalid})
	t.Logf("%d MiB sent, heap grew by at most %d MiB", len(row)*rows>>20, peak>>20)
	require.Less(t, peak, uint64(len(row)*rows/2))
}

// The connection serves on after an upload that was read, and after one that nobody wanted.
func TestConnectionsSurviveUploads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	path := "/api/campaigns/" + newCampaign(t, b, nil).text(t, "id") + "/leads/upload"
	var dials atomic.Int64 // the client dials in goroutines of its own, which may outlive a request that got another connection
	s.admin.HTTP = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}}}
	defer s.admin.HTTP.CloseIdleConnections()
	big := []byte("phone,x\n9812345678,\n" + strings.Repeat("12,"+strings.Repeat("x", 1000)+"\n", 2000))
	require.Equal(t, 1, upload(t, s.admin, path, big).Valid)
	body, kind := fileForm(t, "file", big)
	again := int64(1)
	for try := 0; try < 5 && again > 0; try++ { // the client gives its own writing 50 ms to end, which a busy machine may not keep
		before := dials.Load()
		denied(t, s.admin.With("Content-Type", kind), http.MethodPost, "/api/campaigns/"+storetest.NewID(t).String()+"/leads/upload",
			body, http.StatusNotFound)
		s.admin.JSON(t, http.MethodGet, "/api/campaigns", nil, http.StatusOK, nil)
		again = dials.Load() - before
	}
	require.Zero(t, again)
}

// Reports the rows per second of an upload of a million rows over HTTP, and the most that the heap grew.
func BenchmarkUploadMillionRows(bm *testing.B) {
	const rows = 1_000_000
	for bm.Loop() {
		b := setup(bm)
		s := newStaff(bm, b)
		path := "/api/campaigns/" + newCampaign(bm, b, nil).text(bm, "id") + "/leads/upload"
		var out leadUpload
		began := time.Now()
		peak := heapPeak(func() {
			out = streamLeads(bm, s.admin, path, func(w io.Writer) error {
				buf := append(make([]byte, 0, 64), "phone,name,crm_lead_id,city\n"...)
				for i := range rows {
					buf = append(buf, "98"...)
					buf = strconv.AppendInt(buf, int64(10_000_000+i), 10)
					buf = append(buf, ",Somebody,crm-"...)
					buf = strconv.AppendInt(buf, int64(i), 10)
					buf = append(buf, ",Pune\n"...)
					if len(buf) > 32<<10 {
						if _, err := w.Write(buf); err != nil {
							return err
						}
						buf = buf[:0]
					}
				}
				_, err := w.Write(buf)
				return err
			})
		})
		require.Equal(bm, []int{rows, rows}, []int{out.Total, out.Valid})
		bm.ReportMetric(rows/time.Since(began).Seconds(), "rows/s")
		bm.ReportMetric(float64(peak>>20), "MiB-heap")
	}
}

// An upload ends with the credential that it came with: a key that is revoked meanwhile adds nothing more.
func TestUploadEndsWithItsCredential(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	path := "/api/campaigns/" + newCampaign(t, b, nil).text(t, "id") + "/leads/upload"
	key := issue(t, s.admin, object{"label": "x", "scopes": []string{"leads:write"}})
	form, contentType := fileForm(t, "file", []byte("phone\n9812345678\n"))
	body, feed := io.Pipe()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+b.srv.Addr()+path, body)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+key.text(t, "key"))
	request.Header.Set("Content-Type", contentType)
	const lookups = "ringmaster_http_credential_lookups_total"
	before := counted(t, b.metrics, lookups, "key")
	status := make(chan int, 1)
	go func() {
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			status <- 0
			return
		}
		_ = answer.Body.Close()
		status <- answer.StatusCode
	}()
	_, err = feed.Write(form[:len(form)/2])
	require.NoError(t, err)
	require.Eventually(t, func() bool { return counted(t, b.metrics, lookups, "key") > before }, 10*time.Second, time.Millisecond, "it is let in")
	s.admin.JSON(t, http.MethodDelete, keysPath+"/"+key.text(t, "id"), nil, http.StatusNoContent, nil)
	_, err = feed.Write(form[len(form)/2:])
	require.NoError(t, err)
	require.NoError(t, feed.Close())
	require.Equal(t, http.StatusUnauthorized, <-status)
	require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM leads"))
}

package recordings

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/wav/wavtest"
	"github.com/ringmaster/ringmaster/store"
)

// onS3 is a call with a finished recording of so long, and the store it goes to.
func onS3(t *testing.T, length time.Duration, extra string) (*bundle, *s3Server, []byte, string) {
	t.Helper()
	s := newS3(t)
	b := setup(t, open(t, s.address(extra)))
	b.now = time.Now().UTC()
	audio := wavtest.PCM(2, length, 77)
	path := writeFile(t, b.dir, "a.wav", audio)
	b.record(t, map[time.Duration]string{0: path})
	return b, s, audio, path
}

// TestS3 uploads, verifies and presigns against a server that checks every signature.
func TestS3(t *testing.T) {
	t.Parallel()
	for name, extra := range map[string]string{
		"checksums in trailers": "", "older stores": "&request_checksum_calculation=when_required",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, s, audio, path := onS3(t, 3*time.Second, extra)
			require.NoError(t, b.work(t, 1))
			row := b.row(t)
			require.Equal(t, "ready", row.Status)
			require.NoFileExists(t, path)
			stored, ok := s.object(*row.StorageKey)
			require.True(t, ok)
			require.True(t, bytes.Equal(audio, stored.body))
			require.Equal(t, "audio/wav", stored.kind)
			require.Equal(t, []int{1, 1}, []int{s.count("put"), s.count("get")}, "written once, read back once")

			data, _ := b.events(t)
			signed, ok := data[0]["signed_url"].(string)
			require.True(t, ok)
			require.True(t, strings.HasPrefix(signed, s.http.URL+"/"+testBucket+"/"), signed)
			status, body := fetch(t, signed)
			require.Equal(t, http.StatusOK, status)
			require.True(t, bytes.Equal(audio, body))
			status, _ = fetch(t, strings.Replace(signed, "X-Amz-Expires=900", "X-Amz-Expires=90000", 1))
			require.Equal(t, http.StatusForbidden, status, "a longer life is not for the holder to choose")
			status, _ = fetch(t, strings.Replace(signed, b.call.String(), newID(t).String(), 1))
			require.Equal(t, http.StatusForbidden, status, "nor another call")

			rec, err := b.lib.Find(t.Context(), b.tenant, b.call)
			require.NoError(t, err)
			week, until, err := b.lib.SignedURL(t.Context(), rec, APIURLLifetime)
			require.NoError(t, err)
			require.Equal(t, b.now.Add(APIURLLifetime).Truncate(time.Second), until)
			status, _ = fetch(t, week)
			require.Equal(t, http.StatusOK, status, "seven days are what a presigned URL can live")
			require.True(t, bytes.Equal(audio, b.audio(t, Span{})))
			require.Equal(t, audio[:1], b.audio(t, Span{Length: 1}))
			require.Equal(t, audio[100:300], b.audio(t, Span{Offset: 100, Length: 200}))
			require.True(t, bytes.Equal(audio[100:], b.audio(t, Span{Offset: 100})))
		})
	}
}

func fetch(t *testing.T, address string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, errors.Join(err, res.Body.Close()))
	return res.StatusCode, body
}

// TestS3ManyParts uploads ten minutes, which go in parts; one that fails half-way leaves nothing behind.
func TestS3ManyParts(t *testing.T) {
	t.Parallel()
	b, s, audio, path := onS3(t, 10*time.Minute, "")
	s.set(func() { s.fail["part"] = 100 })
	require.Error(t, b.work(t, 1))
	s.set(func() {
		s.fail["part"] = 0
		require.Empty(t, s.objects)
		require.Empty(t, s.parts, "the upload was called off")
		require.Positive(t, s.aborted)
	})
	require.FileExists(t, path)
	require.NoError(t, b.work(t, 2))
	require.NoFileExists(t, path)
	stored, ok := s.object(*b.row(t).StorageKey)
	require.True(t, ok)
	require.True(t, bytes.Equal(audio, stored.body))
	require.Equal(t, "audio/wav", stored.kind)
	require.Positive(t, s.count("complete"))
}

// TestS3InTrouble lets the store fail in each way that it can. The local copy stays until an object was verified, and what
// went wrong is made good by the next attempt.
func TestS3InTrouble(t *testing.T) {
	t.Parallel()
	flip := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	half := func(b []byte) []byte { return b[:len(b)/2] }
	for name, tc := range map[string]struct {
		trouble, over func(*s3Server)
		want          error
	}{
		"500 for long":         {func(s *s3Server) { s.fail["put"] = 99 }, func(s *s3Server) { s.fail["put"] = 0 }, nil},
		"500 when read back":   {func(s *s3Server) { s.fail["get"] = 99 }, func(s *s3Server) { s.fail["get"] = 0 }, nil},
		"silence":              {func(s *s3Server) { s.hang = "put" }, func(s *s3Server) { s.hang = "" }, context.DeadlineExceeded},
		"silence when read":    {func(s *s3Server) { s.hang = "get" }, func(s *s3Server) { s.hang = "" }, context.DeadlineExceeded},
		"truncated object":     {func(s *s3Server) { s.keep = half }, func(s *s3Server) { s.keep = nil }, ErrVerify},
		"corrupted object":     {func(s *s3Server) { s.keep = flip }, func(s *s3Server) { s.keep = nil }, ErrVerify},
		"corrupted on the way": {func(s *s3Server) { s.give = flip }, func(s *s3Server) { s.give = nil }, ErrVerify},
		"cut off on the way":   {func(s *s3Server) { s.give = half }, func(s *s3Server) { s.give = nil }, io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, s, audio, path := onS3(t, time.Second, "")
			b.lib.transferBase = 2 * time.Second
			s.set(func() { tc.trouble(s) })
			err := b.work(t, 1)
			require.Error(t, err)
			if tc.want != nil {
				require.ErrorIs(t, err, tc.want)
			}
			if errors.Is(tc.want, context.DeadlineExceeded) {
				var slow *TransferError
				require.ErrorAs(t, err, &slow, "a time-out names what it cut off")
			}
			require.FileExists(t, path)
			require.Equal(t, "processing", b.row(t).Status)
			data, _ := b.events(t)
			require.Empty(t, data)
			s.set(func() { tc.over(s) })
			b.lib.transferBase = transferBase
			require.NoError(t, b.work(t, 2))
			stored, ok := s.object(*b.row(t).StorageKey)
			require.True(t, ok)
			require.True(t, bytes.Equal(audio, stored.body))
			require.NoFileExists(t, path)
			data, _ = b.events(t)
			require.Len(t, data, 1)
		})
	}
}

// TestS3HiccupIsNotSeen has a store that fails once: the client tries again by itself.
func TestS3HiccupIsNotSeen(t *testing.T) {
	t.Parallel()
	b, s, _, _ := onS3(t, time.Second, "")
	s.set(func() { s.fail["put"], s.fail["get"] = 1, 1 })
	require.NoError(t, b.work(t, 1))
	require.Equal(t, 2, s.count("put"))
}

// TestS3WrongBucket is refused by the store, and tried again: somebody will mend it.
func TestS3WrongBucket(t *testing.T) {
	t.Parallel()
	s := newS3(t)
	b := setup(t, open(t, strings.Replace(s.address(""), "s3://"+testBucket, "s3://other", 1)))
	path := writeFile(t, b.dir, "a.wav", wavtest.PCM(2, time.Second, 5))
	b.record(t, map[time.Duration]string{0: path})
	require.ErrorContains(t, b.work(t, 1), "NoSuchBucket")
	require.FileExists(t, path)
	require.Equal(t, "processing", b.row(t).Status)
}

func TestOpenBucketAddresses(t *testing.T) {
	t.Parallel()
	open(t, "file://"+t.TempDir()+"/a/b")
	open(t, "s3://calls?region=x")
	for _, bad := range []string{
		"", "file://%zz", "file://host/dir", "file:relative", "gs://calls", "s3://", "s3://key:secret@calls?region=x", "s3://calls/path?region=x",
		"s3://calls?region=x&endpoint=127.0.0.1:9000", "s3://calls?region=x&endpoint=https://host/path", "s3://calls?use_path_style=maybe",
		"s3://calls?request_checksum_calculation=never", "s3://calls?ssetype=rot13", "mem://",
		"file:///", "file:///rec/..", "file:///rec?metadata=skip", "s3://calls?region=x&region=y", "s3://calls?region=x&kmskeyid=abc1",
		"s3://calls?region=x&ssetype=AES256&kmskeyid=abc1", "s3://calls?region=x&endpoint=https://key:secret@host",
	} {
		require.ErrorIs(t, CheckBucketURL(bad), ErrBucket, bad)
		_, err := OpenBucket(bad)
		require.ErrorIs(t, err, ErrBucket, bad)
	}
	for _, secret := range []string{"s3://key:se/cret@calls?region=x", "s3://calls?region=x&endpoint=https%3A%2F%2Fkey%3Ase%2Fcret@host"} {
		require.NotContains(t, CheckBucketURL(secret).Error(), "cret", "a secret is told to nobody")
	}
	_, err := OpenBucket("s3://calls")
	require.ErrorContains(t, err, "no region")
	_, err = OpenBucket("s3://calls?region=x&use_path_stile=true")
	require.ErrorContains(t, err, `option "use_path_stile" is unknown`)
	_, err = New(Config{})
	require.Error(t, err)
	_, err = New(Config{Store: &store.Store{}, Bucket: folder(""), Signer: &Signer{}, Encoding: "mp3"})
	require.ErrorContains(t, err, "mp3")
}

// What a killed process leaves of an upload to a folder goes with the next attempt, or with the object.
func TestUnfinishedUploads(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, "file://"+dir)
	cut := filepath.Join(dir, "t", "k.wav.tmp")
	leave := func() {
		require.NoError(t, os.MkdirAll(filepath.Dir(cut), 0o700))
		require.NoError(t, os.WriteFile(cut, []byte("longer than what comes after it"), 0o600))
	}
	leave()
	require.NoError(t, b.Put(t.Context(), "t/k.wav", strings.NewReader("whole"), 5))
	require.NoFileExists(t, cut)
	kept, err := os.ReadFile(filepath.Join(dir, "t", "k.wav"))
	require.NoError(t, err)
	require.Equal(t, "whole", string(kept))
	leave()
	require.NoError(t, b.Delete(t.Context(), "t/k.wav"))
	require.NoFileExists(t, cut)
	leave()
	require.ErrorIs(t, b.Delete(t.Context(), "t/k.wav"), fs.ErrNotExist)
	require.NoFileExists(t, cut)
}

// A bucket that isn't there is no recording that isn't there.
func TestWrongBucket(t *testing.T) {
	t.Parallel()
	b := open(t, strings.Replace(newS3(t).address(""), testBucket, "another", 1))
	_, err := b.Open(t.Context(), "k.wav", Span{})
	require.ErrorContains(t, err, "NoSuchBucket")
	require.NotErrorIs(t, err, fs.ErrNotExist)
	err = b.Put(t.Context(), "k.wav", strings.NewReader("whole"), 5)
	require.ErrorContains(t, err, "NoSuchBucket")
	require.NotErrorIs(t, err, fs.ErrNotExist)
}

func TestRetryDelay(t *testing.T) {
	t.Parallel()
	require.Equal(t, 4*time.Second, retryDelay(1, 0))
	require.Equal(t, 6*time.Second, retryDelay(1, 1))
	require.Equal(t, 20*time.Second, retryDelay(3, 0.5))
	var sum time.Duration
	for n := range MaxAttempts {
		d := retryDelay(n, 0.5)
		require.LessOrEqual(t, d, retryMost)
		sum += d
	}
	require.Greater(t, sum, 60*time.Hour, "an outage over a weekend loses nothing")
}

// Presigned URLs name the host that the address leads to: AWS's of the region, or the endpoint.
func TestS3Hosts(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"s3://calls?region=ap-south-1":                                                             "https://calls.s3.ap-south-1.amazonaws.com/k.wav?",
		"s3://calls?region=cn-north-1":                                                             "https://calls.s3.cn-north-1.amazonaws.com.cn/k.wav?",
		"s3://calls?region=ap-south-1&use_path_style=true":                                         "https://s3.ap-south-1.amazonaws.com/calls/k.wav?",
		"s3://calls?region=x&endpoint=https%3A%2F%2Fobjects.example":                               "https://calls.objects.example/k.wav?",
		"s3://calls?region=x&endpoint=http%3A%2F%2F192.0.2.1%3A9000%2F&use_path_style=true":        "http://192.0.2.1:9000/calls/k.wav?",
		"s3://calls?region=x&endpoint=https%3A%2F%2Fobjects.example&ssetype=aws:kms&kmskeyid=abc1": "https://calls.objects.example/k.wav?",
	} {
		got, err := open(t, address).Presign(t.Context(), "k.wav", time.Minute)
		require.NoError(t, err, address)
		require.True(t, strings.HasPrefix(got, want), "%s: %s", address, got)
	}
	_, err := open(t, "s3://calls?region=x&profile=missing").Presign(t.Context(), "k.wav", time.Minute)
	require.ErrorContains(t, err, "S3 credentials not found")
}

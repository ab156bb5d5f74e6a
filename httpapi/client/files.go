package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"

	"github.com/google/uuid"
)

// UploadLeads adds the leads of a CSV or XLSX file to a campaign; the name's ending says which it is. The file is sent as it is read. One that is
// an io.Seeker is sent again from where it stood when the connection is lost on the way. It is
// POST /api/campaigns/{campaign_id}/leads/upload.
func (s *Leads) UploadLeads(ctx context.Context, campaignID uuid.UUID, name string, file io.Reader) (*LeadUpload, error) {
	var head bytes.Buffer
	form := multipart.NewWriter(&head)
	if _, err := form.CreateFormFile("file", name); err != nil {
		return nil, fmt.Errorf("uploadLeads: %w", err)
	}
	before := head.Len()
	if err := form.Close(); err != nil {
		return nil, fmt.Errorf("uploadLeads: %w", err)
	}
	start, tail := head.Bytes()[:before], head.Bytes()[before:]
	source, size, err := sourceOf(file)
	if err != nil {
		return nil, fmt.Errorf("uploadLeads: read the file: %w", err)
	}
	if size >= 0 {
		size += int64(head.Len())
	}
	_, seeks := file.(io.Seeker)
	r := request{
		operation: "uploadLeads", method: http.MethodPost, path: pathOf("/api/campaigns/{campaign_id}/leads/upload", campaignID),
		header: http.Header{"Content-Type": {form.FormDataContentType()}}, repeatable: true, once: !seeks,
		open: func() (io.Reader, int64, error) {
			from, err := source()
			return io.MultiReader(bytes.NewReader(start), from, bytes.NewReader(tail)), size, err
		},
	}
	var out *LeadUpload
	err = s.client.do(ctx, r, func(res *http.Response) error { return json.NewDecoder(res.Body).Decode(&out) })
	return out, err
}

// sourceOf gives a file from where it stands, each time anew if it can, and its size from there, -1 when that isn't known.
func sourceOf(file io.Reader) (source func() (io.Reader, error), size int64, err error) {
	seeker, ok := file.(io.Seeker)
	if !ok {
		return func() (io.Reader, error) { return file, nil }, -1, nil
	}
	start, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, 0, err
	}
	end, err := seeker.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, 0, err
	}
	return func() (io.Reader, error) {
		_, err := seeker.Seek(start, io.SeekStart)
		return file, err
	}, end - start, nil
}

// Download is how a recording is fetched.
type Download struct {
	// Offset is how many bytes of it are there already.
	Offset int64
	// Tag is what Begin was told when those came: of another recording none are added (ErrOtherRecording).
	Tag string
	// Begin is called once the answer begins, with the size of the whole, -1 when it isn't said, and its entity tag. Its error ends the download.
	Begin func(size int64, tag string) error
}

// ErrOtherRecording says that what was begun is not what is there.
var ErrOtherRecording = errors.New("the recording is not the one that was begun")

// DownloadRecording writes the audio of a call's recording, from an offset on, and gives the number of bytes that are there then. When the
// connection is lost it goes on from where it was, as long as each attempt brings some. It is
// GET /api/v1/calls/{call_id}/recording/audio.
func (s *Recordings) DownloadRecording(ctx context.Context, callID uuid.UUID, to io.Writer, how Download) (int64, error) {
	return s.client.download(ctx, request{
		operation: "streamRecording", method: http.MethodGet, path: pathOf("/api/v1/calls/{call_id}/recording/audio", callID), header: http.Header{},
	}, to, how)
}

// OpenSignedRecording is DownloadRecording by a signed URL, whole as it was handed out (RecordingURL.URL, Call.RecordingURL). The URL is the credential: the
// client's own token stays here, and redirections to an object store are followed. It is GET /recordings/{call_id}.
func (s *Recordings) OpenSignedRecording(ctx context.Context, signed string, to io.Writer, how Download) (int64, error) {
	at, err := url.Parse(signed)
	switch {
	case err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "":
		return how.Offset, errors.New("openSignedRecording: that is not the URL of a recording")
	case at.Scheme == "http" && !s.client.cfg.Insecure && !isHere(at.Hostname()):
		return how.Offset, errors.New("openSignedRecording: the URL is not encrypted: it must begin with https://")
	}
	stranger := &transport{cfg: s.client.cfg, wait: s.client.wait}
	follows := *s.client.cfg.HTTP
	follows.CheckRedirect = nil
	stranger.cfg.HTTP, stranger.cfg.Token = &follows, ""
	return stranger.download(ctx, request{operation: "openSignedRecording", method: http.MethodGet, path: signed, header: http.Header{}}, to, how)
}

func (t *transport) download(ctx context.Context, r request, to io.Writer, how Download) (int64, error) {
	done := how.Offset
	from := func(tag string) {
		if done > 0 {
			r.header.Set("Range", "bytes="+strconv.FormatInt(done, 10)+"-")
		}
		if done > 0 && tag != "" {
			r.header.Set("If-Range", tag)
		}
	}
	from(how.Tag)
	take := func(res *http.Response) error {
		if done > 0 && res.StatusCode != http.StatusPartialContent {
			return &localError{ErrOtherRecording}
		}
		if how.Begin != nil {
			if err := how.Begin(sizeOf(res, done), res.Header.Get("ETag")); err != nil {
				return &localError{err}
			}
			how.Begin = nil
		}
		n, err := io.Copy(local{to}, res.Body)
		done += n
		from(res.Header.Get("ETag"))
		return err
	}
	for {
		before := done
		err := t.do(ctx, r, take)
		refusal, own := (*Error)(nil), (*localError)(nil)
		if err == nil || done == before || ctx.Err() != nil || errors.As(err, &refusal) || errors.As(err, &own) {
			return done, err
		}
	}
}

func sizeOf(res *http.Response, done int64) int64 {
	if res.ContentLength < 0 {
		return -1
	}
	return done + res.ContentLength
}

// localError is a failure on this side, which another attempt would meet again.
type localError struct{ err error }

// Error says what failed.
func (e *localError) Error() string { return e.err.Error() }

// Unwrap gives what failed.
func (e *localError) Unwrap() error { return e.err }

// local marks the errors of a writer as this side's.
type local struct{ io.Writer }

func (l local) Write(p []byte) (int, error) {
	n, err := l.Writer.Write(p)
	if err != nil {
		err = &localError{err}
	}
	return n, err
}

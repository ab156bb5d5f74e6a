package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl/recordings"
)

const codeRecordingLost = "recording_lost"

type recordingURLView struct {
	CallID    uuid.UUID `json:"call_id"`
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at"`
	DurationS int64     `json:"duration_s"`
	Stereo    bool      `json:"stereo"`
	Format    string    `json:"format"`
}

// url hands out a signed URL.
func (h recordingHandlers) url(ctx context.Context, r *request) (reply, error) {
	call, err := h.calls.visible(ctx, r)
	if err != nil {
		return reply{}, err
	}
	callID := call.ID
	rec, err := h.find(ctx, r.who.TenantID, callID)
	if err != nil {
		return reply{}, err
	}
	if err := h.log(ctx, r, rec, r.who.Accessor(), recordings.MethodSignedURL); err != nil {
		return reply{}, err
	}
	url, expires, err := h.library.SignedURL(ctx, rec, recordings.APIURLLifetime)
	if err != nil {
		return reply{}, err
	}
	return ok(recordingURLView{
		CallID: callID, URL: url, ExpiresAt: expires.UTC(), DurationS: rec.Seconds(), Stereo: rec.Stereo, Format: rec.Format,
	}), nil
}

// audio sends the audio to a key with its own scope for that.
func (h recordingHandlers) audio(ctx context.Context, r *request) (reply, error) {
	callID, err := r.pathID("call_id", callNoun)
	if err != nil {
		return reply{}, err
	}
	rec, err := h.find(ctx, r.who.TenantID, callID)
	if err != nil {
		return reply{}, err
	}
	return h.stream(ctx, r, rec, r.who.Accessor())
}

// redirectLifetime is how long the object store's own URL is good for that a signed URL leads to.
const redirectLifetime = 5 * time.Minute

// recordingLinks makes the URLs of recordings.
type recordingLinks struct {
	library Recordings
	now     func() time.Time
}

// of is the URL of a recording that a call is shown with. Whoever it is given to stands in it, and is audited when it is used:
// showing it writes nothing.
func (l recordingLinks) of(r *request, tenantID, callID uuid.UUID) string {
	return l.library.Signer().Sign(recordings.Link{
		CallID: callID, TenantID: tenantID, Recipient: r.who.Accessor(),
		Expires: l.now().Add(recordings.APIURLLifetime).Truncate(time.Second),
	})
}

// signed sends the audio to whoever holds a URL that we signed, or leads on to the object store.
func (h recordingHandlers) signed(ctx context.Context, r *request) (reply, error) {
	callID, _ := r.rc.UserValue("call_id").(string)
	link, err := h.library.Signer().Verify(callID, func(name string) string {
		value, _ := r.query(name)
		return value
	}, h.now())
	switch {
	case errors.Is(err, recordings.ErrExpired):
		return reply{}, newError(http.StatusForbidden, codeExpiredURL, "The URL has expired.")
	case err != nil:
		return reply{}, newError(http.StatusForbidden, codeBadSignature, "The URL's signature is not valid.")
	}
	by := r.who.Accessor()
	if link.Recipient != "" {
		by += ":" + link.Recipient
	}
	if wait := h.fetches.take(link.CallID, by, h.now()); wait > 0 {
		return reply{}, &fault.Error{
			Kind: fault.Limit, Code: codeRateLimited, RetryAfter: wait,
			Detail: "More than " + strconv.Itoa(signedPerMinute) + " requests for the recording in a minute.",
		}
	}
	if err := h.checkNotSuspended(ctx, link.TenantID); err != nil {
		return reply{}, err
	}
	rec, err := h.find(ctx, link.TenantID, link.CallID)
	if err != nil {
		return reply{}, err
	}
	target, err := h.library.Redirect(ctx, rec, redirectLifetime)
	if err != nil {
		return reply{}, err
	}
	if target == "" || r.rc.IsHead() { // a store's URL is good for GET alone
		return h.stream(ctx, r, rec, by)
	}
	if err := h.log(ctx, r, rec, by, recordings.MethodStream); err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusFound, headers: map[string]string{"Location": target, "Cache-Control": "no-store"}}, nil
}

// checkNotSuspended refuses the signed URLs of a suspended tenant.
func (h recordingHandlers) checkNotSuspended(ctx context.Context, tenantID uuid.UUID) error {
	suspended, err := h.calls.rows.suspended(ctx, tenantID)
	if err == nil && suspended {
		return newError(http.StatusForbidden, codeBadSignature, "The tenant is suspended.")
	}
	return named(err, "recording")
}

// stream sends the audio, or the part of it that is asked for, with its access in the audit before. Who has it already, and who
// asks for its headers alone, fetches no audio.
func (h recordingHandlers) stream(ctx context.Context, r *request, rec recordings.Recording, by string) (reply, error) {
	asked, tag := &r.rc.Request.Header, `"`+cmp.Or(rec.SHA256, rec.ID.String())+`"`
	out := reply{
		status: http.StatusOK, contentType: rec.Format, length: rec.Bytes,
		headers: map[string]string{
			"Cache-Control": "private, max-age=300", "X-Content-Type-Options": "nosniff", "ETag": tag, "Accept-Ranges": "bytes",
			"Content-Disposition": `inline; filename="` + rec.CallID.String() + `.wav"`,
		},
	}
	if listsTag(string(asked.Peek("If-None-Match")), tag) {
		out.status, out.length = http.StatusNotModified, 0
		return out, nil
	}
	if r.rc.IsHead() { // for which a Range has no meaning (RFC 9110, 14.2)
		return out, nil
	}
	var span recordings.Span
	if same := string(asked.Peek("If-Range")); same == "" || same == tag {
		var err error
		var partial bool
		if span, partial, err = spanOf(asked.Peek("Range"), rec.Bytes); err != nil {
			return reply{}, err
		}
		if partial {
			out.status, out.length = http.StatusPartialContent, span.Length
			out.headers["Content-Range"] = fmt.Sprintf("bytes %d-%d/%d", span.Offset, span.Offset+span.Length-1, rec.Bytes)
		}
	}
	if err := h.logFetch(ctx, r, rec, by, out.status == http.StatusPartialContent); err != nil {
		return reply{}, err
	}
	// The stream outlives the handler, and so must not end with its context.
	var err error
	if out.stream, err = h.library.Open(context.WithoutCancel(ctx), rec, span); err != nil {
		return reply{}, h.recordingError(ctx, rec.TenantID, rec.CallID, err)
	}
	return out, nil
}

// find finds a call's finished recording.
func (h recordingHandlers) find(ctx context.Context, tenantID, callID uuid.UUID) (recordings.Recording, error) {
	rec, err := h.library.Find(ctx, tenantID, callID)
	if err == nil {
		err = rec.Err()
	}
	if err != nil {
		return rec, h.recordingError(ctx, tenantID, callID, err)
	}
	return rec, nil
}

// log writes an access to the audit. It comes first, and what can't be written is not given.
func (h recordingHandlers) log(ctx context.Context, r *request, rec recordings.Recording, by string, method recordings.Method) error {
	return h.library.LogAccess(ctx, recordings.Access{
		TenantID: rec.TenantID, CallID: rec.CallID, RecordingID: rec.ID, Accessor: by, Method: method, RemoteAddr: r.client,
	})
}

// logFetch writes a fetch of audio to the audit. The parts that one client fetches within a minute, as a player does that seeks, are one access, of
// which the first part writes the row.
func (h recordingHandlers) logFetch(ctx context.Context, r *request, rec recordings.Recording, by string, part bool) error {
	at := fetchedBy{rec.ID, by, r.client}
	if part && h.fetches.logged(at, h.now()) {
		return nil
	}
	if err := h.log(ctx, r, rec, by, recordings.MethodStream); err != nil {
		return err
	}
	if part {
		h.fetches.note(at)
	}
	return nil
}

// recordingError says why there is nothing to hand out: not yet, not any more, never, or no such call.
func (h recordingHandlers) recordingError(ctx context.Context, tenantID, callID uuid.UUID, err error) error {
	switch {
	case errors.Is(err, recordings.ErrProcessing):
		return newError(http.StatusConflict, codeRecordingPending, "The recording is still being processed.")
	case errors.Is(err, recordings.ErrFailed):
		return newError(http.StatusNotFound, codeRecordingLost, "The recording could not be processed.")
	case !errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("find the recording of call %s: %w", callID, err)
	}
	row, err := h.calls.read(ctx, tenantID, callID)
	switch {
	case err != nil:
		return err
	case row.EndTime == nil:
		return newError(http.StatusConflict, codeRecordingPending, "The call has not ended; its recording is still to come.")
	}
	return newError(http.StatusNotFound, codeRecordingMissing, "The call has no recording.")
}

package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/ringmaster/ringmaster/httpapi/auth"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
)

// Bodies are not read before their request is handled: takeBody reads what is small, and an upload is read as it is worked on.

// bodyKind says what body an operation takes.
type bodyKind uint8

const (
	noBody bodyKind = iota
	jsonBody
	// fileBody is a multipart form with a file, which is streamed.
	fileBody
)

const (
	multipartType = "multipart/form-data"
	fileField     = "file"
	// maxOpenBody bounds the body of an operation that asks for no credential, in bytes: a sign-in with each character escaped.
	maxOpenBody = 8 << 10
	// drainTime bounds the reading of a body that nobody wants, which lets the client see the answer before the connection ends.
	drainTime = 5 * time.Second
)

// maxBody bounds the body of an operation's request, in bytes. What asks for no credential is small: anybody can send it.
func (c Config) maxBody(op operation) int {
	if op.access == accessOpen {
		return min(c.MaxBodyBytes, maxOpenBody)
	}
	return c.MaxBodyBytes
}

// takeBody reads the whole body of a request, up to the limit, so that handlers have it at hand.
func takeBody(rc *fasthttp.RequestCtx, limit int) error {
	if !rc.Request.IsBodyStream() {
		return nil
	}
	if rc.Request.Header.ContentLength() > limit {
		return fasthttp.ErrBodyTooLarge
	}
	body, err := io.ReadAll(io.LimitReader(rc.RequestBodyStream(), int64(limit)+1))
	if err != nil {
		return err
	}
	if len(body) > limit {
		return fasthttp.ErrBodyTooLarge
	}
	if err := rc.Request.CloseBodyStream(); err != nil {
		return err
	}
	rc.Request.SetBodyRaw(body)
	return nil
}

// endBody closes the connection behind a request whose body was not read to its end: what is left of it would be taken for the
// next request.
func endBody(rc *fasthttp.RequestCtx) {
	if !rc.Request.IsBodyStream() {
		return
	}
	if status := rc.Response.StatusCode(); status == http.StatusRequestTimeout || status == http.StatusBadRequest {
		rc.SetConnectionClose() // nothing more comes
		return
	}
	stream := rc.RequestBodyStream()
	_ = rc.Conn().SetReadDeadline(time.Now().Add(drainTime)) // a connection that is gone fails the read
	if _, err := io.Copy(io.Discard, stream); err != nil {
		rc.SetConnectionClose()
	}
}

// uploadBody is the body of an upload: bounded in its length, while the client must not stand still for longer than the read
// time-out.
type uploadBody struct {
	src     io.Reader
	conn    net.Conn
	timeout time.Duration
	left    int64
}

func (u *uploadBody) Read(p []byte) (int, error) {
	if u.left <= 0 {
		return 0, fasthttp.ErrBodyTooLarge
	}
	if err := u.conn.SetReadDeadline(time.Now().Add(u.timeout)); err != nil {
		return 0, err
	}
	n, err := u.src.Read(p[:min(int64(len(p)), u.left)])
	u.left -= int64(n)
	return n, err
}

// upload adds the leads of a file to a campaign.
func (h leadHandlers) upload(ctx context.Context, r *request) (reply, error) {
	campaignID, err := r.pathID("campaign_id", campaignNoun)
	if err != nil {
		return reply{}, err
	}
	if _, err := h.campaigns.GetCampaign(ctx, r.who.TenantID, campaignID); err != nil {
		return reply{}, err
	}
	if err := h.openFile(ctx, r); err != nil {
		return reply{}, h.uploadFault(err)
	}
	result, err := h.leads.UploadLeads(ctx, r.who.TenantID, campaignID, r.file)
	if err != nil {
		return reply{}, h.uploadFault(err)
	}
	return ok(result), nil
}

// openFile opens the file of an upload.
func (h leadHandlers) openFile(ctx context.Context, r *request) error {
	part, err := h.uploadedFile(r)
	if err != nil {
		return err
	}
	file := h.streams.guard(ctx, r, part)
	if r.file = file; r.fileSum != nil {
		r.file = io.TeeReader(file, r.fileSum)
	}
	return nil
}

// guarded is a file that is read on the word of a credential: it ends with it, between the rows that are in and those that are not.
type guarded struct {
	io.Reader
	changes func() <-chan struct{}
	changed <-chan struct{} // closed once credentials may have changed since the last look
	check   func() error
}

// guard has a request's file end when its credential does. The last look is at the end of the file, before the last rows are written.
func (s streams) guard(ctx context.Context, r *request, file io.Reader) *guarded {
	changes := func() <-chan struct{} { return s.changes(r.who.TenantID) }
	return &guarded{Reader: file, changes: changes, changed: changes(), check: s.again(ctx, r)}
}

// again gives what looks a request's credential up once more: an error says that it may not go on.
func (s streams) again(ctx context.Context, r *request) func() error {
	header := string(r.rc.Request.Header.Peek("Authorization"))
	return func() error {
		token, err := auth.Bearer(header)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, s.timeout)
		defer cancel()
		who, err := s.authenticate(ctx, token)
		switch {
		case unanswered(err):
			return nil
		case err != nil:
			return err
		}
		return authorize(&request{rc: r.rc, op: r.op, who: who})
	}
}

// unanswered tells of a credential that the database did not look up: who was let in isn't put out by that.
func unanswered(err error) bool {
	for _, of := range []error{store.ErrUnavailable, store.ErrTooLong, store.ErrBusy, context.DeadlineExceeded} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

// Read implements io.Reader.
func (g *guarded) Read(p []byte) (int, error) {
	n, err := g.Reader.Read(p)
	changed := errors.Is(err, io.EOF)
	select {
	case <-g.changed:
		g.changed, changed = g.changes(), true
	default:
	}
	if changed {
		if refusal := g.check(); refusal != nil {
			return 0, refusal
		}
	}
	return n, err
}

// hashFile is the hash of an upload's file, of which it reads what is left. The form around it has another boundary each time.
func (h leadHandlers) hashFile(r *request) ([]byte, error) {
	if r.file == nil {
		if err := h.openFile(context.Background(), r); err != nil {
			return nil, h.uploadFault(err)
		}
	}
	if _, err := io.Copy(io.Discard, r.file); err != nil {
		return nil, h.uploadFault(err)
	}
	return r.fileSum.Sum(nil), nil
}

// uploadedFile finds the file in the form; parts before it are passed over.
func (h leadHandlers) uploadedFile(r *request) (io.Reader, error) {
	_, params, err := mime.ParseMediaType(string(r.rc.Request.Header.ContentType()))
	if err != nil || params["boundary"] == "" {
		return nil, newError(http.StatusUnprocessableEntity, codeValidation, "The form has no boundary.")
	}
	if !r.rc.Request.IsBodyStream() {
		return nil, noFile()
	}
	if r.rc.Request.Header.ContentLength() > h.maxUpload {
		return nil, fasthttp.ErrBodyTooLarge
	}
	form := multipart.NewReader(&uploadBody{
		src: r.rc.RequestBodyStream(), conn: r.rc.Conn(), timeout: h.readTimeout, left: int64(h.maxUpload),
	}, params["boundary"])
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return nil, noFile()
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errUploadBroken, err)
		}
		if part.FormName() == fileField {
			return &formFile{part}, nil
		}
	}
}

// formFile tells a form that breaks off from a file that ends.
type formFile struct{ part *multipart.Part }

func (f *formFile) Read(p []byte) (int, error) {
	n, err := f.part.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %w", errUploadBroken, err)
	}
	return n, err
}

// errUploadBroken says that an upload did not arrive whole.
var errUploadBroken = errors.New("upload broke off")

func noFile() error { return fault.InField(fileField, "is required: a CSV or XLSX file") }

// uploadFault tells a broken or oversized upload from other faults.
func (h leadHandlers) uploadFault(err error) error {
	var timeout net.Error
	switch {
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		return bodyTooLarge(h.maxUpload)
	case errors.As(err, &timeout) && timeout.Timeout() && errors.Is(err, errUploadBroken):
		return newError(http.StatusRequestTimeout, codeRequestTimeout, "The upload did not arrive in time.")
	case errors.Is(err, errUploadBroken):
		return newError(http.StatusBadRequest, codeBadRequest, "The upload is not a readable form, or was interrupted.")
	default:
		return err
	}
}

// checkUploadType refuses bodies that say they are no form.
func checkUploadType(rc *fasthttp.RequestCtx) error {
	media, _, _ := strings.Cut(string(rc.Request.Header.ContentType()), ";")
	if strings.EqualFold(strings.TrimSpace(media), multipartType) {
		return nil
	}
	return newError(http.StatusUnsupportedMediaType, codeUnsupportedMedia, "The body must be sent as multipart/form-data.")
}

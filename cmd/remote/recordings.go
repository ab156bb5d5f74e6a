package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/httpapi/client"
)

type recordingsCmd struct {
	Get      recordingsGetCmd      `cmd:"" help:"Make a URL of a call's recording that needs no credential, for seven days."`
	Download recordingsDownloadCmd `cmd:"" help:"Fetch the audio of a call's recording."`
	Open     recordingsOpenCmd     `cmd:"" help:"Fetch the audio behind a signed URL, which needs no credential."`
}

// ofCall is the argument of commands on a call's recording.
type ofCall struct {
	one
	Wait  bool          `help:"Wait until the call has ended and the recording is there."`
	Every time.Duration `default:"2s" hidden:"" help:"How often to look."`
}

// until repeats what is refused while the recording is made, if it is to be waited for.
func (o ofCall) until(ctx context.Context, do func() error) error {
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	for {
		err := do()
		if !o.Wait || client.CodeOf(err) != client.ErrorCodeRecordingProcessing {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-tick.C:
		}
	}
}

type recordingsGetCmd struct {
	flags
	ofCall
}

// Help shows how it is used.
func (recordingsGetCmd) Help() string { return example("recordings get " + exampleID) }

// Run shows it.
func (cmd recordingsGetCmd) Run(ctx context.Context, e Env) error {
	first := []string{"call_id", "url", "expires_at"}
	return show(ctx, cmd.flags, e, first, func(ctx context.Context, c *client.Client) (url *client.RecordingURL, err error) {
		err = cmd.until(ctx, func() error {
			url, err = c.Recordings.GetRecording(ctx, cmd.ID)
			return err
		})
		return url, err
	})
}

type recordingsDownloadCmd struct {
	flags
	ofCall
	Out string `short:"o" placeholder:"FILE" help:"The file, which must not be there yet: the call's id with .wav by default; - writes to standard output."`
}

// Help shows how it is used.
func (recordingsDownloadCmd) Help() string {
	return "What was fetched before it broke off is in the file's name with .part: run the same command again to go on.\n\n" +
		example("recordings download "+exampleID+" --out call.wav", "recordings download "+exampleID+" --wait")
}

// Run fetches it.
func (cmd recordingsDownloadCmd) Run(ctx context.Context, e Env) error {
	c, err := cmd.client(e)
	if err != nil {
		return err
	}
	d := download{out: cmd.Out, json: cmd.JSON, fetch: func(ctx context.Context, to io.Writer, how client.Download) error {
		_, err := c.Recordings.DownloadRecording(ctx, cmd.ID, to, how)
		return err
	}}
	return d.run(ctx, e, cmd.ID.String(), func(do func() error) error { return cmd.until(ctx, do) })
}

type recordingsOpenCmd struct {
	flags
	URL string `arg:"" help:"The URL, as recordings get, a call or an event has it."`
	Out string `short:"o" placeholder:"FILE" help:"The file, which must not be there yet: the call's id with .wav by default; - writes to standard output."`
}

// Help shows how it is used.
func (recordingsOpenCmd) Help() string {
	return example("recordings open 'https://ringmaster.example/recordings/" + exampleID + "?expires=…' --out call.wav")
}

// Run fetches it.
func (cmd recordingsOpenCmd) Run(ctx context.Context, e Env) error {
	at, err := url.Parse(cmd.URL)
	if err != nil || at.Host == "" {
		return errors.New("that is not the URL of a recording")
	}
	c, err := cmd.newClient(e, at.Scheme+"://"+at.Host, "")
	if err != nil {
		return err
	}
	id := path.Base(at.Path)
	if _, err := uuid.Parse(id); err != nil {
		id = "recording"
	}
	d := download{out: cmd.Out, json: cmd.JSON, fetch: func(ctx context.Context, to io.Writer, how client.Download) error {
		_, err := c.Recordings.OpenSignedRecording(ctx, cmd.URL, to, how)
		return err
	}}
	return d.run(ctx, e, id, func(do func() error) error { return do() })
}

// download brings audio into a file.
type download struct {
	out   string
	json  bool
	fetch func(ctx context.Context, to io.Writer, how client.Download) error
}

// run fetches a recording; until repeats what may be refused at first.
func (d download) run(ctx context.Context, e Env, id string, until func(do func() error) error) error {
	if d.out == "-" {
		return until(func() error { return d.shown(ctx, e, e.Stdout, client.Download{}) })
	}
	path := cmp.Or(d.out, id+".wav")
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s exists already", path)
	}
	part := path + ".part"
	file, err := ownFile(part)
	if err != nil {
		return err
	}
	err = until(func() error { return d.goOn(ctx, e, file) })
	if err = errors.Join(err, file.Close()); err != nil {
		if info, bad := os.Stat(part); bad == nil && info.Size() == 0 {
			_ = errors.Join(os.Remove(part), os.Remove(part+tagEnding))
		}
		return err
	}
	_ = os.Remove(part + tagEnding)
	if err := os.Rename(part, path); err != nil {
		return err
	}
	if d.json {
		return printJSON(e, map[string]any{"id": id, "file": path})
	}
	_, err = fmt.Fprintln(e.Stdout, path)
	return err
}

// tagEnding is of the file that has the entity tag of what is in a part.
const tagEnding = ".etag"

// ownFile opens or makes a file that is this user's alone: somebody else could have put one there, or a link.
func ownFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil {
		if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Geteuid() || !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0 {
			err = fmt.Errorf("%s is not a regular file that only you own and can write: remove it first", path)
		}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// goOn fetches what a file doesn't have yet, or all of it where that is not the recording's.
func (d download) goOn(ctx context.Context, e Env, file *os.File) error {
	tags, err := ownFile(file.Name() + tagEnding)
	if err != nil {
		return err
	}
	defer func() { _ = tags.Close() }()
	tag, err := io.ReadAll(tags)
	if err != nil {
		return err
	}
	have, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if have > 0 && len(tag) > 0 {
		err = d.shown(ctx, e, file, client.Download{Offset: have, Tag: string(tag)})
		refusal, refused := errors.AsType[*client.Error](err)
		other := errors.Is(err, client.ErrOtherRecording) || refused && refusal.Status == http.StatusRequestedRangeNotSatisfiable
		if !other {
			return err
		}
	}
	_, err = file.Seek(0, io.SeekStart)
	if err = errors.Join(err, file.Truncate(0)); err != nil {
		return err
	}
	return d.shown(ctx, e, file, client.Download{Begin: func(_ int64, tag string) error {
		_, err := tags.WriteAt([]byte(tag), 0)
		return errors.Join(err, tags.Truncate(int64(len(tag))))
	}})
}

// shown fetches with a bar.
func (d download) shown(ctx context.Context, e Env, to io.Writer, how client.Download) error {
	bar := e.bar(-1, "recording", true)
	defer func() { _ = bar.Clear() }()
	begin := how.Begin
	how.Begin = func(size int64, tag string) error {
		bar.ChangeMax64(size)
		_ = bar.Set64(how.Offset)
		if begin == nil {
			return nil
		}
		return begin(size, tag)
	}
	return d.fetch(ctx, io.MultiWriter(to, bar), how)
}

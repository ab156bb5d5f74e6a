package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/ringmaster/ringmaster/httpapi/client"
)

type recordingsCmd struct {
	Get      recordingsGetCmd      `cmd:"" help:"Make a URL of a call's recording that needs no credential, for seven days."`
	Download recordingsDownloadCmd `cmd:"" help:"Fetch the audio of a call's recording."`
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
	if cmd.Out == "-" {
		return cmd.until(ctx, func() error { return cmd.fetch(ctx, e, c, e.Stdout, client.Download{}) })
	}
	path := cmp.Or(cmd.Out, cmd.ID.String()+".wav")
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s is there already", path)
	}
	part := path + ".part"
	file, err := ownFile(part)
	if err != nil {
		return err
	}
	err = cmd.until(ctx, func() error { return cmd.goOn(ctx, e, c, file) })
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
	if cmd.JSON {
		return printJSON(e, map[string]any{"id": cmd.ID, "file": path})
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
			err = fmt.Errorf("%s is not a file of yours alone: remove it first", path)
		}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// goOn fetches what a file doesn't have yet, or all of it where that is not the recording's.
func (cmd recordingsDownloadCmd) goOn(ctx context.Context, e Env, c *client.Client, file *os.File) error {
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
		err = cmd.fetch(ctx, e, c, file, client.Download{Offset: have, Tag: string(tag)})
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
	return cmd.fetch(ctx, e, c, file, client.Download{Begin: func(_ int64, tag string) error {
		_, err := tags.WriteAt([]byte(tag), 0)
		return errors.Join(err, tags.Truncate(int64(len(tag))))
	}})
}

func (cmd recordingsDownloadCmd) fetch(ctx context.Context, e Env, c *client.Client, to io.Writer, how client.Download) error {
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
	_, err := c.Recordings.DownloadRecording(ctx, cmd.ID, io.MultiWriter(to, bar), how)
	return err
}

package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
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
		return cmd.until(ctx, func() error { return cmd.fetch(ctx, e, c, e.Stdout, 0) })
	}
	path := cmp.Or(cmd.Out, cmd.ID.String()+".wav")
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s is there already", path)
	}
	part := path + ".part"
	file, err := os.OpenFile(part, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	err = cmd.until(ctx, func() error { return cmd.goOn(ctx, e, c, file) })
	if err = errors.Join(err, file.Close()); err != nil {
		if info, bad := os.Stat(part); bad == nil && info.Size() == 0 {
			_ = os.Remove(part)
		}
		return err
	}
	if err := os.Rename(part, path); err != nil {
		return err
	}
	if cmd.JSON {
		return printJSON(e, map[string]any{"id": cmd.ID, "file": path})
	}
	_, err = fmt.Fprintln(e.Stdout, path)
	return err
}

// goOn fetches what a file doesn't have yet, or all of it where that is not the recording's.
func (cmd recordingsDownloadCmd) goOn(ctx context.Context, e Env, c *client.Client, file *os.File) error {
	have, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	err = cmd.fetch(ctx, e, c, file, have)
	if refusal, ok := errors.AsType[*client.Error](err); !ok || have == 0 || refusal.Status != http.StatusRequestedRangeNotSatisfiable {
		return err
	}
	if err := file.Truncate(0); err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return cmd.fetch(ctx, e, c, file, 0)
}

func (cmd recordingsDownloadCmd) fetch(ctx context.Context, e Env, c *client.Client, to io.Writer, have int64) error {
	bar := e.bar(-1, "recording", true)
	defer func() { _ = bar.Clear() }()
	_, err := c.Recordings.DownloadRecording(ctx, cmd.ID, io.MultiWriter(to, bar), client.Download{Offset: have, Begin: func(size int64) {
		bar.ChangeMax64(size)
		_ = bar.Set64(have)
	}})
	return err
}

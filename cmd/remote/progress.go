package remote

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// bar shows how far something is, on a terminal alone; in bytes, or in pieces.
func (e Env) bar(size int64, what string, bytes bool) *progressbar.ProgressBar {
	to, often := e.Progress, 100*time.Millisecond
	if to == nil {
		to = io.Discard
	}
	return progressbar.NewOptions64(size, progressbar.OptionSetWriter(to), progressbar.OptionSetDescription(what), progressbar.OptionThrottle(often),
		progressbar.OptionShowBytes(bytes), progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionSetRenderBlankState(true),
		progressbar.OptionSetSpinnerChangeInterval(0), progressbar.OptionSetVisibility(e.Progress != nil))
}

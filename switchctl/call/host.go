package call

import (
	"log/slog"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/fairshare"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/admission"
	"github.com/ringmaster/ringmaster/switchctl/cdr"
	"github.com/ringmaster/ringmaster/switchctl/hostlink"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// host is what calls have of the machine that they run on: its switch and media endpoint, the gate and the handler, what they are written
// to, and the other calls. A call knows nothing else of the [Controller].
type host struct {
	cfg   Config
	log   *slog.Logger
	clock Clock
	// link commands the switch; sight is what is known of its calls.
	link  switchLink
	sight *hostlink.Sight
	media mediaServer

	gate    admission.Gate
	handler switchctl.AnswerHandler
	ledger  callLedgers
	// cdrs are the switch's call records.
	cdrs    *cdr.Folder
	metrics *metrics

	registry *registry
	phones   *phone.Book
	failed   failedTrunks
	// goes are all goroutines of calls.
	goes goroutines
	// logBytes bounds what the log entries of a tenant's calls hold while they wait to be written.
	logBytes *fairshare.Bytes
	// clips are what callers hear by play_audio and hold.
	clips media.Clips
	// releaseLate gives back the unit of a transfer that was admitted after its call's end.
	releaseLate func(a *core, unit uuid.UUID)
}

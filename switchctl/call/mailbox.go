package call

import (
	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// mailboxLimit bounds what waits for one call. A call sees a few dozen events in its life.
const mailboxLimit = 256

// newMailbox is the mailbox of a call or a phone. When it is full, commands are refused with ErrMailboxFull, and the switch's informative events are
// dropped and counted. What neither can do without is always taken: a call's end, a socket, a timer, the result of its own work.
func newMailbox() *rt.Mailbox[message] {
	return rt.NewMailbox[message](mailboxLimit, ledger.ErrCallEnded, switchctl.ErrMailboxFull)
}

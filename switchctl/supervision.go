package switchctl

import (
	"context"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// SupervisorMode says who hears a supervisor.
type SupervisorMode string

// The modes of a supervisor's session.
const (
	// SupervisorListens hears both sides and is heard by nobody.
	SupervisorListens SupervisorMode = "listen"
	// SupervisorWhispers is heard by whom the caller talks with: the agent, the voice agent, the rest of a conference.
	SupervisorWhispers SupervisorMode = "whisper"
	// SupervisorBarges is heard by all.
	SupervisorBarges SupervisorMode = "barge"
)

// Supervision is a supervisor's phone that listens to calls.
type Supervision struct {
	// ID is the supervisor's session.
	ID       uuid.UUID
	TenantID uuid.UUID
	// Phone is rung for the session; its AgentID is the supervisor's user id.
	Phone phone.Spec
	// CallID is the call; uuid.Nil for a session that waits for the next one.
	CallID uuid.UUID
	// Follows: the phone stays when a call ends, and waits for the next one. Without it the session ends with its call.
	Follows bool
	Mode    SupervisorMode
}

// Supervisions is how supervisors listen to calls. call.Controller implements it.
type Supervisions interface {
	// StartSupervision rings the supervisor's phone and returns once it listens, or waits for its first call. Errors: store.ErrNotFound for a
	// call that the tenant hasn't, a [*StateError] for one that has ended or whose host is another, [ErrPhoneNotReady], [ErrLinkDown].
	StartSupervision(ctx context.Context, s Supervision) error
	// SuperviseCall has a session that follows an agent listen to the agent's next call.
	SuperviseCall(ctx context.Context, session, call uuid.UUID) error
	// ChangeSupervision gives a running session another mode. A whisper is refused by a [*StateError] while somebody outside is on the call. store.ErrNotFound: there is no such session here.
	ChangeSupervision(ctx context.Context, session uuid.UUID, mode SupervisorMode) error
	// EndSupervision hangs the supervisor's phone up. One that has ended already is what was wanted.
	EndSupervision(ctx context.Context, session uuid.UUID) error
	// ForceTransfer takes a call away from whoever has the caller and hands it to the agent who has the extension: the caller hears ringback and
	// goes to the front of the queue. Errors: store.ErrNotFound, [ErrUnknownExtension], [ErrNobodyLoggedIn], a [*StateError].
	ForceTransfer(ctx context.Context, tenant, call uuid.UUID, extension string) error
}

// SupervisionWatcher hears of sessions that end, or change, by themselves. Its methods must not block. dialer/supervisors implements it.
type SupervisionWatcher interface {
	// SupervisionEnded: the phone was hung up, its call is over, or it was lost.
	SupervisionEnded(session uuid.UUID, reason string)
	// SupervisionFellBack: a session that whispered listens alone, since somebody outside the tenant is on its call.
	SupervisionFellBack(session uuid.UUID)
}

// Why a supervisor's session has ended by itself.
const (
	SupervisionHungUp    = "hung_up"
	SupervisionCallEnded = "call_ended"
	SupervisionLost      = "lost"
)

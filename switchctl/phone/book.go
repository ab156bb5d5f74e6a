package phone

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/cdr"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// Host is what phones have of the machine that they are rung from.
type Host struct {
	// NodeID names the controller, Context the dialplan's context, Profile the switch's SIP profile that phones register at.
	NodeID, Context, Profile string
	// Link commands the switch.
	Link Link
	// CDRs are its call records.
	CDRs *cdr.Folder
	// Watcher hears of every change of a phone; may be nil.
	Watcher Watcher
	Clock   rt.Clock
	Log     *slog.Logger
	// Go starts a goroutine that the host's end waits for.
	Go      func(fn func())
	Metrics Metrics
	// Panics counts those in a phone, Recovered the legs that were found again, by what became of them.
	Panics    prometheus.Counter
	Recovered *prometheus.CounterVec
	// Draining refuses a new phone before the book accepts any, and after it has ended.
	Draining error
}

// Link is what phones need of the link to the switch.
type Link interface {
	fs.Switch
	// BgAPI sends a background command; done is called once with the reply, or with the error that kept it away. It is not called when
	// BgAPI itself returns an error.
	BgAPI(ctx context.Context, cmd fs.Command, done func(body string, err error)) error
	// Generation counts the connections made; 0 while there is none.
	Generation() uint64
}

// ErrUnknown says that no phone of this agent is held here.
var ErrUnknown = errors.New("switchctl: agent's phone is not known here")

// errFull refuses what a phone can do without.
var errFull = errors.New("switchctl: too many messages wait for this phone")

// Book has the phones that this controller keeps, by agent, by the channel of their leg, and by account.
type Book struct {
	host     Host
	mu       sync.Mutex
	phones   map[uuid.UUID]*phone
	channels map[string]*phone
	accounts map[string]*phone
	// run starts a phone; nil before Accept and after Refuse.
	run func(p *phone)
	// synced is the generation of the host link whose channels have been compared with the phones' legs.
	synced uint64
}

// NewBook makes an empty book.
func NewBook(h Host) *Book {
	return &Book{host: h, phones: map[uuid.UUID]*phone{}, channels: map[string]*phone{}, accounts: map[string]*phone{}}
}

// Accept lets phones start; they live until ctx ends.
func (b *Book) Accept(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.run = func(p *phone) { b.host.Go(func() { p.run(ctx) }) }
}

// Refuse lets no phone start any more.
func (b *Book) Refuse() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.run = nil
}

// LetGo ends the phones' goroutines; legs that are up stay on the switch.
func (b *Book) LetGo() {
	for _, p := range b.all() {
		p.post(detach{})
	}
}

// send gives m to the agent's phone, which is made first when there is none and spec names it.
func (b *Book) send(agent uuid.UUID, spec *Spec, m message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.phones[agent]
	switch {
	case p != nil:
	case spec == nil:
		return ErrUnknown
	case b.run == nil:
		return b.host.Draining
	default:
		p = newPhone(b, *spec)
		p.compared = b.synced
		b.phones[agent] = p
		b.accounts[account(spec.Extension, spec.Domain)] = p
		b.run(p)
	}
	return p.box.Put(m)
}

// rename moves a phone to the account that its spec names now.
func (b *Book) rename(p *phone, before, now Spec) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := account(before.Extension, before.Domain); b.accounts[old] == p {
		delete(b.accounts, old)
	}
	b.accounts[account(now.Extension, now.Domain)] = p
}

// retire takes a phone out that nobody needs; false when a message has come meanwhile.
func (b *Book) retire(p *phone) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !p.box.CloseEmpty() {
		return false
	}
	b.forget(p)
	return true
}

// drop takes a phone out whose goroutine ends, and gives what nobody has read.
func (b *Book) drop(p *phone) []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget(p)
	return p.box.Close()
}

func (b *Book) forget(p *phone) {
	if b.phones[p.agent] == p {
		delete(b.phones, p.agent)
	}
	for name, q := range b.accounts {
		if q == p {
			delete(b.accounts, name)
		}
	}
	for channel, q := range b.channels {
		if q == p {
			delete(b.channels, channel)
		}
	}
}

// Compared notes that a generation's channels have been compared. A phone hears of it behind the leg that was found for it.
func (b *Book) Compared(generation uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.synced = generation
	for _, p := range b.phones {
		_ = p.box.Put(compared{generation}) // or its goroutine has ended
	}
}

func (b *Book) bind(p *phone, channel string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.channels[channel] = p
}

// bindAgent notes a channel as the leg of the agent's phone.
func (b *Book) bindAgent(agent uuid.UUID, channel string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.phones[agent]; p != nil {
		b.channels[channel] = p
	}
}

func (b *Book) unbind(channel string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.channels, channel)
}

// ofChannel finds the phone whose leg has this channel.
func (b *Book) ofChannel(channel string) *phone {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.channels[channel]
}

func (b *Book) ofAccount(extension, domain string) *phone {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.accounts[account(extension, domain)]
}

func (b *Book) all() []*phone {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]*phone, 0, len(b.phones))
	for _, p := range b.phones {
		list = append(list, p)
	}
	return list
}

// Legs are the channels of the phones' legs.
func (b *Book) Legs() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.channels))
}

// account is extension and domain as the registrar compares them.
func account(extension, domain string) string {
	return strings.ToLower(extension) + "@" + strings.ToLower(domain)
}

// Check refuses a phone that can't be dialed, with an [*fs.VariableError].
func (b *Book) Check(spec Spec) error {
	_, err := endpoint(b.host.Profile, spec)
	return err
}

// Hold keeps the agent's phone from now on: a held one gets its leg as soon as it is registered. It may be called again, also with another spec.
// Errors: those of [Book.Check], and [Host.Draining].
func (b *Book) Hold(spec Spec) error {
	if err := b.Check(spec); err != nil {
		return err
	}
	return b.send(spec.AgentID, &spec, hold{spec: spec})
}

// Release ends that, and the phone's leg, once the call on it is over. It returns when the leg has been given up.
func (b *Book) Release(ctx context.Context, agent uuid.UUID) error {
	done := make(chan struct{})
	if err := b.send(agent, nil, release{done: done}); err != nil {
		return nil //nolint:nilerr // a phone that is not kept is what was wanted
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ReleaseAll ends the legs of all phones.
func (b *Book) ReleaseAll(ctx context.Context) error {
	for _, p := range b.all() {
		if err := b.Release(ctx, p.agent); err != nil {
			return err
		}
	}
	return nil
}

// Ring plays ringback to a held phone while the call that its agent has dialed rings, or ends it.
func (b *Book) Ring(agent uuid.UUID, on bool) error { return b.send(agent, nil, ring{on: on}) }

// States tells how all phones stand, in the order of their agents' ids.
func (b *Book) States() []State {
	phones := b.all()
	states := make([]State, 0, len(phones))
	for _, p := range phones {
		states = append(states, *p.state.Load())
	}
	slices.SortFunc(states, func(a, b State) int { return strings.Compare(a.AgentID.String(), b.AgentID.String()) })
	return states
}

// Claim takes a phone for a call.
func (b *Book) Claim(spec Spec, c Claim) error { return b.send(spec.AgentID, &spec, claim{Claim: c}) }

// Join takes the phone whose leg this is for a call that was found bridged with it.
func (b *Book) Join(channel string, call Claimant) {
	if p := b.ofChannel(channel); p != nil {
		p.post(claim{Claim: Claim{Call: call}, channel: channel})
	} else {
		call.LegGone(Lost)
	}
}

// Free ends a call's claim. A phone that is not kept any more has none to end.
func (b *Book) Free(agent uuid.UUID, call Claimant, how Free) {
	_ = b.send(agent, nil, free{call: call, Free: how}) // see above
}

// Agent tells whose phone's leg a channel is; nil for nobody's.
func (b *Book) Agent(channel string) *uuid.UUID {
	if p := b.ofChannel(channel); p != nil {
		return &p.agent
	}
	return nil
}

// Event brings an event of an agent's leg to its phone.
func (b *Book) Event(ev *esl.Event) {
	if p := b.ofChannel(ev.UUID()); p != nil {
		p.post(legEvent{ev: ev})
	}
}

// Registered brings a change of a registration to the phone of the account.
func (b *Book) Registered(ev *esl.Event) {
	user, host := ev.Get("from-user"), ev.Get("from-host")
	if user == "" {
		user, host = ev.Get("user"), ev.Get("host") // sofia::expire names them so
	}
	p := b.ofAccount(user, host)
	if p == nil {
		return
	}
	switch ev.Get("Event-Subclass") {
	case fs.SofiaRegister:
		p.post(seen{registered: true, contact: ev.Get("contact")})
	case fs.SofiaUnregister, fs.SofiaExpire:
		p.post(seen{})
	}
}

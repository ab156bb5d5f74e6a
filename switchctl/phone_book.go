package switchctl

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// phoneBook is the cache of the phones that this controller keeps, by agent, by the channel of their leg, and by account.
type phoneBook struct {
	mu       sync.Mutex
	phones   map[uuid.UUID]*phone
	channels map[string]*phone
	accounts map[string]*phone
	// make makes a phone, which run starts; that is nil before Start and once Close waits.
	make func(spec PhoneSpec) *phone
	run  func(p *phone)
	// synced is the generation of the host link whose channels have been compared with the phones' legs.
	synced uint64
}

func newPhoneBook() *phoneBook {
	return &phoneBook{phones: map[uuid.UUID]*phone{}, channels: map[string]*phone{}, accounts: map[string]*phone{}}
}

// accept lets phones start; nil refuses them.
func (b *phoneBook) accept(run func(p *phone)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.run = run
}

// send gives m to the agent's phone, which is made first when there is none and spec names it.
func (b *phoneBook) send(agent uuid.UUID, spec *PhoneSpec, m message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.phones[agent]
	switch {
	case p != nil:
	case spec == nil:
		return ErrUnknownPhone
	case b.run == nil:
		return ErrDraining
	default:
		p = b.make(*spec)
		b.phones[agent] = p
		b.accounts[account(spec.Extension, spec.Domain)] = p
		b.run(p)
	}
	return p.box.Put(m)
}

// rename moves a phone to the account that its spec names now.
func (b *phoneBook) rename(p *phone, before, now PhoneSpec) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := account(before.Extension, before.Domain); b.accounts[old] == p {
		delete(b.accounts, old)
	}
	b.accounts[account(now.Extension, now.Domain)] = p
}

// retire takes a phone out that nobody needs; false when a message has come meanwhile.
func (b *phoneBook) retire(p *phone) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !p.box.CloseEmpty() {
		return false
	}
	b.forget(p)
	return true
}

// drop takes a phone out whose goroutine ends, and gives what nobody has read.
func (b *phoneBook) drop(p *phone) []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget(p)
	return p.box.Close()
}

func (b *phoneBook) forget(p *phone) {
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

// sync notes that a generation's channels have been compared.
func (b *phoneBook) sync(generation uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.synced = generation
}

// knows reports whether the legs that the switch has are known, so that no second one is dialed beside one of before.
func (b *phoneBook) knows(generation uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return generation != 0 && b.synced == generation
}

func (b *phoneBook) bind(p *phone, channel string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.channels[channel] = p
}

// bindAgent notes a channel as the leg of the agent's phone.
func (b *phoneBook) bindAgent(agent uuid.UUID, channel string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.phones[agent]; p != nil {
		b.channels[channel] = p
	}
}

func (b *phoneBook) unbind(channel string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.channels, channel)
}

// ofChannel finds the phone whose leg has this channel.
func (b *phoneBook) ofChannel(channel string) *phone {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.channels[channel]
}

func (b *phoneBook) ofAccount(extension, domain string) *phone {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.accounts[account(extension, domain)]
}

func (b *phoneBook) all() []*phone {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]*phone, 0, len(b.phones))
	for _, p := range b.phones {
		list = append(list, p)
	}
	return list
}

// account is extension and domain as the registrar compares them.
func account(extension, domain string) string {
	return strings.ToLower(extension) + "@" + strings.ToLower(domain)
}

// HoldPhone keeps the agent's phone from now on: a held one gets its leg as soon as it is registered. It may be called again,
// also with another spec. Errors: [*fs.VariableError] for an account that can't be dialed, [ErrDraining].
func (c *Controller) HoldPhone(_ context.Context, spec PhoneSpec) error {
	if _, err := phoneEndpoint(c.cfg.MediaProfile, spec); err != nil {
		return err
	}
	return c.phones.send(spec.AgentID, &spec, phoneHold{spec: spec})
}

// ReleasePhone ends that, and the phone's leg, once the call on it is over. It returns when the leg has been given up.
func (c *Controller) ReleasePhone(ctx context.Context, agentID uuid.UUID) error {
	done := make(chan struct{})
	if err := c.phones.send(agentID, nil, phoneRelease{done: done}); err != nil {
		return nil //nolint:nilerr // a phone that is not kept is what was wanted
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// RingPhone plays ringback to a held phone while the call that its agent has dialed rings, or ends it.
func (c *Controller) RingPhone(_ context.Context, agentID uuid.UUID, on bool) error {
	return c.phones.send(agentID, nil, phoneRing{on: on})
}

// Phones tells how all phones stand, in the order of their agents' ids.
func (c *Controller) Phones() []PhoneState {
	phones := c.phones.all()
	states := make([]PhoneState, 0, len(phones))
	for _, p := range phones {
		states = append(states, *p.state.Load())
	}
	slices.SortFunc(states, func(a, b PhoneState) int { return strings.Compare(a.AgentID.String(), b.AgentID.String()) })
	return states
}

// phoneEvent brings an event of an agent's leg to its phone.
func (c *Controller) phoneEvent(ev *esl.Event) {
	if p := c.phones.ofChannel(ev.UUID()); p != nil {
		p.post(channelEvent{ev: ev, role: roleAgent})
	}
}

// phoneRegistered brings a change of a registration to the phone of the account.
func (c *Controller) phoneRegistered(ev *esl.Event) {
	user, host := ev.Get("from-user"), ev.Get("from-host")
	if user == "" {
		user, host = ev.Get("user"), ev.Get("host") // sofia::expire names them so
	}
	p := c.phones.ofAccount(user, host)
	if p == nil {
		return
	}
	switch ev.Get("Event-Subclass") {
	case fs.SofiaRegister:
		p.post(phoneSeen{registered: true, contact: ev.Get("contact")})
	case fs.SofiaUnregister, fs.SofiaExpire:
		p.post(phoneSeen{})
	}
}

// hangupPhones ends the legs of all phones.
func (c *Controller) hangupPhones(ctx context.Context) error {
	for _, p := range c.phones.all() {
		if err := c.ReleasePhone(ctx, p.agent); err != nil {
			return err
		}
	}
	return nil
}

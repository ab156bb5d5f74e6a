package e2e

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/esl"
)

// phones is the control surface of the carrier's softphones.
func (c *customer) phones() *simcarrier.Client { return &simcarrier.Client{BaseURL: c.carrier} }

// accounts derives SIP passwords as the controller does.
func (c *customer) accounts(t *testing.T) *acd.Accounts {
	t.Helper()
	return acd.KeptAccounts(c.open(t), stack.SIPDomain)
}

// freshExtension gives a new agent of the tenant, with an extension that no other test has.
func (c *customer) freshExtension(t *testing.T) (extension string, user uuid.UUID) {
	t.Helper()
	user, err := uuid.NewV7()
	require.NoError(t, err)
	extension = strconv.FormatInt(600000+theSuite.extensions.Add(1), 10)
	storetest.Exec(t, c.open(t), c.tenant.ID, `INSERT INTO users (tenant_id, id, email, password_hash, role, extension)
		VALUES ($1, $2::uuid, $2::uuid::text || '@phones.test', 'none', 'agent', $3)`, c.tenant.ID, user, extension)
	return extension, user
}

// softphone adds a softphone of an account and removes it at the end of the test.
func (c *customer) softphone(t *testing.T, spec simcarrier.AgentSpec) simcarrier.AgentState {
	t.Helper()
	spec.Domain = stack.SIPDomain
	state, err := c.phones().AddAgent(t.Context(), spec)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = c.phones().RemoveAgent(context.WithoutCancel(t.Context()), spec.Extension) })
	return state
}

// events collects the events of a subclass that concern one user.
type events struct {
	mu   sync.Mutex
	list []*esl.Event
}

func (e *events) of(subclass, user string) []*esl.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []*esl.Event
	for _, ev := range e.list {
		if ev.Subclass() == subclass && ev.Get("from-user") == user {
			out = append(out, ev)
		}
	}
	return out
}

// watch subscribes to the registrar's events.
func (c *customer) watch(t *testing.T) (*events, *esl.Conn) {
	t.Helper()
	conn, err := esl.Dial(t.Context(), c.Bootstrap.Switch.ESL, c.SwitchPassword(), esl.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	seen := &events{}
	conn.Handle(func(e *esl.Event) {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		seen.list = append(seen.list, e)
	})
	_, err = conn.Command(t.Context(), "event plain CUSTOM sofia::register sofia::unregister sofia::expire sofia::register_failure")
	require.NoError(t, err)
	return seen, conn
}

// A softphone registers with the account that the directory knows, is called by its extension and heard; nobody registers with
// another password, as somebody else, or with the password of before the latest login.
func TestSoftphoneRegistersThroughTheDirectory(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		extension, user := c.freshExtension(t)
		second, _ := c.freshExtension(t)
		accounts := c.accounts(t)
		seen, conn := c.watch(t)
		atOnce := simcarrier.AgentManner{AnswerAfterMS: 60_000}
		state := c.softphone(t, simcarrier.AgentSpec{
			Extension: extension, Password: accounts.Password(extension, 0), Voice: "tone:1000", AgentManner: atOnce,
		})
		require.True(t, state.Registered, "%+v", state)
		require.Equal(t, 200, state.SIPStatus)
		eventually(t, 5*time.Second, "the switch tells of the registration", func() bool { return len(seen.of("sofia::register", extension)) == 1 })
		event := seen.of("sofia::register", extension)[0]
		require.Equal(t, user.String(), event.Get("rm_user_id"))
		require.Equal(t, stack.SIPDomain, event.Get("from-host"))
		require.Equal(t, "120", event.Get("expires"))
		require.Equal(t, "internal", event.Get("profile-name"))

		state = c.softphone(t, simcarrier.AgentSpec{Extension: second, Password: accounts.Password(second, 0), Voice: "tone:1400"})
		require.True(t, state.Registered, "%+v", state)
		dial := func(extension string) string {
			return "originate {sip_auto_answer=true,originate_timeout=10}sofia/internal/" + extension + "%" + stack.SIPDomain
		}
		_, err := conn.API(t.Context(), dial(extension)+" &bridge(sofia/internal/"+second+"%"+stack.SIPDomain+")")
		require.NoError(t, err)
		for hears, hz := range map[string]float64{extension: 1400, second: 1000} {
			eventually(t, 15*time.Second, hears+" hears the other", func() bool {
				s, err := c.phones().Agent(t.Context(), hears)
				require.NoError(t, err)
				return s.Call != nil && len(onsets(s.Call.Heard, hz)) > 0
			})
		}
		_, err = c.phones().HangupAgent(t.Context(), extension)
		require.NoError(t, err)
		eventually(t, 5*time.Second, "the other is hung up", func() bool {
			s, err := c.phones().Agent(t.Context(), second)
			require.NoError(t, err)
			return !s.Call.Live
		})

		_, err = c.phones().RemoveAgent(t.Context(), extension)
		require.NoError(t, err)
		eventually(t, 5*time.Second, "the switch tells of its end", func() bool { return len(seen.of("sofia::unregister", extension)) == 1 })
		var refusal *esl.ReplyError
		_, err = conn.API(t.Context(), dial(extension)+" &park")
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, "USER_NOT_REGISTERED", refusal.Cause())
	})
}

func TestSoftphoneIsRefused(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		extension, user := c.freshExtension(t)
		accounts := c.accounts(t)
		_, conn := c.watch(t)
		refused := func(extension, password string) {
			t.Helper()
			state := c.softphone(t, simcarrier.AgentSpec{Extension: extension, Password: password})
			require.False(t, state.Registered)
			require.Equal(t, 403, state.SIPStatus)
		}
		refused(extension, "guessed")
		refused("699999", accounts.Password("699999", 0))
		old := accounts.Password(extension, 0)
		require.True(t, c.softphone(t, simcarrier.AgentSpec{Extension: extension, Password: old}).Registered)
		// What a login does: another epoch, and the switch forgets what it kept.
		require.NoError(t, c.open(t).InTenant(t.Context(), c.tenant.ID, func(tx *store.Tx) error {
			_, err := tx.Pgx().Exec(t.Context(), `INSERT INTO agents (tenant_id, id, status, node, last_status_at, sip_epoch)
				VALUES ($1, $2, 'offline', 'dev', now(), 1)`, c.tenant.ID, user)
			return err
		}))
		out, err := conn.API(t.Context(), "xml_flush_cache id "+extension+" "+stack.SIPDomain)
		require.NoError(t, err)
		require.Contains(t, out, "+OK cleared 1 entry")
		refused(extension, old)
		require.True(t, c.softphone(t, simcarrier.AgentSpec{Extension: extension, Password: accounts.Password(extension, 1)}).Registered)
	})
}

// A phone whose user's sessions have ended is registered no more, and its password is refused, whatever the switch had kept.
func TestSoftphoneOfAnEndedSession(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		extension, user := c.freshExtension(t)
		_, conn := c.watch(t)
		tenant := c.tenant.ID
		exec := func(sql string, args ...any) {
			require.NoError(t, c.open(t).InTenant(t.Context(), tenant, func(tx *store.Tx) error {
				_, err := tx.Pgx().Exec(t.Context(), sql, args...)
				return err
			}))
		}
		exec(`INSERT INTO agents (tenant_id, id, status, node, last_status_at, sip_epoch, sip_expires_at, sip_session_epoch)
			VALUES ($1, $2, 'offline', 'dev', now(), 1, now() + interval '1 hour', 0)`, tenant, user)
		given := simcarrier.AgentSpec{Extension: extension, Password: c.accounts(t).Password(extension, 1)}
		require.True(t, c.softphone(t, given).Registered)
		exec("UPDATE users SET session_epoch = session_epoch + 1 WHERE id = $1", user)
		eventually(t, 10*time.Second, "the switch forgets the phone", func() bool {
			var refusal *esl.ReplyError
			_, err := conn.API(t.Context(), "originate {originate_timeout=2}sofia/internal/"+extension+"%"+stack.SIPDomain+" &park")
			return errors.As(err, &refusal) && refusal.Cause() == "USER_NOT_REGISTERED"
		})
		state := c.softphone(t, given)
		require.False(t, state.Registered)
		require.Equal(t, 403, state.SIPStatus)
	})
}

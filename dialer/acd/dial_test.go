package acd

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDialWaitsForThePhone: right after a login the agent's phone is being connected; it is waited for, and no longer than so long.
func TestDialWaitsForThePhone(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.PhoneWait = time.Minute })
	agent := b.agent(t)
	b.sw.down[agent] = true
	run(t, b.svc, b.sw)
	_, err := b.svc.Login(t.Context(), b.tenant, agent, LoginInput{})
	require.NoError(t, err)
	result := make(chan error, 1)
	go func() { result <- b.svc.CanDial(t.Context(), b.tenant, agent) }()
	require.Eventually(t, func() bool { return b.sw.holds(agent) }, 30*time.Second, time.Millisecond)
	require.Empty(t, result, "it waits")
	b.sw.setPhone(b.tenant, agent, true, "")
	require.NoError(t, <-result)
}

func TestDialWithoutPhone(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.PhoneWait = 20 * time.Millisecond })
	agent := b.agent(t)
	b.sw.down[agent] = true
	run(t, b.svc, b.sw)
	_, err := b.svc.Login(t.Context(), b.tenant, agent, LoginInput{})
	require.NoError(t, err)
	var refused *StateError
	require.ErrorAs(t, b.svc.CanDial(t.Context(), b.tenant, agent), &refused)
	require.Equal(t, CodePhoneNotReady, refused.Code)
}

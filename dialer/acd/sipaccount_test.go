package acd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/acd"
)

func TestSIPPasswordDependsOnEverything(t *testing.T) {
	t.Parallel()
	base := acd.SIPPassword([]byte("key"), "1001", "pbx.example", 3)
	require.Regexp(t, `^[A-Za-z0-9_-]{32}$`, base)
	require.Equal(t, base, acd.SIPPassword([]byte("key"), "1001", "PBX.example", 3), "a domain has no case")
	for name, other := range map[string]string{
		"key":       acd.SIPPassword([]byte("kez"), "1001", "pbx.example", 3),
		"extension": acd.SIPPassword([]byte("key"), "1002", "pbx.example", 3),
		"domain":    acd.SIPPassword([]byte("key"), "1001", "pbx.example.", 3),
		"epoch":     acd.SIPPassword([]byte("key"), "1001", "pbx.example", 4),
		"shifted":   acd.SIPPassword([]byte("key"), "100", "1pbx.example", 3),
	} {
		require.NotEqual(t, base, other, name)
	}
}

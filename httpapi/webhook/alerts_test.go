package webhook_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// Alerts are on metrics that there are.
func TestAlertsNameMetrics(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile("../../conf/prometheus/webhooks.yaml")
	require.NoError(t, err)
	source, err := os.ReadFile("metrics.go")
	require.NoError(t, err)
	named := regexp.MustCompile(`ringmaster_webhook_[a-z_]+`).FindAllString(string(rules), -1)
	require.Greater(t, len(named), 4)
	for _, name := range named {
		require.Contains(t, string(source), `"`+name+`"`)
	}
}

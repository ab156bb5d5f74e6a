package dnc

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func policy(t *testing.T, categories []string, modes ...string) Policy {
	t.Helper()
	p, err := NewPolicy(categories, modes)
	require.NoError(t, err)
	return p
}

func TestWhatIsBarredToWhom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "of2018.csv"), `number,categories,modes,time band,day type,status
9000000001,0,,,,A
9000000002,1,,,,A
9000000003,2#3,11,,,A
9000000004,1,14,,,A
9000000005,0,13#15,,,A
9000000006,0,12,,,A
9000000007,5,11,21,31,A
9000000008,unheard of,,,,A
`)
	write(t, filepath.Join(dir, "of2010.csv"), "Service Area Code,Phone Numbers,Preferences,Opstype,Phone Type\n1,9000000009,1#2#3,A,1\n")
	for name, c := range map[string]struct {
		policy Policy
		barred string
	}{
		"every call":                {Policy{}, "12345789"},
		"banking":                   {policy(t, []string{"1"}), "124589"},
		"education and real estate": {policy(t, []string{"2", "3"}), "13589"},
		"a dialer with people":      {policy(t, nil, "live_agent"), "1234789"},
		"machines that talk":        {policy(t, nil, "robo", "prerecorded"), "1235789"},
		"health, with people":       {policy(t, []string{"4"}, "live_agent"), "189"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := loaded(t, Config{Path: dir, Policy: c.policy, Snapshot: filepath.Join(t.TempDir(), "s")})
			var got strings.Builder
			for _, last := range "123456789" {
				if listed(t, r, "900000000"+string(last)) {
					got.WriteRune(last)
				}
			}
			require.Equal(t, c.barred, got.String())
		})
	}
}

func TestPolicyRefusesWhatThereIsNot(t *testing.T) {
	t.Parallel()
	for _, c := range []string{"0", "9", "-1", "", "banking"} {
		_, err := NewPolicy([]string{c}, nil)
		require.ErrorIs(t, err, ErrPolicy)
	}
	for _, m := range []string{"sms", "voice", "", "none"} {
		_, err := NewPolicy(nil, []string{m})
		require.ErrorIs(t, err, ErrPolicy)
	}
}

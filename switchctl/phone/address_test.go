package phone

import (
	"cmp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPhoneEndpoint dials a phone where its REGISTER came from, whatever its Contact says of the way, and by no number but its extension.
func TestPhoneEndpoint(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		contact, status, ip string
		want, route         string
	}{
		"as it is":          {`"" <sip:1001@10.0.0.9:5062>`, "Registered(UDP)", "", "sip:1001@10.0.0.9:5062;transport=udp", "sip:10.0.0.9:5062;transport=udp"},
		"softphone's own":   {`"A" <sip:x7gh2@10.0.0.9:5062;ob;rinstance=ab12>`, "Registered(UDP)", "", "sip:x7gh2@10.0.0.9:5062;ob;rinstance=ab12;transport=udp", "sip:10.0.0.9:5062;transport=udp"},
		"another port":      {`"" <sip:1001@10.0.0.9:6062>`, "Registered(UDP)", "", "sip:1001@10.0.0.9:6062;transport=udp", "sip:10.0.0.9:6062;transport=udp"},
		"behind a NAT":      {`"" <sip:1001@10.0.0.9:6062;fs_nat=yes;fs_path=sip%3A1001>`, "Registered(UDP-NAT)", "", "sip:1001@10.0.0.9:6062;transport=udp;fs_nat=yes", "sip:10.0.0.9:5062;transport=udp"},
		"elsewhere":         {`"" <sip:agent@203.0.113.9:5060>`, "Registered(UDP)", "", "sip:agent@203.0.113.9:5060;transport=udp", "sip:10.0.0.9:5062;transport=udp"},
		"maddr and path":    {`"" <sip:agent@10.0.0.9;maddr=203.0.113.9;fs_nat=yes;fs_path=sip%3Aa%40203.0.113.9>`, "Registered(UDP-NAT)", "", "sip:agent@10.0.0.9;transport=udp;fs_nat=yes", "sip:10.0.0.9:5062;transport=udp"},
		"browser":           {`"" <sip:8u2k1@q1.invalid;transport=ws;fs_nat=yes;fs_path=sip%3A8u2k1>`, "Registered(WSS-NAT)", "", "sip:8u2k1@q1.invalid;transport=wss;fs_nat=yes", "sip:10.0.0.9:5062;transport=wss"},
		"IPv6":              {`"" <sip:agent@[2001:db8::1]:5060>`, "Registered(TCP)", "2001:db8::1", "sip:agent@phone.invalid;transport=tcp", "sip:[2001:db8::1]:5060;transport=tcp"},
		"name with a URI":   {`"x <sip:evil@203.0.113.9> " <sip:agent@10.0.0.9>`, "Registered(UDP)", "", "sip:agent@10.0.0.9;transport=udp", "sip:10.0.0.9:5062;transport=udp"},
		"a number":          {`"" <sip:00441234567890@10.0.0.9:5062>`, "Registered(UDP)", "", "", ""},
		"a number with +":   {`"" <sip:+441234567890@10.0.0.9:5062>`, "Registered(UDP)", "", "", ""},
		"another extension": {`"" <sip:1002@10.0.0.9:5062>`, "Registered(UDP)", "", "", ""},
		"no user":           {`"" <sip:10.0.0.9:5062>`, "Registered(UDP)", "", "", ""},
		"dial string":       {`"" <sip:a,sofia/external/1@203.0.113.9>`, "Registered(UDP)", "", "", ""},
		"variables":         {`"" <sip:a${system}@203.0.113.9>`, "Registered(UDP)", "", "", ""},
		"nothing":           {``, "", "", "", ""},
		"no address":        {`"" <sip:1001@10.0.0.9>`, "Registered(UDP)", "somewhere", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := registration{Contact: tc.contact, Status: tc.status + "(unknown) exp(2026) expsecs(30)", IP: cmp.Or(tc.ip, "10.0.0.9"), Port: "5062"}
			endpoint, route, err := r.endpoint("internal", "1001")
			if tc.want == "" {
				var refused *ContactError
				require.ErrorAs(t, err, &refused)
				require.Empty(t, endpoint)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "sofia/internal/"+tc.want, endpoint)
			require.Equal(t, tc.route, route)
		})
	}
}

package phone_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ringmaster/ringmaster/store/phone"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParse(t *testing.T) {
	t.Parallel()
	for input, want := range map[string]string{
		"9876543210": "9876543210", "09876543210": "9876543210", "919876543210": "9876543210", "+919876543210": "9876543210",
		"9198765432": "9198765432", "09198765432": "9198765432", "919198765432": "9198765432", "+919198765432": "9198765432",
		" 98765 43210 ": "9876543210", "+91 98765-43210": "9876543210", "1123456789": "1123456789",
	} {
		p, err := phone.Parse(input)
		require.NoError(t, err, input)
		require.Equal(t, want, p.National(), input)
		require.Equal(t, "+91"+want, p.E164(), input)
		require.False(t, p.IsZero())
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for input, want := range map[string]error{
		"": phone.ErrLength, "9876": phone.ErrLength, "     ": phone.ErrLength, strings.Repeat("9", 21): phone.ErrLength,
		"+14155550123": phone.ErrInternational, "14155550123": phone.ErrInternational, "00919876543210": phone.ErrInternational,
		"+449876543210": phone.ErrInternational, "449876543210": phone.ErrInternational, "919876543210123": phone.ErrInternational,
		"98765": phone.ErrInvalid, "987654321": phone.ErrInvalid, "0123456789": phone.ErrInvalid, "00123456789": phone.ErrInvalid,
		"+91987654321": phone.ErrInvalid, "+910123456789": phone.ErrInvalid, "98765x3210": phone.ErrInvalid,
		"98765--43210": phone.ErrInvalid, "9876543210-": phone.ErrInvalid, "-9876543210": phone.ErrInvalid,
		"+9876543210": phone.ErrInternational, "++919876543210": phone.ErrInvalid, "९८७६५४३२१०": phone.ErrInvalid,
		"9876543210\x00": phone.ErrInvalid, "+91+9876543210": phone.ErrInvalid,
	} {
		p, err := phone.Parse(input)
		require.ErrorIs(t, err, want, "%q", input)
		require.True(t, p.IsZero())
		require.NotContains(t, err.Error(), "9876")
	}
}

func TestEcho(t *testing.T) {
	t.Parallel()
	p := parse(t, "9876543210")
	require.Equal(t, "9876543210", p.Echo(phone.Standard))
	require.Equal(t, "+919876543210", p.EchoE164(phone.Standard))
	require.Equal(t, "••••3210", p.Echo(phone.Strict))
	require.Equal(t, "••••3210", p.EchoE164(phone.Strict))
	require.Equal(t, "••••3210", p.Echo(phone.Privacy("unheard of")))
	require.Equal(t, "••••3210", phone.FromSuffix(p.Last4()))
	var none phone.Phone
	require.Empty(t, none.Echo(phone.Standard)+none.EchoE164(phone.Standard)+none.Mask()+none.Last4()+phone.FromSuffix(""))
	require.Equal(t, 2, map[phone.Phone]int{p: 1, parse(t, "09876543210"): 2}[p], "equal numbers must compare equal")
}

// exposed and hidden stand for structs of other packages that a number lies in.
type exposed struct {
	Phone  phone.Phone
	Number phone.Number
	Ptr    *phone.Phone
}

type hidden struct {
	p phone.Phone
	n phone.Number
}

func TestNoFormattingReveals(t *testing.T) {
	t.Parallel()
	p := parse(t, "9876543210")
	n := phone.NewNumber("+919876543210")
	values := []any{
		p, &p, n, &n,
		exposed{p, n, &p},
		&exposed{p, n, &p},
		hidden{p, n},
		&hidden{p, n},
		[]phone.Phone{p},
		[]phone.Number{n},
		map[string]phone.Phone{"a": p},
		map[phone.Phone]int{p: 1},
		map[phone.Number]int{n: 1},
		[1]hidden{{p, n}},
		fmt.Errorf("dial %v: %w", p, errors.New("refused")),
	}
	verbs := []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%T", "%08.3f", "%c", "%U", "%p", "% x", "%+q", "%[1]v", "%10v", "%z"}
	var outputs []string
	for _, value := range values {
		for _, verb := range verbs {
			outputs = append(outputs, fmt.Sprintf(verb, value))
		}
		outputs = append(outputs, fmt.Sprint(value), fmt.Sprintln(value))
		if encoded, err := json.Marshal(value); err == nil {
			outputs = append(outputs, string(encoded))
		}
		for _, handler := range []func(*bytes.Buffer) slog.Handler{
			func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
			func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
		} {
			var out bytes.Buffer
			slog.New(handler(&out)).Info("a call", "value", value, slog.Group("group", "value", value))
			outputs = append(outputs, out.String())
		}
	}
	for _, output := range outputs {
		for _, secret := range []string{"987654", "39383736", "393837", "9876543210"} {
			require.NotContains(t, strings.ReplaceAll(output, " ", ""), secret)
		}
	}
	require.Equal(t, "••••3210", fmt.Sprintf("%#v", p))
	require.Equal(t, "••••3210", fmt.Sprintf("%x", n))
	encoded, err := json.Marshal(exposed{p, n, &p})
	require.NoError(t, err)
	require.JSONEq(t, `{"Phone":"••••3210","Number":"••••3210","Ptr":"••••3210"}`, string(encoded))
	text, err := p.MarshalText()
	require.NoError(t, err)
	require.Equal(t, "••••3210", string(text))
	require.Equal(t, "••••3210", p.LogValue().String())
	require.Equal(t, "••••3210", n.LogValue().String())
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for text, mask := range map[string]string{
		"": "", "+919876543210": "••••3210", "anonymous": "••••",
		// Four digits would be the whole number.
		"1001": "••••", "••••3210": "••••3210",
		"sip:alice@10.0.0.1": "••••0001",
	} {
		n := phone.NewNumber(text)
		require.Equal(t, text, n.Reveal())
		require.Equal(t, mask, n.Mask(), text)
	}
	numbers := map[phone.Number]int{phone.NewNumber("+919876543210"): 1}
	require.Equal(t, 1, numbers[phone.NewNumber("+919876543210")], "equal numbers must compare equal")
}

func TestDatabaseText(t *testing.T) {
	t.Parallel()
	p := parse(t, "9876543210")
	text, err := p.TextValue()
	require.NoError(t, err)
	require.Equal(t, pgtype.Text{String: "9876543210", Valid: true}, text)
	var scanned phone.Phone
	require.NoError(t, scanned.ScanText(text))
	require.Equal(t, p.E164(), scanned.E164())
	require.NoError(t, scanned.ScanText(pgtype.Text{}))
	require.True(t, scanned.IsZero())
	null, err := scanned.TextValue()
	require.NoError(t, err)
	require.False(t, null.Valid)
	require.ErrorIs(t, scanned.ScanText(pgtype.Text{String: "not digits", Valid: true}), phone.ErrInvalid)
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"9876543210", "+91 98765-43210", "09198765432", "919876543210", "+1415", "९८७६५४३२१०", "--", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input string) {
		p, err := phone.Parse(input)
		if err != nil {
			require.True(t, p.IsZero())
			require.True(t, errors.Is(err, phone.ErrLength) || errors.Is(err, phone.ErrInternational) || errors.Is(err, phone.ErrInvalid))
			return
		}
		national := p.National()
		require.Regexp(t, `^[1-9][0-9]{9}$`, national)
		for _, form := range []string{national, "0" + national, "91" + national, "+91" + national} {
			again, err := phone.Parse(form)
			require.NoError(t, err)
			require.Equal(t, p, again)
		}
		require.NotContains(t, fmt.Sprintf("%v%+v%#v%s%d%x", p, p, p, p, p, p), national)
	})
}

func parse(t *testing.T, s string) phone.Phone {
	t.Helper()
	p, err := phone.Parse(s)
	require.NoError(t, err)
	return p
}

package form_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/form"
)

func TestForms(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"a", "not_interested_2", strings.Repeat("x", 64)} {
		require.True(t, form.IsDisposition(s), s)
	}
	for _, s := range []string{"", "A", "a b", "a-b", "é", strings.Repeat("x", 65), "a\n", "a A a"} {
		require.False(t, form.IsDisposition(s), s)
	}
	for _, s := range []string{"10", "1001", "1234567890"} {
		require.True(t, form.IsExtension(s), s)
	}
	for _, s := range []string{"", "1", "12345678901", "1a1", "+1001", "10 01", "١٢٣"} {
		require.False(t, form.IsExtension(s), s)
	}
}

package dnc

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
)

// fixed is a registry of the numbers it holds, or one that can't answer.
type fixed struct {
	numbers map[string]bool
	err     error
}

func (f fixed) Listed(_ context.Context, phones []store.Phone) ([]bool, error) {
	if f.err != nil {
		return nil, f.err
	}
	out := make([]bool, len(phones))
	for i, p := range phones {
		out[i] = f.numbers[p.National()]
	}
	return out, nil
}

func TestPatternsAddToTheRegistry(t *testing.T) {
	t.Parallel()
	p, err := WithPatterns(fixed{numbers: map[string]bool{"9876543201": true}}, []string{"????????9?", "140???????"})
	require.NoError(t, err)
	var phones []store.Phone
	for _, n := range []string{"9876543201", "9876543289", "9876543290", "9876543299", "9876543209"} {
		phone, err := store.ParsePhone(n)
		require.NoError(t, err)
		phones = append(phones, phone)
	}
	listed, err := p.Listed(t.Context(), phones)
	require.NoError(t, err)
	require.Equal(t, []bool{true, false, true, true, false}, listed)
}

func TestPatternsNeedTheRegistry(t *testing.T) {
	t.Parallel()
	p, err := WithPatterns(fixed{err: ErrUnavailable}, []string{"9?????????"})
	require.NoError(t, err)
	_, err = p.Listed(t.Context(), nil)
	require.ErrorIs(t, err, ErrUnavailable)
	_, err = WithPatterns(fixed{}, []string{"9*"})
	require.ErrorIs(t, err, ErrPattern)
}

package admission_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/admission"
)

func TestAdmissionIsUsedOnce(t *testing.T) {
	t.Parallel()
	unit := uuid.New()
	adm := admission.Grant(admission.Terms{UnitID: unit})
	require.Equal(t, unit, adm.Terms().UnitID)
	var got atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if terms, err := adm.Use(); err == nil && terms.UnitID == unit {
				got.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, got.Load())
	_, err := adm.Use()
	require.ErrorIs(t, err, admission.ErrUsed)
}

func TestNothingElseIsAnAdmission(t *testing.T) {
	t.Parallel()
	for _, adm := range []*admission.Admission{nil, {}, admission.Grant(admission.Terms{})} {
		_, err := adm.Use()
		require.ErrorIs(t, err, admission.ErrUsed)
	}
}

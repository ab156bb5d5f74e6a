package store_test

import (
	"testing"

	"github.com/ringmaster/ringmaster/store/storetest"
)

func TestSmoke(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	storetest.Tenant(t, st)
}

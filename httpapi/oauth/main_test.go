package oauth_test

import (
	"testing"

	"github.com/ringmaster/ringmaster/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

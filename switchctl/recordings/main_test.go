package recordings

import (
	"fmt"
	"os"
	"testing"

	"github.com/ringmaster/ringmaster/store/storetest"
)

// The credentials of the tests' object store.
const (
	testAccessKey = "AKIDTEST"
	testSecretKey = "a secret of the tests"
)

// TestMain gives the S3 client its credentials where it looks for them, and keeps the machine's own away from it.
func TestMain(m *testing.M) {
	for k, v := range map[string]string{
		"AWS_ACCESS_KEY_ID": testAccessKey, "AWS_SECRET_ACCESS_KEY": testSecretKey, "AWS_SESSION_TOKEN": "",
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
		"AWS_REGION": "", "AWS_DEFAULT_REGION": "",
	} {
		if err := os.Setenv(k, v); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	storetest.Main(m)
}

package awsprofile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/txcoord/txcoord/internal/awsprofile"
)

// Where a profile that is not there was looked for, whether it was named by the environment
// or by the configuration, and whether the files are there or not.
func TestProfileThatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	shared, credentials := filepath.Join(dir, "config"), filepath.Join(dir, "credentials")
	t.Setenv("AWS_CONFIG_FILE", shared)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", credentials)
	if err := os.WriteFile(shared, []byte("[profile other]\nregion = eu-test-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, environment := range []bool{false, true} {
		options := []func(*config.LoadOptions) error{config.WithSharedConfigProfile("nope")}
		if environment {
			t.Setenv("AWS_PROFILE", "nope")
			options = nil
		}
		_, err := config.LoadDefaultConfig(t.Context(), options...)
		if err == nil {
			t.Fatal("the SDK takes a profile that is not there")
		}
		got := awsprofile.Explain(err).Error()
		for _, say := range []string{`profile "nope" is neither in ` + shared + " nor in " + credentials + " (which is not there)", "correct the name", "AWS_SHARED_CREDENTIALS_FILE"} {
			if !strings.Contains(got, say) {
				t.Errorf("environment %t: %q does not say %q", environment, got, say)
			}
		}
	}
	if got := awsprofile.Explain(errors.New("other")).Error(); got != "read AWS configuration: other" {
		t.Errorf("%q", got)
	}
}

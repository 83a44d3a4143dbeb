// Package awsprofile says what is wrong with the profile that a store was to take its
// credentials from.
package awsprofile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/aws/aws-sdk-go-v2/config"
)

// Explain is an error of loading the SDK's configuration, with the files that were looked at
// and the remedy if it is that there is no such profile.
func Explain(err error) error {
	var missing config.SharedConfigProfileNotExistError
	if !errors.As(err, &missing) {
		return fmt.Errorf("read AWS configuration: %w", err)
	}
	env, envErr := config.NewEnvConfig()
	if envErr != nil {
		return fmt.Errorf("read AWS configuration: %w", errors.Join(err, envErr))
	}
	return fmt.Errorf("profile %q is neither in %s nor in %s: correct the name (option profile, or AWS_PROFILE), add the profile with aws configure --profile %s, "+
		"or let AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name the files that have it: %w", missing.Profile,
		looked(cmp.Or(env.SharedConfigFile, config.DefaultSharedConfigFilename())),
		looked(cmp.Or(env.SharedCredentialsFile, config.DefaultSharedCredentialsFilename())), missing.Profile, err)
}

// looked is a file's name, and whether there is one.
func looked(file string) string {
	_, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return file + " (which is not there)"
	case err != nil:
		return file + " (which cannot be read)"
	}
	return file
}

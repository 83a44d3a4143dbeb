// Package toolcache holds what tests need and no Go module brings: Python
// environments and jars, by pinned version, built once for all packages and all
// clones of the repository.
//
// They lie in the user's cache folder, beside the tools that the Makefile builds.
// Nothing in it changes once it is finished, so it may be kept for ever or removed
// at any time when no test runs.
package toolcache

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ErrUnavailable: this machine cannot have it. The error around it says why.
var ErrUnavailable = errors.New("not available on this machine")

// Folder is the cache's, made if it is not there.
func Folder() (string, error) {
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w: no cache folder: %w", ErrUnavailable, err)
	}
	folder := filepath.Join(user, "txcoord-tools")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("make cache folder: %w", err)
	}
	return folder, nil
}

// finished is written into a folder last: without it, the folder is the remains of
// a build that was interrupted.
const finished = "finished"

// buildOnce has fill make a folder, unless a finished one is there. The caller
// holds the lock.
func buildOnce(folder string, fill func() error) error {
	mark := filepath.Join(folder, finished)
	if _, err := os.Stat(mark); err == nil {
		return nil
	}
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("clear %s: %w", filepath.Base(folder), err)
	}
	if err := fill(); err != nil {
		return err
	}
	if err := os.WriteFile(mark, nil, 0o644); err != nil {
		return fmt.Errorf("finish %s: %w", filepath.Base(folder), err)
	}
	return nil
}

// shortHash names a folder for what it is made from.
func shortHash(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d\n%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// tail is the end of a program's output, where the reason is.
func tail(out []byte) string {
	const most = 800
	text := strings.TrimSpace(string(out))
	if len(text) > most {
		text = "… " + text[len(text)-most:]
	}
	return text
}

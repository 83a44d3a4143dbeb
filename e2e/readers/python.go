package readers

import (
	"context"
	"embed"
	"strings"

	"github.com/txcoord/txcoord/e2e/toolcache"
)

//go:embed py/*.py
var scripts embed.FS

//go:embed py/requirements.txt
var requirements []byte

// Python is a Python interpreter that has the engines' packages.
type Python struct {
	// Path is the interpreter.
	Path string
	// scripts is the folder that holds this package's scripts.
	scripts string
}

// Open returns the environment, building it if there is none for these pinned
// packages and this machine's interpreter.
func Open(ctx context.Context) (*Python, error) {
	v, err := toolcache.OpenVenv(ctx, "readers", requirements)
	if err != nil {
		return nil, err
	}
	dir, err := v.Scripts(ctx, scripts, "py/*.py")
	if err != nil {
		return nil, err
	}
	return &Python{Path: v.Python(), scripts: dir}, nil
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

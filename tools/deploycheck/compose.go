package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// composition loads a Compose file as Compose does: its schema, merges, interpolation
// without any variable, and that services, volumes and dependencies which it names exist.
func composition(file string) (*types.Project, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return loader.LoadWithContext(context.Background(), types.ConfigDetails{
		WorkingDir:  filepath.Dir(file),
		ConfigFiles: []types.ConfigFile{{Filename: file, Content: raw}},
		Environment: types.Mapping{},
	})
}

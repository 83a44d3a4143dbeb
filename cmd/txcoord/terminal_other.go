//go:build !linux && !darwin

package main

import "os"

// single is not known here: top prints once.
func single(*os.File) (restore func(), ok bool) { return nil, false }

func sizeOf(*os.File) (columns, lines int, ok bool) { return 0, 0, false }

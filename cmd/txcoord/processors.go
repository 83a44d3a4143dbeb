package main

import (
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/txcoord/txcoord/tables/objstore/fileobj"
)

// moreProcessors has Go use more processors than there are, once for the process.
var moreProcessors = sync.OnceFunc(func() { runtime.GOMAXPROCS(fileobj.Processors(runtime.GOMAXPROCS(0))) })

// wantsProcessors: tables may lie in local folders, where puts wait for a disk, and
// $GOMAXPROCS says nothing.
func (c *Config) wantsProcessors() bool {
	if c.env != nil {
		if v, _ := c.env("GOMAXPROCS"); v != "" {
			return false
		}
	}
	local := func(uri string) bool { return strings.HasPrefix(uri, "file://") }
	return local(c.Warehouse) || slices.ContainsFunc(c.Allow, local)
}

package main

import "testing"

// Only a server that may put files takes more processors, and only where nobody has said
// how many.
func TestProcessorsOfServers(t *testing.T) {
	said := func(value string) lookup {
		return func(name string) (string, bool) { return value, name == "GOMAXPROCS" }
	}
	for _, c := range []struct {
		config Config
		want   bool
	}{
		{Config{Warehouse: "file:///lake"}, true},
		{Config{Warehouse: "s3://lake"}, false},
		{Config{Warehouse: "s3://lake", Allow: []string{"gs://more", "file:///lake"}}, true},
		{Config{Warehouse: "file:///lake", env: said("2")}, false},
		{Config{Warehouse: "file:///lake", env: said("")}, true},
		{Config{Warehouse: "file:///lake", env: nothingSet}, true},
	} {
		if got := c.config.wantsProcessors(); got != c.want {
			t.Errorf("%s and %s: %t, want %t", c.config.Warehouse, c.config.Allow, got, c.want)
		}
	}
}

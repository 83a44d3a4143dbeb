//go:build !unix

package main

// pause and resume do nothing where processes cannot be held still: the demo then
// needs a few kills more until one hits the middle of publishing.
func (d *demoServer) pause() error { return nil }

func (d *demoServer) resume() error { return nil }

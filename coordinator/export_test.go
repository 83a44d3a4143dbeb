package coordinator

// Queued is how many requests wait behind the append that is in flight.
func (c *Catalog) Queued() int {
	c.seq.mu.Lock()
	defer c.seq.mu.Unlock()
	return len(c.seq.queue)
}

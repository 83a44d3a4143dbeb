package quota

// Accounts is how many principals are known.
func (b *Book) Accounts() int { return len(b.m) }

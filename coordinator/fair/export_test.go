package fair

// Flows is how many principals are known.
func (q *Queue[T]) Flows() int { return len(q.flows) }

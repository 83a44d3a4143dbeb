package access

import "time"

// SetClock has what is asked from now on happen at other times.
func (a *Access) SetClock(now func() time.Time) { a.clock = now }

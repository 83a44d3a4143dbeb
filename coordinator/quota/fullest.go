package quota

import "time"

// Fullest says how full each limit is for whom it is fullest, in per cent, by the limit's
// name. What nobody has, or has without a limit, is 0.
func (b *Book) Fullest() map[string]int64 {
	out := map[string]int64{}
	for _, name := range Names() {
		out[name] = 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	for _, a := range b.m {
		for r := range resources {
			out[r.name()] = max(out[r.name()], percent(a.held[r], a.limits.of(r)))
		}
		out[NameCommits] = max(out[NameCommits], a.spent(now))
	}
	return out
}

// spent is how much of the commits that may come at once came, and was not made up for since.
func (a *account) spent(now time.Time) int64 {
	if a.commits == nil || a.limits.Commits == 0 {
		return 0
	}
	burst := a.commits.Burst()
	return percent(int64(burst)-int64(max(a.commits.TokensAt(now), 0)), int64(burst))
}

// percent is more than 100 where a limit was lowered below what somebody has.
func percent(n, limit int64) int64 {
	if limit == 0 {
		return 0
	}
	return int64(float64(n) / float64(limit) * 100)
}

package checker

import (
	"maps"
	"slices"
	"strings"
)

// checkOrder: the orders in which the logs hold transactions must not contradict
// each other. Versions deliver changes in decided order (R2), so one order of all
// transactions explains every log; if the union of the logs' orders has a cycle,
// none does.
func (c *check) checkOrder() {
	next := map[string][]string{}
	before := map[string]int{}
	for _, ids := range c.order {
		for i := 1; i < len(ids); i++ {
			next[ids[i-1]] = append(next[ids[i-1]], ids[i])
			before[ids[i]]++
		}
	}
	left := c.peel(next, before)
	if len(left) == 0 {
		return
	}
	cycle := findCycle(next, left)
	c.fail(OrderCycle, Violation{Txn: cycle[0]}, "no order of transactions explains the logs: %s", strings.Join(cycle, " before "))
}

// peel takes away, again and again, what has nothing in front of it, and returns
// what is left: the cycles and what stands behind them.
func (c *check) peel(next map[string][]string, before map[string]int) map[string]bool {
	left := map[string]bool{}
	var free []string
	for id := range c.places {
		left[id] = true
		if before[id] == 0 {
			free = append(free, id)
		}
	}
	for len(free) > 0 {
		id := free[len(free)-1]
		free = free[:len(free)-1]
		delete(left, id)
		for _, n := range next[id] {
			if before[n]--; before[n] == 0 {
				free = append(free, n)
			}
		}
	}
	return left
}

// findCycle walks backwards inside left, where everything has a predecessor,
// until it meets a transaction again; it returns the cycle with its first element
// repeated at the end.
func findCycle(next map[string][]string, left map[string]bool) []string {
	previous := map[string]string{}
	for _, id := range slices.Sorted(maps.Keys(left)) {
		for _, n := range next[id] {
			if left[n] {
				previous[n] = id
			}
		}
	}
	at := slices.Sorted(maps.Keys(left))[0]
	seen := map[string]int{}
	var walk []string
	for {
		if i, ok := seen[at]; ok {
			cycle := append(walk[i:], at)
			slices.Reverse(cycle)
			return cycle
		}
		seen[at] = len(walk)
		walk = append(walk, at)
		at = previous[at]
	}
}

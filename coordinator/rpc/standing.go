package rpc

import (
	"slices"
	"sync"

	"github.com/txcoord/txcoord/coordinator/access"
	"github.com/txcoord/txcoord/coordinator/quota"
)

// standing is what follows from who somebody is in a catalog, as long as an access file is
// in force. It does not change.
type standing struct {
	policy *access.Policy
	who    access.Principal
	rights *access.Rights
	// by is whom transactions and what they stage are counted for, account whom calls and
	// streams are.
	by, account quota.Caller
}

// is reports whether a standing is that of somebody now: of the same names under the same
// policy. A policy is never changed, only replaced.
func (st *standing) is(who access.Principal, policy *access.Policy) bool {
	return st != nil && st.policy == policy && slices.Equal(st.who.Names, who.Names)
}

// standings are kept so that they are not worked out with each call. The zero value is
// empty. It is safe for concurrent use.
type standings struct {
	mu sync.RWMutex
	m  map[standingKey]*standing
}

// standingKey finds a standing, which then has to be the right one: names may have others
// beside them, which count too.
type standingKey struct{ payer, catalog string }

// standingsMost bounds them; one more, and all are worked out anew.
const standingsMost = 4096

func (s *standings) of(key standingKey) *standing {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.m[key]
}

func (s *standings) keep(key standingKey, st *standing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil || len(s.m) >= standingsMost {
		s.m = map[standingKey]*standing{}
	}
	s.m[key] = st
}

// standing is a caller's in a catalog, which there may be or not.
func (s *service) standing(c *caller, catalog string) (_ *standing, keep func()) {
	policy, key := s.access.Policy(), standingKey{payerOf(c), catalog}
	if st := s.standings.of(key); st.is(c.who, policy) {
		return st, nil
	}
	limits := policy.Quota(c.who, catalog, s.quota)
	st := &standing{
		policy: policy, who: c.who, rights: policy.Rights(c.who, catalog),
		by: quota.Caller{Name: key.payer, Limits: limits}, account: quota.Caller{Name: catalog + " " + key.payer, Limits: limits}, // names of catalogs have no blanks
	}
	return st, func() { s.standings.keep(key, st) }
}

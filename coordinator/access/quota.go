package access

import (
	"fmt"
	"maps"
	"slices"

	"github.com/txcoord/txcoord/coordinator/quota"
)

// Quota sets limits of principals in catalogs, each principal on its own. Patterns as in
// Grant; no catalogs means all. Who is meant is said by names, by roles, or both.
type Quota struct {
	Principals []string `yaml:"principals"`
	Roles      []string `yaml:"roles"`
	Catalogs   []string `yaml:"catalogs"`
	// Limits by the names that errors give them; 0 is none.
	Limits map[string]string `yaml:"limits"`
}

// Quota is what a principal may take in a catalog. For each limit the first entry of the
// file counts that means the principal and names the limit; where none does, the server's.
func (p *Policy) Quota(who Principal, catalog string, server quota.Limits) quota.Limits {
	if p == nil {
		return server
	}
	// The last one first, so that the first one has the last word.
	for _, q := range slices.Backward(p.quotas) {
		if !p.means(q, who) || len(q.Catalogs) > 0 && !matchAny(q.Catalogs, catalog) {
			continue
		}
		for name, value := range q.Limits {
			_ = server.Set(name, value) // was checked when the file was read
		}
	}
	return server
}

// OwnQuota is what the file itself says of a principal's limits in a catalog, by name; a
// limit that it says nothing of is the server's.
func (p *Policy) OwnQuota(who Principal, catalog string) map[string]int64 {
	const servers = -1 // no file sets it
	var unset quota.Limits
	for _, name := range quota.Names() {
		*unset.Field(name) = servers
	}
	got, own := p.Quota(who, catalog, unset), map[string]int64{}
	for _, name := range quota.Names() {
		if n := *got.Field(name); n != servers {
			own[name] = n
		}
	}
	return own
}

func (p *Policy) means(q Quota, who Principal) bool {
	named := Binding{Principals: q.Principals}
	return named.holds(who) || slices.ContainsFunc(p.bindings, func(b Binding) bool {
		return slices.Contains(q.Roles, b.Role) && b.holds(who)
	})
}

// checkQuotas checks what a file says.
func checkQuotas(quotas []Quota, roles map[string][]Grant) error {
	for i, q := range quotas {
		at := fmt.Sprintf("quotas[%d]", i)
		if len(q.Principals)+len(q.Roles) == 0 {
			return fmt.Errorf("%s.principals: is missing; name principals, such as \"token:etl\", or roles", at)
		}
		for _, r := range q.Roles {
			if _, ok := roles[r]; !ok {
				return fmt.Errorf("%s.roles: there is no role %q; define it under roles%s", at, r, roleMeant(r, roles))
			}
		}
		if len(q.Limits) == 0 {
			return fmt.Errorf("%s.limits: is missing; use some of %v", at, quota.Names())
		}
		var l quota.Limits
		for _, name := range slices.Sorted(maps.Keys(q.Limits)) {
			if err := l.Set(name, q.Limits[name]); err != nil {
				return fmt.Errorf("%s.limits.%s: %w", at, name, err)
			}
		}
	}
	return nil
}

package access

import (
	"fmt"
	"slices"
	"strings"
)

// Action is what a grant allows.
type Action string

// The actions. None implies another.
const (
	// Read: snapshots that name the table, its description, outcomes about it.
	Read Action = "read"
	// Write: stage and commit changes of rows.
	Write Action = "write"
	// DDL: register, create, release; change schema, properties or protocol.
	DDL Action = "ddl"
	// Fence: say who else may write the table.
	Fence Action = "fence"
	// Admin: resolve, maintain, tag, abort what is somebody else's.
	Admin Action = "admin"
)

var actions = []Action{Read, Write, DDL, Fence, Admin}

// Anonymous is the name of a caller that did not say who it is.
const Anonymous = "anonymous"

// Principal is a caller. The zero value is nobody, and nothing is granted to it.
type Principal struct {
	// Names are what bindings may call it: the principal itself first, then its groups
	// and what else the way it came proves.
	Names []string
}

// Name is what logs call it.
func (p Principal) Name() string {
	if len(p.Names) == 0 {
		return Anonymous
	}
	return p.Names[0]
}

// Grant allows actions on tables of catalogs. Patterns match whole names, case
// counts; `*` stands for any characters, `?` for one.
type Grant struct {
	Catalogs []string `yaml:"catalogs"`
	Tables   []string `yaml:"tables"`
	Actions  []Action `yaml:"actions"`
}

// Binding gives a role to principals. Patterns as in Grant.
type Binding struct {
	Role       string   `yaml:"role"`
	Principals []string `yaml:"principals"`
}

// Policy says what principals may do. The nil policy allows everything: it is that
// of a server whose address alone says who may call.
type Policy struct {
	roles    map[string][]Grant
	bindings []Binding
	quotas   []Quota
}

// Rights are what one principal may do in one catalog. Nil: everything.
type Rights struct {
	grants []Grant
}

// Rights are those of a principal in a catalog.
func (p *Policy) Rights(who Principal, catalog string) *Rights {
	if p == nil {
		return nil
	}
	r := &Rights{}
	for _, b := range p.bindings {
		if !b.holds(who) {
			continue
		}
		for _, g := range p.roles[b.Role] {
			if matchAny(g.Catalogs, catalog) {
				r.grants = append(r.grants, g)
			}
		}
	}
	return r
}

func (b *Binding) holds(who Principal) bool {
	return slices.ContainsFunc(who.Names, func(name string) bool { return matchAny(b.Principals, name) })
}

// Grants are what its bindings give the principal in the catalog, in the file's order.
func (r *Rights) Grants() []Grant { return slices.Clone(r.grants) }

// On reports whether an action is granted on a table.
func (r *Rights) On(table string, a Action) bool {
	return r.some(a, func(g Grant) bool { return matchAny(g.Tables, table) })
}

// OnAny reports whether an action is granted on any table at all, which is what it
// takes to use calls that name none.
func (r *Rights) OnAny(a Action) bool {
	return r.some(a, func(g Grant) bool { return len(g.Tables) > 0 })
}

// OnAll reports whether an action is granted on every table.
func (r *Rights) OnAll(a Action) bool {
	return r.some(a, func(g Grant) bool { return slices.Contains(g.Tables, "*") })
}

// Any reports whether anything is granted.
func (r *Rights) Any() bool { return r == nil || len(r.grants) > 0 }

func (r *Rights) some(a Action, where func(Grant) bool) bool {
	return r == nil || slices.ContainsFunc(r.grants, func(g Grant) bool { return slices.Contains(g.Actions, a) && where(g) })
}

func matchAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, name) })
}

// match takes time of the product of both lengths at most.
func match(pattern, name string) bool {
	star, from := -1, 0
	p, n := 0, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			from++
			p, n = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// newPolicy checks what a file says.
func newPolicy(roles map[string][]Grant, bindings []Binding) (*Policy, error) {
	for name, grants := range roles {
		for i, g := range grants {
			at := fmt.Sprintf("roles.%s[%d]", name, i)
			switch {
			case len(g.Catalogs) == 0:
				return nil, fmt.Errorf("%s.catalogs: is missing; name catalogs, or \"*\"", at)
			case len(g.Tables) == 0:
				return nil, fmt.Errorf("%s.tables: is missing; name tables, or \"*\"", at)
			case len(g.Actions) == 0:
				return nil, fmt.Errorf("%s.actions: is missing; use some of %v", at, actions)
			}
			for _, a := range g.Actions {
				if !slices.Contains(actions, a) {
					return nil, fmt.Errorf("%s.actions: %q is no action; use some of %v%s", at, a, actions, actionMeant(a))
				}
			}
		}
	}
	for i, b := range bindings {
		if _, ok := roles[b.Role]; !ok {
			return nil, fmt.Errorf("bindings[%d].role: there is no role %q; define it under roles%s", i, b.Role, roleMeant(b.Role, roles))
		}
		if len(b.Principals) == 0 {
			return nil, fmt.Errorf("bindings[%d].principals: is missing; name principals, such as \"token:etl\"", i)
		}
	}
	return &Policy{roles: roles, bindings: bindings}, nil
}

// Actions are all there are.
func Actions() []Action { return slices.Clone(actions) }

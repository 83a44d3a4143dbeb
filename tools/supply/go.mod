// What the program is built on: known vulnerabilities, and licences. In a module of its
// own, as the other tools are.
//
// No package of golang.org/x/vulndb is imported: the module is the database, as new as
// its version here. `go get golang.org/x/vulndb@latest` brings a newer one, `go mod tidy`
// would drop it.
module github.com/txcoord/txcoord/tools/supply

go 1.26.7

require (
	github.com/google/licensecheck v0.3.1
	golang.org/x/vuln v1.9.0
	golang.org/x/vulndb v0.0.0-20261105234957-e22db6528018
)

require (
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/telemetry v0.0.0-20261010193011-f71dc92da45e // indirect
	golang.org/x/tools v0.52.0 // indirect
)

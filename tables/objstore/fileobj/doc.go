// Package fileobj keeps objects as files under a folder of a local file system, or
// of one that has hard links, atomic rename and a meaning for fsync.
//
// A put is written beside its place, made durable, and only then given its name by
// link(2), which refuses a name that is taken, in all processes of all machines
// that share the file system. Then the folder is made durable, and only then the
// put is acknowledged. Death at any step leaves the whole object or none; what can
// be left behind is an invisible draft, see Store.Sweep.
//
// A folder is entered name by name from the root, none of which may be a symbolic link,
// and what is done there is done through its descriptor: nothing that is moved or linked
// into its place meanwhile is touched. Config.NoLinks says what may be read otherwise.
//
// What a folder cannot do that a bucket can: "a" and "a/b" cannot both be objects,
// and a folder whose objects are all gone is listed with a delimiter as before.
package fileobj

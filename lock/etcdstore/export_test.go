package etcdstore

// CheckVersion is what Open thinks of a server's version.
var CheckVersion = checkVersion

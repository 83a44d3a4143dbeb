package lock

// Pack is how an entry goes into the store.
var Pack = pack

// Package remote is what object stores behind a network have in common: it makes of
// single requests, which a Driver for each API sends, an objstore.Store with its three
// answers to a put.
//
// Every put carries a random token in the object's metadata. A put whose answer was
// lost, and one that is refused although something on the way may have sent it twice,
// is settled by looking for the token at the key. No put is ever repeated of which it
// is not known that it was refused: one's own landed write would come back as a
// conflict.
package remote

// Package linear judges what clients were told about transactions, and when: all
// answers of one catalog must fit one order of decisions in which every call takes
// effect at one moment between its beginning and its end (linearizability, Herlihy and
// Wing 1990; the search is porcupine's). A Recorder sees every call of a client, the
// repeated ones too; Check knows nothing of the server but the wire contract.
//
// Three things are judged:
//
//   - Of each key, the attempts: undecided, then committed or aborted, for ever. An
//     attempt commits only when all before it are aborted, so a key commits once.
//   - Of the catalog, the log of decisions: who was told COMMITTED before another one's
//     commit began stands before it.
//   - Where one server answers, snapshots: whoever asks for the newest sees every
//     transaction that was published, and every snapshot that was shown, before.
package linear

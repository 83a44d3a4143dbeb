package fileobj

// Processors says of how many processors Go should make use where this is the number of
// the machine's, and many files are put. A goroutine that waits for its disk keeps its
// processor until the runtime's watcher takes that away, and on a busy machine the watcher
// has to wait for its own turn: with two processors, two puts hold up everything else. With
// more of them the kernel chooses, and it knows who only waits. It changes nothing by
// itself: that is for programs to do, in runtime.GOMAXPROCS.
func Processors(machine int) int { return max(machine, min(4*machine, 16)) }

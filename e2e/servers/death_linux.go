package servers

import "syscall"

// dieWithParent has the kernel end the process when the one that tests is killed
// and cannot clean up.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

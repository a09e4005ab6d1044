package relay

import (
	"syscall"
	"unsafe"
)

// The system calls of the data path. The sockets never block, so the scheduler need not be notified: the ordinary
// syscall.Read and Write would wake the runtime's monitor thread each time the process had been idle, which at a few
// thousand calls a second costs more than the calls themselves.

// maxPieces is the maximum number of pieces of a write (IOV_MAX is 1024).
const maxPieces = 512

// sysRead reads into b, which must not be empty.
func sysRead(fd int, b []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// sysWrite writes one or more pieces with one system call.
func (sh *shard) sysWrite(fd int, pieces [][]byte) (int, error) {
	if len(pieces) == 1 {
		b := pieces[0]
		n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
			uintptr(len(b)))
		if errno != 0 {
			return 0, errno
		}
		return int(n), nil
	}
	sh.iovecs = sh.iovecs[:0]
	for _, b := range pieces {
		v := syscall.Iovec{Base: unsafe.SliceData(b)}
		v.SetLen(len(b))
		sh.iovecs = append(sh.iovecs, v)
	}
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(&sh.iovecs[0])),
		uintptr(len(sh.iovecs)))
	clear(sh.iovecs)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

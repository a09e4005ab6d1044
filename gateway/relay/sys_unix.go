//go:build unix && !linux

package relay

import "syscall"

// maxPieces is how many pieces one sysWrite takes.
const maxPieces = 1

func sysRead(fd int, b []byte) (int, error) { return syscall.Read(fd, b) }

func (sh *shard) sysWrite(fd int, pieces [][]byte) (int, error) { return syscall.Write(fd, pieces[0]) }

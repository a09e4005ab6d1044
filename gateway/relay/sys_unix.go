//go:build unix && !linux

package relay

import "syscall"

// maxPieces is the maximum number of pieces of one sysWrite.
const maxPieces = 1

func sysRead(fd int, b []byte) (int, error) { return syscall.Read(fd, b) }

func (sh *shard) sysWrite(fd int, pieces [][]byte) (int, error) { return syscall.Write(fd, pieces[0]) }

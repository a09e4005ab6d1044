// Package proc reads from Linux's /proc what processes cost, and says where they
// run: CPU time of a process with its threads and children, resident memory, how
// busy the machine is, and pinning to cores.
package proc

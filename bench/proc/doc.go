// Package proc reads the cost of processes from Linux's /proc and pins processes to cores. It measures the CPU time of
// a process with its threads and children, resident memory, and the load of the machine.
package proc

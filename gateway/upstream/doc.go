// Package upstream has what backends share that speak another protocol than capabilities do, and that code in the
// process stands for: the list of their tools, and the texts that they send. A folder below it has each protocol.
package upstream

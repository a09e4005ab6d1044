// Package warm is the filter that lets a call wait for the protocol detection of its backend: a backend that was never
// asked may speak any dialect. It waits only as long as router.Backend does for that, and never asks the backend.
package warm

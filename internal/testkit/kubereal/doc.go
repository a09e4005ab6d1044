// Package kubereal runs a real kube-apiserver with its etcd for tests, with roles in force and tokens of service
// accounts:
//
//	cluster.go ──► the two programs: start, restart, freeze, compact
//	client.go ───► objects: apply, validate by a dry run, delete
//	account.go ──► the files of a service account in a pod, and their rotation
//
// No controller, scheduler or kubelet runs: tests write the EndpointSlices. The tests run in a network of their own, in
// which the addresses of Pods are local, by
//
//	make kubernetes
package kubereal

package kubernetes

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/capgate/capgate/internal/lib/kubeapi"
)

// configMap has what is used of a ConfigMap.
type configMap struct {
	kubeapi.Meta `json:"metadata"`
	Data         map[string]string `json:"data"` // a mirror has none
}

// configMaps are the resource of all namespaces.
var configMaps = kubeapi.Resource{Version: "v1", Plural: "configmaps"}

// maxConfigMaps bounds the ConfigMaps of one name in all namespaces.
const maxConfigMaps = 10_000

// configMapMeta returns the metadata of a ConfigMap.
func configMapMeta(m *configMap) *kubeapi.Meta { return &m.Meta }

// texts has the versions of the ConfigMaps that the configuration names. Each is followed under its name, so that the
// right to it is enough. A reader reads their data. Its owner guards it.
type texts struct {
	open   func(name string) following[configMap]
	byName map[string]*following[configMap]
}

// newTexts returns texts without ConfigMaps.
func newTexts(c *kubeapi.Client, o kubeapi.Options) texts {
	o.Labels, o.Metadata, o.MaxObjects = false, true, maxConfigMaps
	return texts{byName: map[string]*following[configMap]{},
		open: func(name string) following[configMap] {
			one := configMaps
			one.Object = name
			return newFollowing(c, one, configMapMeta, o)
		}}
}

// want follows ConfigMaps in some namespaces.
func (x *texts) want(names []string, namespaces map[string]bool) {
	for _, name := range names {
		if x.byName[name] == nil {
			f := x.open(name)
			x.byName[name] = &f
		}
	}
	for name, f := range x.byName {
		if slices.Contains(names, name) {
			f.want(namespaces, "")
		} else {
			f.want(nil, "")
		}
	}
}

// prune ends the mirrors that are not needed.
func (x *texts) prune() {
	maps.DeleteFunc(x.byName, func(_ string, f *following[configMap]) bool {
		f.prune()
		return len(f.mirrors) == 0
	})
}

// start starts the mirrors that have not been started.
func (x *texts) start(ctx context.Context, running *sync.WaitGroup) {
	for _, f := range x.byName {
		f.start(ctx, running)
	}
}

// all returns the wanted mirrors in a fixed order.
func (x *texts) all() (all []mirror) {
	for _, name := range slices.Sorted(maps.Keys(x.byName)) {
		all = append(all, x.byName[name].all()...)
	}
	return all
}

// named are the ConfigMaps of one name.
type named struct {
	byNamespace map[string]*configMap
	pending     pending
}

// known returns the ConfigMaps by name.
func (x *texts) known() map[string]named {
	all := map[string]named{}
	for name, f := range x.byName {
		one := named{map[string]*configMap{}, f.pending()}
		for _, object := range f.objects() {
			one.byNamespace[object.Namespace] = object
		}
		all[name] = one
	}
	return all
}

// Package translate is the filter that has calls translated whose backend speaks another dialect: the translator of
// gateway/dialect serves such a call, and continues it in the backend's dialect. It comes after protocol, which has
// decided that. It never picks a backend.
package translate

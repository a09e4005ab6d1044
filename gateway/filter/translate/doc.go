// Package translate implements the filter for calls whose backend speaks another dialect: the translator of
// gateway/dialect serves such a call, and continues it in the backend's dialect. The filter follows protocol, which
// decides that.
package translate

// Package recipes reads the recipes of docs/inside/recipes.md. Its test follows each of them in a copy of the
// repository, builds the result, runs its tests and counts the files.
package recipes

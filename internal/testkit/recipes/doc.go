// Package recipes reads the recipes of docs/inside/recipes.md. Its test follows each in a scratch copy of the
// repository, builds the result, runs its tests and counts the files.
package recipes

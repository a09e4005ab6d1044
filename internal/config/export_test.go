package config

// Removed says what to write in place of fields that earlier versions had.
var Removed = removed

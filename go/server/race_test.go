//go:build race

package server

// raceEnabled is true where everything allocates.
const raceEnabled = true

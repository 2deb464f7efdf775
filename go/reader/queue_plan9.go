package reader

// isQueueFull returns false: Plan 9 has no unix sockets.
func isQueueFull(error) bool {
	return false
}

// Package lib holds the archive for linux, arm64: see package larder/shared/lib.
package lib

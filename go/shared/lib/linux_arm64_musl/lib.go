// Package lib holds the archive for linux, arm64, musl: see package larder/shared/lib.
package lib

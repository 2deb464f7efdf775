// Package lib holds the archive for linux, amd64, musl: see package larder/shared/lib.
package lib

// Package lib holds the archive for linux, amd64: see package larder/shared/lib.
package lib

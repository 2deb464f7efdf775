// Package lib holds larder.h and the archives that package shared links. Each folder contains a Go
// file because vendoring copies only folders with Go files.
package lib

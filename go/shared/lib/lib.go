// Package lib holds larder.h and the archives that package shared links. Their folders have Go
// files because vendoring copies only folders that have some.
package lib

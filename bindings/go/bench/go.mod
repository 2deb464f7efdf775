module larder.example/larder/bench

go 1.25.0

require (
	github.com/VictoriaMetrics/fastcache v1.13.0
	github.com/allegro/bigcache/v3 v3.1.0
	github.com/bradfitz/gomemcache v0.0.0-20260422231931-4d751bb6e37c
	github.com/coocood/freecache v1.2.7
	github.com/dgraph-io/ristretto/v2 v2.4.2
	github.com/maypok86/otter/v2 v2.4.0
	larder.example/larder v0.0.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/dustin/gomemcached v0.0.0-20160817010731-a2284a01c143 // indirect
	github.com/golang/snappy v1.0.0 // indirect
	golang.org/x/sys v0.36.0 // indirect
)

replace larder.example/larder => ../

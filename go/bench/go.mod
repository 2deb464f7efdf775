module larder.example/larder/bench

go 1.26.0

require (
	github.com/VictoriaMetrics/fastcache v1.13.2
	github.com/Yiling-J/theine-go v0.6.3
	github.com/allegro/bigcache/v3 v3.1.0
	github.com/bradfitz/gomemcache v0.0.0-20260422231931-4d751bb6e37c
	github.com/coocood/freecache v1.2.7
	github.com/dgraph-io/ristretto/v2 v2.4.2
	github.com/dustin/gomemcached v0.0.0-20160817010731-a2284a01c143
	github.com/maypok86/otter/v2 v2.4.0
	github.com/mevdschee/tqmemory v0.0.1
	larder.example/larder v0.0.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/golang/snappy v1.0.0 // indirect
	github.com/klauspost/cpuid/v2 v2.0.9 // indirect
	github.com/zeebo/xxh3 v1.0.2 // indirect
	golang.org/x/sys v0.36.0 // indirect
	larder.example/larder/shared v0.0.0
)

replace larder.example/larder => ../

replace larder.example/larder/shared => ../shared

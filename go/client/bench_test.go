package client

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"larder.example/larder/wire"
)

// repeated is a connection that has the same response again and again.
type repeated struct{ bytes.Reader }

func (r *repeated) Read(b []byte) (int, error) {
	if r.Len() == 0 {
		r.Seek(0, io.SeekStart)
	}
	return r.Reader.Read(b)
}

// BenchmarkGetMany measures a multi-get of 100 keys without a connection.
func BenchmarkGetMany(b *testing.B) {
	keys, value := testKeys(100), make([]byte, 100)
	var response []byte
	for i := range keys {
		response = append(fmt.Appendf(response, "VA 100 c%d f0 O%d\r\n", 1000+i, i), value...)
		response = append(response, "\r\n"...)
	}
	response = append(response, "MN\r\n"...)
	source := new(repeated)
	source.Reset(response)
	cn := newConn(script{source}, serverAddr{"tcp", "there:1"}, 1<<20)
	cn.dialect = wire.Meta
	b.ReportAllocs()
	for b.Loop() {
		g := &group{keys: keys, wanted: len(keys)}
		if err := cn.getMany(keys, g.newItem); err != nil {
			b.Fatal(err)
		}
	}
}

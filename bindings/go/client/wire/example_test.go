package wire_test

import (
	"fmt"
	"strings"

	"larder/client/wire"
)

func ExampleMetaRequest() {
	request := wire.MetaRequest{
		Verb: wire.MetaSet, Key: []byte("greeting"), Value: []byte("hello"),
		Flags: wire.MetaFlags(nil).AddInt(wire.FlagSetTTL, 60).Add(wire.FlagCAS),
	}
	fmt.Printf("%q\n", request.AppendTo(nil))
	// Output: "ms greeting 5 T60 c\r\nhello\r\n"
}

func ExampleMetaResponse_Parse() {
	var response wire.MetaResponse
	n, err := response.Parse([]byte("VA 5 c17\r\nhello\r\nEN\r\n"))
	cas, _ := response.Flags.Uint(wire.FlagCAS)
	fmt.Println(n, err, response.Status, string(response.Value), cas)
	n, err = response.Parse([]byte("VA 5 c17\r\nhel"))
	fmt.Println(n, err == wire.ErrShort)
	// Output:
	// 17 <nil> VA hello 17
	// 17 true
}

func ExampleReader() {
	reader := wire.NewReader(strings.NewReader("STAT pid 17\r\nSTAT uptime 3\r\nEND\r\n"), 0)
	var line wire.TextResponse
	for reader.Read(&line) == nil && line.Kind == wire.TextStat {
		name, value := line.Stat()
		fmt.Printf("%s = %s\n", name, value)
	}
	// Output:
	// pid = 17
	// uptime = 3
}

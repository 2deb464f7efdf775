package wire_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"strings"
	"time"

	"larder.example/larder/wire"
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

func ExampleConn() {
	// This server serves one connection and has one value.
	ours, theirs := net.Pipe()
	go func() {
		server, request := wire.NewConn(theirs, 1<<20), new(wire.BinaryRequest)
		for server.Receive(request) == nil {
			server.Send(&wire.BinaryResponse{
				Opcode: request.Opcode, Opaque: request.Opaque, CAS: 1,
				Extras: wire.AppendUint32Extras(nil, 0), Value: []byte("hello"),
			})
		}
	}()
	conn := wire.NewConn(ours, 0)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	if err := conn.Send(&wire.BinaryRequest{Opcode: wire.OpGet, Opaque: 7, Key: []byte("greeting")}); err != nil {
		log.Fatal(err)
	}
	var response wire.BinaryResponse
	if err := conn.Receive(&response); err != nil {
		log.Fatal(err)
	}
	fmt.Println(response.Opcode, response.Status, response.Opaque, string(response.Value))
	// Output: GET OK 7 hello
}

func ExampleServer() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server := wire.Server{
		Handler: wire.HandlerFunc(func(w *wire.Writer, r *wire.Request) {
			if r.Dialect != wire.Text || r.Text.Verb != wire.TextVersion {
				w.Unknown(r)
				return
			}
			w.Text(&wire.TextResponse{Kind: wire.TextVersionIs, Text: []byte("1.0")})
		}),
		MaxMessageBytes: 1 << 20,
		IdleTimeout:     time.Minute,
	}
	go server.Serve(ctx, listener)

	conn, err := wire.Dial(ctx, "tcp", listener.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	conn.Send(&wire.TextRequest{Verb: wire.TextVersion}, &wire.TextRequest{Verb: wire.TextGet, Keys: wire.Words("k")})
	var response wire.TextResponse
	for range 2 {
		if err := conn.Receive(&response); err != nil {
			log.Fatal(err)
		}
		fmt.Println(response.Kind, string(response.Text))
	}
	// Output:
	// VERSION 1.0
	// ERROR
}

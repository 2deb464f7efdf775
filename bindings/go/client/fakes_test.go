package client

import (
	"bufio"
	"fmt"
	"net"
	"strings"
)

// serveTextOnly is a server without the meta protocol that has the value v for each key.
func serveTextOnly(conn net.Conn) { serveText(conn, "ERROR\r\n") }

// serveAndHangUp closes the connection on unknown commands, as routers do.
func serveAndHangUp(conn net.Conn) { serveText(conn, "") }

func serveText(conn net.Conn, unknown string) {
	lines := bufio.NewReader(conn)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		words := strings.Fields(line)
		switch {
		case words[0] == "gets" || words[0] == "gats":
			fmt.Fprintf(conn, "VALUE %s 0 1 1\r\nv\r\nEND\r\n", words[len(words)-1])
		case unknown == "":
			return
		default:
			fmt.Fprint(conn, unknown)
		}
	}
}

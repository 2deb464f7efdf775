package client

import (
	"bufio"
	"fmt"
	"net"
	"strings"
)

// textOnly is a server from before the meta protocol that has one value for each key.
func textOnly(conn net.Conn) {
	lines := bufio.NewReader(conn)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		words := strings.Fields(line)
		switch words[0] {
		case "gets", "gats":
			fmt.Fprintf(conn, "VALUE %s 0 1 1\r\nv\r\nEND\r\n", words[len(words)-1])
		default:
			fmt.Fprint(conn, "ERROR\r\n")
		}
	}
}

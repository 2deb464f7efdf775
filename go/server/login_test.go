package server

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/testserver"
	"larder.example/larder/wire"
)

// saslPlain returns a request to log in.
func saslPlain(user, password string) string {
	r := wire.BinaryRequest{Opcode: wire.OpSASLAuth, Key: []byte("PLAIN"), Value: []byte("\x00" + user + "\x00" + password)}
	return string(r.AppendTo(nil))
}

func TestLoginInBinary(t *testing.T) {
	c := withTokens()
	c.options.Auth = func(user, password string) bool { return user == "ann" && password == "secret" }
	_, socket := start(t, c)
	request := func(r wire.BinaryRequest) string { return string(r.AppendTo(nil)) }
	response := func(r wire.BinaryResponse) string { return string(r.AppendTo(nil)) }
	denied := func(opcode wire.Opcode) string {
		return response(wire.BinaryResponse{Opcode: opcode, Status: wire.StatusAuthError, Value: []byte("Auth failure.")})
	}
	get := request(wire.BinaryRequest{Opcode: wire.OpGet, Key: []byte("k")})
	check.Equal(t, "the responses before the login", converse(t, socket, get, 0), denied(wire.OpGet))
	conn := dial(t, socket)
	ask(t, conn, request(wire.BinaryRequest{Opcode: wire.OpSASLListMechs}),
		response(wire.BinaryResponse{Opcode: wire.OpSASLListMechs, Value: []byte("PLAIN")}))
	ask(t, conn, request(wire.BinaryRequest{Opcode: wire.OpVersion}),
		response(wire.BinaryResponse{Opcode: wire.OpVersion, Value: []byte(Version)}))
	ask(t, conn, saslPlain("ann", "guess"), denied(wire.OpSASLAuth))
	ask(t, conn, saslPlain("ann", "secret"),
		response(wire.BinaryResponse{Opcode: wire.OpSASLAuth, Value: []byte("Authenticated")}))
	ask(t, conn, get, response(wire.BinaryResponse{Opcode: wire.OpGet, Status: wire.StatusNotFound, Value: []byte("Not found")}))
	// A failed login ends an earlier one.
	ask(t, conn, saslPlain("ann", "guess")+get, denied(wire.OpSASLAuth)+denied(wire.OpGet))
}

// logins are requests of clients that must log in as ann with the password "secretword". Each has a
// response of one line.
var logins = map[string][]string{
	"any line":         {"get k", "version", "stats", "mg k v", "set k 0 0 14\r\nann secretword", "mg k", "version"},
	"a wrong password": {"set k 0 0 5\r\nann x", "set k 0 0 11\r\nann secret ", "set k 0 0 15\r\nann secretwordy", "mg key"},
	"no user":          {"set k 0 0 11\r\n secretword", "set k 0 0 0\r\n", "set k 0 0 1\r\n ", "set k 0 0 3\r\nann", "set k 0 0 4\r\nann "},
	"another storage":  {"ms k 15", "ann secretword", "add k 0 0 15", "set k 0 0", "set k 0 0 x", "set k 0 0 -1", "set  k  9 -5  14  more\r\nann secretword", "mn"},
	"a long key":       {"set " + strings.Repeat("k", 300) + " 0 0 14\r\nann secretword", "mn"},
	"noreply":          {"set k 0 0 5 noreply\r\nann x", "set k 0 0 14 noreply\r\nann secretword", "set k 0 0 1\r\nx", "mg k"},
	"the next login":   {"set k 0 0 14\r\nann secretword", "set k 0 0 14\r\nann secretxxxx", "mg k s"},
	"bytes":            {"set \xff 0 0 5\r\n\xff \x01\xfe\x80", "set k 0 0 14\r\nann\tsecretword", "set k 0 0 15\r\nann secretword ", "set k 0 0 15\r\nann  secretword"},
}

// shortLogins are lines to which memcached 1.6.18 responds, and later versions do not.
var shortLogins = map[string]string{
	"a short line": "quit\r\n", "a long value": "set k 0 0 16385\r\n" + strings.Repeat("x", 16385) + "\r\nmn\r\n",
	"a long line": strings.Repeat("x", 3000) + "\r\n",
}

func isAnn(user, password string) bool { return user == "ann" && password == "secretword" }

func withLogin() config {
	c := withTokens()
	c.options.Auth = isAnn
	return c
}

func TestLogsInLikeMemcached(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users")
	check.NoError(t, os.WriteFile(users, []byte("ann:secretword\nbob:other\n"), 0o644))
	check.NoError(t, os.Chmod(filepath.Dir(users), 0o755))
	for _, program := range []string{"memcached", "larderd"} {
		// Both servers must start empty, because they store different items during the logins.
		_, larder := start(t, withLogin())
		other := testserver.Start(t, program, "-Y", users)
		for name, requests := range logins {
			want := inTurn(t, other, requests, 0)
			for _, size := range []int{0, 1} {
				check.Equal(t, program+": the responses to "+name, inTurn(t, larder, requests, size), want)
			}
		}
		if program == "memcached" {
			continue
		}
		for name, requests := range shortLogins {
			never := func(string) bool { return false }
			check.Equal(t, name, untilEnd(t, larder, requests, 0, never), untilEnd(t, other, requests, 0, never))
		}
	}
}

// inTurn sends each request after the response to the previous request: if several requests arrive
// together before a login, memcached 1.6.18 responds only to the last one.
func inTurn(t *testing.T, socket string, requests []string, size int) (responses string) {
	t.Helper()
	conn := dial(t, socket)
	in := bufio.NewReader(conn)
	for _, request := range requests {
		check.NoError(t, send(conn, []byte(request+"\r\n"), size))
		line, err := in.ReadString('\n')
		check.NoError(t, err)
		responses += strings.ReplaceAll(line, "1.6.18", Version)
	}
	return responses
}

// untilEnd sends requests and returns the responses until the server closes the connection, or
// until isLast returns true for them.
func untilEnd(t *testing.T, socket, requests string, size int, isLast func(responses string) bool) string {
	t.Helper()
	conn := dial(t, socket)
	_ = send(conn, []byte(requests), size)
	var responses []byte
	for part := make([]byte, 4096); !isLast(string(responses)); {
		n, err := conn.Read(part)
		responses = append(responses, part[:n]...)
		if err == io.EOF || errors.Is(err, syscall.ECONNRESET) {
			break
		}
		check.NoError(t, err)
	}
	return string(responses)
}

// sasl returns a request to log in.
func sasl(opcode wire.Opcode, mechanism, value string) string {
	return string((&wire.BinaryRequest{Opcode: opcode, Key: []byte(mechanism), Value: []byte(value)}).AppendTo(nil))
}

// saslLogins are requests of the binary protocol. The other servers respond to some of them
// differently.
func saslLogins() (all, ofMemcached, ofLarderd map[string]string) {
	const right, wrong = "\x00ann\x00secretword", "\x00ann\x00secret"
	plain := func(value string) string { return sasl(wire.OpSASLAuth, "PLAIN", value) }
	step := func(value string) string { return sasl(wire.OpSASLStep, "PLAIN", value) }
	simple := func(opcode wire.Opcode) string { return string((&wire.BinaryRequest{Opcode: opcode}).AppendTo(nil)) }
	quiet := string((&wire.BinaryRequest{Opcode: wire.OpGetQ, Key: []byte("k")}).AppendTo(nil))
	noop, list := simple(wire.OpNoOp), simple(wire.OpSASLListMechs)
	all = map[string]string{
		"nothing": "", "list": list, "list with key": sasl(wire.OpSASLListMechs, "x", ""), "list with value": sasl(wire.OpSASLListMechs, "", "x"),
		"quiet get first": quiet, "noop first": noop, "quit first": simple(wire.OpQuit), "unknown first": simple(0x50),
		"stat first": simple(wire.OpStat), "flush first": simple(wire.OpFlush),
		"right": plain(right), "right with identity": plain("ann" + right), "another identity": plain("bob" + right),
		"wrong": plain(wrong), "wrong, right": plain(wrong) + plain(right), "right, wrong": plain(right) + plain(wrong),
		"no user": plain("\x00\x00secretword"), "no password": plain("\x00ann\x00"), "a small body": plain("x"), "no zero": plain("ann secretword"),
		"one zero": plain("ann\x00secretword"), "three zeros": plain(right + "\x00"), "another user": plain("\x00eve\x00secretword"),
		"no mechanism": sasl(wire.OpSASLAuth, "", right), "another mechanism": sasl(wire.OpSASLAuth, "CRAM-MD5", ""),
		"a long mechanism": sasl(wire.OpSASLAuth, strings.Repeat("P", 33), right) + plain(right),
		"a step first":     step(right), "bytes": plain("\xff\x00\xfe\x00\x80"),
	}
	ofMemcached = map[string]string{"small letters": sasl(wire.OpSASLAuth, "plain", right)}
	ofLarderd = map[string]string{
		"right twice": plain(right) + plain(right), "no value": plain(""), "two steps": plain("") + step(right), "list after": plain(right) + list,
		"a long value": plain(strings.Repeat("x", 5000)) + plain(right),
	}
	return all, ofMemcached, ofLarderd
}

// startSASL starts a server with a user of the binary protocol, and returns "" without the tool for
// memcached's passwords.
func startSASL(t *testing.T, program string) string {
	folder := t.TempDir()
	check.NoError(t, os.Chmod(folder, 0o755))
	users := filepath.Join(folder, "users")
	if program == "larderd" {
		check.NoError(t, os.WriteFile(users, []byte("ann:secretword\n"), 0o644))
		t.Setenv("MEMCACHED_SASL_PWDB", users)
		return testserver.Start(t, program, "-S")
	}
	tool, err := exec.LookPath("saslpasswd2")
	if err != nil {
		tool = "/usr/sbin/saslpasswd2"
	}
	command := exec.Command(tool, "-a", "memcached", "-c", "-p", "-f", users, "ann")
	command.Stdin = strings.NewReader("secretword")
	if err := command.Run(); err != nil {
		t.Logf("without memcached's passwords: %v", err)
		return ""
	}
	check.NoError(t, os.Chmod(users, 0o644))
	settings := "mech_list: plain\npwcheck_method: auxprop\nauxprop_plugin: sasldb\nlog_level: 0\nsasldb_path: " + users + "\n"
	check.NoError(t, os.WriteFile(filepath.Join(folder, "memcached.conf"), []byte(settings), 0o644))
	t.Setenv("SASL_CONF_PATH", folder)
	return testserver.Start(t, program, "-S")
}

func TestLogsInLikeMemcachedInBinary(t *testing.T) {
	_, larder := start(t, withLogin())
	all, ofMemcached, ofLarderd := saslLogins()
	get := string((&wire.BinaryRequest{Opcode: wire.OpGet, Key: []byte("k")}).AppendTo(nil))
	ask := func(socket, request string, size int) string {
		return withoutTokens(t, untilEnd(t, socket, request+get, size, func(responses string) bool {
			at := len(responses) - wire.BinaryHeaderBytes - len("Not found")
			return at >= 0 && responses[at:at+2] == "\x81\x00"
		}))
	}
	for program, more := range map[string]map[string]string{"memcached": ofMemcached, "larderd": ofLarderd} {
		other := startSASL(t, program)
		if other == "" {
			continue
		}
		for _, requests := range []map[string]string{all, more} {
			for name, request := range requests {
				want := ask(other, request, 0)
				for _, size := range []int{0, 1} {
					check.Equal(t, program+": the responses to "+name, ask(larder, request, size), want)
				}
			}
		}
	}
}

package server

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/engine"
	"larder.example/larder/wire"
)

const transcripts = "../../conformance/wire"

// unfit are the transcripts that need features which this server does not have.
var unfit = map[string]string{
	"admin_unknown": "extstore is known to no server without a flash tier", "binary_stat": "tcp_backlog, stats detail",
	"answers_as_1_6_18": "larderd's option", "answers_as_1_6_18_without_cas": "larderd's option",
	"binary_flush_disabled": "option -F", "flush_all_disabled": "option -F", "cache_memlimit": "the limit is fixed",
	"debugtime": "command", "delete_prefix": "command", "delete_prefix_disabled": "command",
	"delete_prefix_memcached": "command", "dump_disabled": "command", "last_used": "command debugtime",
	"lease": "command", "local_readers_off": "commands of larderd", "lru": "command", "lru_crawler": "command",
	"lru_without_maintainer": "command", "near": "commands of larderd",
	"config_get": "commands of larderd", "binary_config_get": "commands of larderd",
	"no_evictions": "option -M", "protocol_ascii": "option -B", "protocol_binary": "option -B",
	"shutdown_enabled": "command", "slabs": "command",
	"stats": "not all statistics", "stats_cachedump_disabled": "command",
	"stats_counters":    "get_expired",
	"stats_items_slabs": "size classes", "stats_prefix": "command", "stats_settings": "not all settings",
	"stats_words": "stats larder", "watch": "command",
	"item_size": "covered by TestItemMax",
}

// endsBefore names the first line of a transcript that needs a feature which the server does not
// have.
var endsBefore = map[string]string{
	"auth_file": "# A client that does not use",
}

func TestTranscripts(t *testing.T) {
	check.Repository(t)
	files, err := filepath.Glob(transcripts + "/*.txt")
	check.NoError(t, err)
	if len(files) < 80 {
		t.Fatalf("%d transcripts in %s", len(files), transcripts)
	}
	left := 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		if reason := unfit[name]; reason != "" {
			left++
			t.Logf("%s: left out: %s", name, reason)
			continue
		}
		text, err := os.ReadFile(file)
		check.NoError(t, err)
		script, ending := string(text), endsBefore[name]
		if ending != "" {
			var isFound bool
			if script, _, isFound = strings.Cut(script, ending); !isFound {
				t.Fatalf("%s has no line %q", name, ending)
			}
		}
		for _, pieces := range []string{"whole", "bytes", "random"} {
			if pieces != "random" && strings.Contains(script, "00 ms") {
				// This transcript waits for seconds.
				continue
			}
			t.Run(name+"/"+pieces, func(t *testing.T) {
				t.Parallel()
				play(t, script, pieces)
			})
		}
	}
	check.Equal(t, "the number of transcripts left out", left, len(unfit))
}

// player plays a transcript.
type player struct {
	t      *testing.T
	socket string
	pieces string
	line   string
	conns  map[string]*played
	names  map[string]string
	random *rand.Rand
}

type played struct {
	net.Conn
	in       *bufio.Reader
	isBinary bool
	out      []byte
	// skipsLines is true after <lines> or <answers>.
	skipsLines bool
}

var entry = regexp.MustCompile(`^([CSQA])(\d?)(?:\[([\w ]+)\])?: ?(.*)$`)

// ofOthers are the marks of lines and transcripts that do not apply to Larder.
var ofOthers = map[string]bool{"18": true, "only 45": true, "memcached": true}

func play(t *testing.T, script, pieces string) {
	seed := time.Now().UnixNano()
	p := &player{
		t: t, pieces: pieces, conns: map[string]*played{}, names: map[string]string{},
		random: rand.New(rand.NewSource(seed)),
	}
	c := withTokens()
	c.engine.TrackAccess = true
	lines := strings.Split(script, "\n")
	for _, line := range lines {
		switch {
		case strings.HasPrefix(line, "args: -C"):
			c.engine = engine.Config{}
		case strings.HasPrefix(line, "args: -Y"):
			c.options.Auth = func(user, password string) bool {
				return user == "foo" && password == "bar" || user == "baaaz" && password == "quux"
			}
		case ofOthers[strings.TrimPrefix(line, "only: ")]:
			t.Skip("of memcached alone")
		}
	}
	_, p.socket = start(t, c)
	for number, line := range lines {
		p.line = fmt.Sprintf("line %d, seed %d, %.120s", number+1, seed, line)
		if text, isWait := strings.CutPrefix(line, "wait: "); isWait {
			p.flush()
			pause, err := time.ParseDuration(strings.ReplaceAll(text, " ", ""))
			check.NoError(t, err)
			time.Sleep(pause)
			continue
		}
		match := entry.FindStringSubmatch(line)
		if match == nil || ofOthers[match[3]] {
			continue
		}
		p.play(match[1], match[2], match[4])
	}
	p.flush()
	for _, c := range p.conns {
		c.out = append(c.out, "version\r\n"...)
		want := "VERSION " + Version + "\r\n"
		if c.isBinary {
			c.out = (&wire.BinaryRequest{Opcode: wire.OpNoOp}).AppendTo(c.out[:0])
			want = string((&wire.BinaryResponse{Opcode: wire.OpNoOp}).AppendTo(nil))
		}
		p.flush()
		got := make([]byte, len(want))
		_, _ = io.ReadFull(c.in, got)
		check.Equal(t, "the response at the end", string(got), want)
	}
}

func (p *player) conn(name string) *played {
	if p.conns[name] == nil {
		conn := dial(p.t, p.socket)
		p.conns[name] = &played{Conn: conn, in: bufio.NewReader(conn)}
	}
	return p.conns[name]
}

func (p *player) play(kind, name, text string) {
	c := p.conn(name)
	switch {
	case kind == "C" && text == "<close>":
		p.flush()
		_ = c.Close()
		delete(p.conns, name)
	case kind == "C" && text == "<no more>":
		p.flush()
		check.NoError(p.t, c.Conn.(*net.UnixConn).CloseWrite())
	case kind == "C":
		c.out = append(c.out, p.fill(text, true)...)
	case kind == "Q":
		c.isBinary = true
		c.out = append(c.out, p.packet(text)...)
	case text == "<closed>":
		p.flush()
		if rest, err := io.ReadAll(c.in); len(rest) > 0 || err != nil && !strings.Contains(err.Error(), "reset") {
			p.t.Fatalf("%s: %.200q, %v instead of the end", p.line, rest, err)
		}
		delete(p.conns, name)
	case text == "<lines>" || text == "<answers>":
		p.flush()
		c.skipsLines = true
	case kind == "S":
		p.flush()
		for {
			read := c.in
			var line []byte
			if c.skipsLines {
				var err error
				line, err = c.in.ReadBytes('\n')
				p.must(err, line)
				read = bufio.NewReader(bytes.NewReader(line))
			}
			got, ok := p.match(read, text, true)
			if ok {
				break
			}
			if !c.skipsLines {
				rest, _ := c.in.Peek(c.in.Buffered())
				p.t.Fatalf("%s: %.200q", p.line, append(got, rest...))
			}
		}
		c.skipsLines = false
	default:
		p.flush()
		for !p.matchPacket(c, text) {
		}
		c.skipsLines = false
	}
}

func (p *player) must(err error, got []byte) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("%s: %.200q and then %v", p.line, got, err)
	}
}

// flush sends the buffered requests of the clients.
func (p *player) flush() {
	for _, c := range p.conns {
		// Responses to many small commands fill the socket: this client reads after it has sent all.
		isShort := len(c.out) < 2000
		for len(c.out) > 0 {
			size := len(c.out)
			if p.pieces == "bytes" && isShort {
				size = 1
			} else if p.pieces != "whole" {
				size = min(size, 1+p.random.Intn(1+size/3))
			}
			n, err := c.Write(c.out[:size])
			if c.out = c.out[n:]; err != nil {
				// The next S must be the end.
				c.out = nil
			}
		}
	}
}

var special = regexp.MustCompile(`\\x[0-9a-fA-F]{2}|\\.|<"[^"]*"\*\d+>|<[\w+.-]+>`)

// fill returns the bytes of a text, with a line end unless the text ends in a backslash.
func (p *player) fill(text string, isLine bool) []byte {
	if isLine {
		var isOpen bool
		if text, isOpen = strings.CutSuffix(text, `\`); !isOpen || strings.HasSuffix(text, `\`) && len(text)%2 == 1 {
			text += `\r\n`
		}
	}
	return []byte(special.ReplaceAllStringFunc(text, func(found string) string {
		if found[0] == '\\' {
			return unescape(found)
		}
		name := found[1 : len(found)-1]
		if name[0] == '"' {
			return p.times(name)
		}
		if seconds, isTime := strings.CutPrefix(name, "now"); isTime && seconds != "" {
			offset, err := strconv.Atoi(seconds)
			check.NoError(p.t, err)
			return strconv.FormatInt(time.Now().Unix()+int64(offset), 10)
		}
		if p.names[name] == "" {
			p.t.Fatalf("%s: <%s> has no value", p.line, name)
		}
		return p.names[name]
	}))
}

func (p *player) times(name string) string {
	at := strings.LastIndex(name, `"*`)
	count, err := strconv.Atoi(name[at+2:])
	check.NoError(p.t, err)
	return strings.Repeat(special.ReplaceAllStringFunc(name[1:at], unescape), count)
}

func unescape(found string) string {
	switch found[1] {
	case 'x':
		code, _ := strconv.ParseUint(found[2:], 16, 8)
		return string([]byte{byte(code)})
	case 'r':
		return "\r"
	case 'n':
		return "\n"
	case 't':
		return "\t"
	case '0':
		return "\x00"
	}
	return found[1:]
}

// match reads the bytes that a text describes, and returns them.
func (p *player) match(in *bufio.Reader, text string, isLine bool) (got []byte, ok bool) {
	if isLine {
		var isOpen bool
		if text, isOpen = strings.CutSuffix(text, `\`); !isOpen {
			text += `\r\n`
		}
	}
	for text != "" {
		place := special.FindStringIndex(text)
		literal := text
		if place != nil {
			literal = text[:place[0]]
		}
		if literal == "" {
			literal = text[:place[1]]
			if name := literal[1 : len(literal)-1]; literal[0] == '<' && name[0] != '"' {
				stop := byte('\r')
				if rest := text[place[1]:]; rest != "" && rest[0] != '\\' && rest[0] != '<' {
					stop = rest[0]
				}
				word, ok := p.matchName(in, name, stop)
				if got = append(got, word...); !ok {
					return got, false
				}
				text = text[place[1]:]
				continue
			}
		}
		want := p.fill(literal, false)
		read := make([]byte, len(want))
		n, err := io.ReadFull(in, read)
		if got = append(got, read[:n]...); err != nil || !bytes.Equal(read, want) {
			return got, false
		}
		text = text[len(literal):]
	}
	return got, true
}

// matchName reads the bytes that a name in angle brackets stands for.
func (p *player) matchName(in *bufio.Reader, name string, stop byte) (word string, ok bool) {
	for {
		next, err := in.Peek(1)
		isPart := err == nil && (next[0] >= '0' && next[0] <= '9' || name == "version" && next[0] == '.' ||
			name == "text" && next[0] != stop)
		if !isPart {
			break
		}
		word += string(next)
		_, _ = in.Discard(1)
	}
	switch old := p.names[name]; {
	case strings.Contains(name, ".."):
		var from, to, number int
		_, err := fmt.Sscanf(name+" "+word, "%d..%d %d", &from, &to, &number)
		return word, err == nil && from <= number && number <= to
	case name == "digits" || name == "version" || name == "text":
		return word, word != ""
	case old == "":
		for _, other := range p.names {
			if other == word {
				return word, false
			}
		}
		p.names[name] = word
		return word, word != ""
	default:
		return word, word == old
	}
}

// fields splits the description of a packet.
func (p *player) fields(text string) (opcode wire.Opcode, fields map[string]string) {
	name, rest, _ := strings.Cut(text, " ")
	number, err := strconv.ParseUint(name, 0, 8)
	if opcode = wire.Opcode(number); err != nil {
		opcode = opcodeOf[name]
	}
	fields = map[string]string{}
	for _, field := range strings.Fields(rest) {
		key, value, _ := strings.Cut(field, "=")
		fields[key] = value
	}
	return opcode, fields
}

var opcodeOf = func() map[string]wire.Opcode {
	opcodes := map[string]wire.Opcode{"sasl_list": wire.OpSASLListMechs}
	for opcode := range wire.Opcode(0x3d) {
		opcodes[strings.ToLower(opcode.String())] = opcode
	}
	return opcodes
}()

func (p *player) number(text string) uint64 {
	if text == "" {
		return 0
	}
	number, err := strconv.ParseUint(string(p.fill(text, false)), 0, 64)
	check.NoError(p.t, err)
	return number
}

// extras returns the extras that the fields describe.
func (p *player) extras(fields map[string]string) (extras []byte) {
	for _, name := range []string{"flags", "exptime", "delta", "initial"} {
		if name == "exptime" && fields["delta"] != "" {
			continue
		}
		if value, ok := fields[name]; ok && (name == "flags" || name == "exptime") {
			extras = binary.BigEndian.AppendUint32(extras, uint32(p.number(value)))
		} else if ok {
			extras = binary.BigEndian.AppendUint64(extras, p.number(value))
		}
	}
	if value, ok := fields["exptime"]; ok && fields["delta"] != "" {
		extras = binary.BigEndian.AppendUint32(extras, uint32(p.number(value)))
	}
	return append(extras, p.fill(fields["extras"], false)...)
}

func (p *player) packet(text string) []byte {
	opcode, fields := p.fields(text)
	packet := (&wire.BinaryRequest{
		Opcode: opcode, Opaque: uint32(p.number(fields["opaque"])), CAS: p.number(fields["cas"]),
		Extras: p.extras(fields), Key: p.fill(fields["key"], false), Value: p.fill(fields["value"], false),
	}).AppendTo(nil)
	if value := fields["magic"]; value != "" {
		packet[0] = byte(p.number(value))
	}
	if value := fields["extras_bytes"]; value != "" {
		packet[4] = byte(p.number(value))
	}
	if value := fields["key_bytes"]; value != "" {
		binary.BigEndian.PutUint16(packet[2:], uint16(p.number(value)))
	}
	if value := fields["body_bytes"]; value != "" {
		binary.BigEndian.PutUint32(packet[8:], uint32(p.number(value)))
	}
	return packet
}

// matchPacket reads a response of the binary protocol. It returns false if the caller should skip
// the response.
func (p *player) matchPacket(c *played, text string) bool {
	head := make([]byte, wire.BinaryHeaderBytes)
	n, err := io.ReadFull(c.in, head)
	p.must(err, head[:n])
	body := make([]byte, binary.BigEndian.Uint32(head[8:]))
	n, err = io.ReadFull(c.in, body)
	p.must(err, body[:n])
	var r wire.BinaryResponse
	_, err = r.Parse(append(head, body...))
	p.must(err, head)
	opcode, fields := p.fields(text)
	extras := p.extras(fields)
	ok := r.Opcode == opcode && uint64(r.Status) == p.number(fields["status"]) &&
		uint64(r.Opaque) == p.number(fields["opaque"]) && bytes.Equal(r.Extras, extras) &&
		string(r.Key) == string(p.fill(fields["key"], false))
	if ok && fields["number"] != "" {
		ok = bytes.Equal(r.Value, binary.BigEndian.AppendUint64(nil, p.number(fields["number"])))
	} else if ok {
		value := bufio.NewReader(bytes.NewReader(r.Value))
		_, ok = p.match(value, fields["value"], false)
		ok = ok && value.Buffered() == 0
	}
	if ok {
		in := bufio.NewReader(strings.NewReader(strconv.FormatUint(r.CAS, 10)))
		if want := fields["cas"]; want == "" {
			ok = r.CAS == 0
		} else {
			_, ok = p.match(in, want, false)
		}
	}
	if !ok && !c.skipsLines {
		p.t.Fatalf("%s: %+v", p.line, r)
	}
	return ok
}

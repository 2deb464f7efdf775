package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// request is a line of a trace.
type request struct {
	id, bytes, seconds uint32
	isSet              bool
}

// trace is the requests of a file, each with the size of its item.
type trace struct {
	requests []request
	keys     int
	hasTTLs  bool
}

// second returns the second of a request. A trace with times to live spans a day; any other trace
// has 1,000 requests in a second.
func (t *trace) second(at int) int64 {
	if t.hasTTLs {
		return int64(at) * 86_400 / int64(len(t.requests))
	}
	return int64(at) / 1000
}

// read reads a trace, and multiplies its sizes by scale. The command zstd unpacks it.
func read(path string, scale uint32) (*trace, error) {
	unpack := exec.Command("zstd", "-dcq", path)
	unpack.Stderr = os.Stderr
	text, err := unpack.Output()
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	sizes, err := readSizes(filepath.Join(filepath.Dir(path), "sizes-kvcache_reg.txt"))
	if err != nil {
		return nil, err
	}
	t := &trace{}
	var known []uint32
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		var fields [4]uint32
		count := 0
		for word := range strings.SplitSeq(lines.Text(), ",") {
			number, err := strconv.ParseUint(word, 10, 32)
			if err != nil || count == len(fields) {
				return nil, fmt.Errorf("invalid line %q", lines.Text())
			}
			fields[count] = uint32(number)
			count++
		}
		id, size := fields[0], fields[1]
		isNew := int(id) == len(known)
		switch {
		case isNew && count == 1:
			known = append(known, sizes.itemBytes(id)*scale)
		case isNew:
			known = append(known, size*scale)
		case int(id) > len(known):
			return nil, fmt.Errorf("key %d appears before key %d", id, len(known))
		case count > 1:
			known[id] = size * scale
		}
		t.hasTTLs = t.hasTTLs || fields[2] != 0
		t.requests = append(t.requests, request{id, known[id], fields[2], fields[3] == 1})
	}
	t.keys = len(known)
	return t, lines.Err()
}

// quantiles are the sizes of items in a trace without sizes.
type quantiles []uint32

func readSizes(path string) (sizes quantiles, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for {
		var size uint32
		switch _, err := fmt.Fscanln(file, &size); err {
		case nil:
			sizes = append(sizes, size)
		case io.EOF:
			return sizes, nil
		default:
			return nil, err
		}
	}
}

func (q quantiles) itemBytes(id uint32) uint32 {
	mixed := mix(uint64(id))
	return q[mixed%uint64(len(q))] + 16 + uint32(mixed>>40)%48
}

// mix is the finaliser of splitmix64 after its increment.
func mix(number uint64) uint64 {
	number += 0x9E3779B97F4A7C15
	number = (number ^ number>>30) * 0xBF58476D1CE4E5B9
	number = (number ^ number>>27) * 0x94D049BB133111EB
	return number ^ number>>31
}

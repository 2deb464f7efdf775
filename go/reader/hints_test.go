package reader

import (
	"bytes"
	"encoding/base64"
	"testing"
)

func TestHintLinesAreCompleteAndBounded(t *testing.T) {
	var queue hints
	if out := queue.moveTo(nil); len(out) != 0 {
		t.Errorf("moveTo without hints = %q, want nothing", out)
	}
	var expected [][]byte
	for i := range hintKeysMax {
		key := bytes.Repeat([]byte{byte(i), '\n'}, i*3%125+1)
		expected = append(expected, key)
		if isTime := queue.push(key); isTime != (i == hintKeysMax-1) {
			t.Errorf("push of key %d = %v, want %v", i+1, isTime, i == hintKeysMax-1)
		}
	}
	out := queue.moveTo(nil)
	lines := bytes.Split(out, []byte("\r\n"))
	if last := lines[len(lines)-1]; len(last) > 0 || len(lines) < 4 {
		t.Fatalf("%d lines and the rest %q, want at least 4 complete lines", len(lines), last)
	}
	for _, line := range lines[:len(lines)-1] {
		words := bytes.Split(line, []byte(" "))
		if len(line) > hintLineBytesMax || string(words[0]) != "larder_read" {
			t.Errorf("line of %d bytes %.40q, want larder_read and at most %d bytes", len(line), line, hintLineBytesMax)
		}
		for _, word := range words[1:] {
			key, err := base64.StdEncoding.DecodeString(string(word))
			if err != nil || !bytes.Equal(key, expected[0]) {
				t.Fatalf("key %q, %v, want %q", key, err, expected[0])
			}
			expected = expected[1:]
		}
	}
	if len(expected) > 0 {
		t.Errorf("%d keys are missing", len(expected))
	}
}

func TestUnsentHintsAreBounded(t *testing.T) {
	var queue hints
	for range 100_000 {
		queue.push([]byte("a key"))
	}
	// The limit is checked before a key is added.
	if most := hintBytesMax + 1000; len(queue.lines) > most {
		t.Errorf("%d bytes of hints, want at most %d", len(queue.lines), most)
	}
}

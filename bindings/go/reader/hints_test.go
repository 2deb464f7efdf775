package reader

import (
	"bytes"
	"encoding/base64"
	"testing"
)

func TestLinesOfHintsAreWholeAndNoneIsLongerThanItMayBe(t *testing.T) {
	var queue hints
	if out := queue.moveTo(nil); len(out) != 0 {
		t.Errorf("%q", out)
	}
	var expected [][]byte
	for i := range hintKeysMax {
		key := bytes.Repeat([]byte{byte(i), '\n'}, i*3%125+1)
		expected = append(expected, key)
		if isTime := queue.push(key); isTime != (i == hintKeysMax-1) {
			t.Errorf("%v after %d keys", isTime, i+1)
		}
	}
	out := queue.moveTo(nil)
	lines := bytes.Split(out, []byte("\r\n"))
	if last := lines[len(lines)-1]; len(last) > 0 || len(lines) < 4 {
		t.Fatalf("%d lines, in the end %q", len(lines), last)
	}
	for _, line := range lines[:len(lines)-1] {
		words := bytes.Split(line, []byte(" "))
		if len(line) > hintLineBytesMax || string(words[0]) != "larder_read" {
			t.Errorf("%d bytes: %q", len(line), line)
		}
		for _, word := range words[1:] {
			key, err := base64.StdEncoding.DecodeString(string(word))
			if err != nil || !bytes.Equal(key, expected[0]) {
				t.Fatalf("%q: %v", key, err)
			}
			expected = expected[1:]
		}
	}
	if len(expected) > 0 {
		t.Errorf("%d keys are not queue", len(expected))
	}
}

func TestHintsThatNobodyTakesAreForgotten(t *testing.T) {
	var queue hints
	for range 100_000 {
		queue.push([]byte("a key"))
	}
	if len(queue.lines) > hintBytesMax+1000 {
		t.Errorf("%d bytes", len(queue.lines))
	}
}

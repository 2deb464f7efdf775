package server

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"larder.example/larder/internal/testserver"
)

// oddWords are the parts of which oddLine makes words.
var oddWords = []string{
	"a", "b", "YQ==", "YWI", "!!!!", "a\x00b", "\xff\xfe", "a\tb", strings.Repeat("k", 250), strings.Repeat("k", 251),
	strings.Repeat("YWFh", 62), strings.Repeat("YWFh", 84), "0", "1", "5", "-1", "+1", "4294967295", "4294967296", "2147483648",
	"-2147483649", "18446744073709551615", "18446744073709551616", "99999999999999999999999", "x", "noreply", "noreplY", "1x", "0x1", "--1", "",
	"C1", "E7", "N30", "R30", "T0", "T-1", "T+1", "Tx", "F1", "F4294967295", "I", "J5", "D2", "MA", "ME", "MX", "M", "MI",
	"M-", "b", "c1", "f", "h", "k", "O1", "O" + strings.Repeat("o", 31), "O\xff", "q", "s", "t", "u", "v", "vv", "x",
	"L5", "Pz", "z", "S", "i", "0", "{", "\x7f", "[", "_", "^",
}

// oddLine returns a line of words that do not fit together, perhaps with a value.
func oddLine(random *rand.Rand) string {
	commands := []string{
		"get", "get", "gat", "gat", "set", "add", "replace", "append", "prepend", "cas", "incr", "decr", "touch", "delete",
		"mg", "mg", "mg", "ms", "ms", "md", "md", "ma", "ma", "me", "mn", "flush_all", "GET", "mx", "m", "stats detail", "version x",
	}
	line := commands[random.Intn(len(commands))]
	isStore := strings.Contains(" set add replace append prepend cas ", " "+line+" ")
	words := []string{"a", "b", "YQ=="}[random.Intn(3):][:1]
	switch {
	case isStore:
		words = append(words, "0", "100", "3", "1")
	case line == "ms":
		words = append(words, "3")
	case strings.HasPrefix(line, "incr"), line == "decr", line == "touch":
		words = append(words, "1")
	}
	for range random.Intn(5) {
		words = append(words, oddWords[random.Intn(len(oddWords))])
	}
	if random.Intn(3) == 0 {
		words[random.Intn(len(words))] = oddWords[random.Intn(len(oddWords))]
	}
	if random.Intn(8) == 0 {
		words = words[:random.Intn(len(words)+1)]
	}
	for _, word := range words {
		line += strings.Repeat(" ", 1+random.Intn(10)/9) + word
	}
	if line += []string{"\r\n", "\n", " \r\n", "\r\r\n"}[random.Intn(20)/17]; isStore || strings.HasPrefix(line, "ms") {
		line += []string{"abc\r\n", "12\n\r\n", "abc\r\n", "7  \r\n", "ab\r\n", "abcd\r\n", "", "\xff\x00\n\r\n"}[random.Intn(8)]
	}
	return line
}

// differs returns true for a line to which larderd responds in another way, on purpose or by
// mistake.
func differs(line string) bool {
	flags := " " + strings.TrimRight(line, "\r\n") + " "
	has := func(words ...string) bool {
		for _, word := range words {
			if !strings.Contains(flags, " "+word) {
				return false
			}
		}
		return true
	}
	switch {
	case strings.HasPrefix(line, "delete") && len(strings.Fields(line)) > 3:
		// This server takes noreply only at the end, as memcached does.
		return true
	case has("ma", "C"):
		// An empty value is not a number, whatever the token.
		return true
	case has("c"), has("me"):
		// Tokens.
		return !strings.HasPrefix(line, "cas ")
	case has("I", "C1"), has("E7"):
		// larderd chooses tokens that are larger than the tokens of clients.
		return true
	}
	return false
}

func TestAnswersOddLinesLikeLarderd(t *testing.T) {
	larderd := testserver.Start(t, "larderd")
	_, larder := start(t, withTokens())
	compare(t, larderd, larder, seeded, 9)
	seed := time.Now().UnixNano()
	random := rand.New(rand.NewSource(seed))
	t.Logf("seed %d", seed)
	for range 1000 {
		var requests strings.Builder
		for range 8 {
			if line := oddLine(random); !differs(line) {
				requests.WriteString(line)
			}
		}
		fmt.Fprint(&requests, "\r\n\r\nmn\r\n")
		compare(t, larderd, larder, requests.String(), 1+random.Intn(50))
	}
}

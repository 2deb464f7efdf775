package conformance_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strconv"
	"testing"

	"larder.example/larder/shared"
)

// The other processes of a test run the program of this test. This environment variable selects
// what such a process does.
const roleVariable = "LARDER_TEST_CHILD"

func TestMain(m *testing.M) {
	children := map[string]func(*shared.Cache, []string) error{"peer": playPeer, "writer": writeOn, "reader": readOn}
	child, ok := children[os.Getenv(roleVariable)]
	if !ok {
		os.Exit(m.Run())
	}
	cache, err := shared.Open(os.Args[1], shared.Options{})
	if err == nil {
		err = child(cache, os.Args[2:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// playPeer plays a peer. Its arguments are ROUNDS SELF PEER...
func playPeer(cache *shared.Cache, arguments []string) error {
	rounds, err := strconv.Atoi(arguments[0])
	if err != nil {
		return err
	}
	p := peer{cache: cache, self: arguments[1], all: arguments[2:], rounds: rounds}
	return p.run()
}

// writeOn stores values until it is killed. It begins with the given round, and writes the number
// of each round that it has stored to standard output as eight bytes. Its arguments are SELF ROUND
// FILLING.
func writeOn(cache *shared.Cache, arguments []string) error {
	var filling, round int
	if _, err := fmt.Sscan(arguments[1]+" "+arguments[2], &round, &filling); err != nil {
		return err
	}
	for ; ; round++ {
		key := fmt.Sprintf("%s:%d", arguments[0], round%keys)
		if err := store(cache, key, arguments[0], round, filling); err != nil {
			return err
		}
		if _, err := os.Stdout.Write(binary.BigEndian.AppendUint64(nil, uint64(round))); err != nil {
			return err
		}
	}
}

// readOn reads the values of the writers until its standard input ends. It fails if a value is
// incomplete, or older than a value of the same writer that it has read before. Its arguments are
// WRITER...
func readOn(cache *shared.Cache, writers []string) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	seen, last := 0, map[string]int{}
	for {
		select {
		case <-ended:
			fmt.Println(seen)
			return nil
		default:
		}
		for at := range keys * len(writers) {
			key := fmt.Sprintf("%s:%d", writers[at/keys], at%keys)
			found, err := read(cache, key)
			if err != nil {
				return err
			}
			if found == nil {
				continue
			}
			if seen++; found.round < last[key] {
				return fmt.Errorf("%s went back from round %d to %d", key, last[key], found.round)
			}
			last[key] = found.round
		}
	}
}

package reader

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"larder.example/larder/internal/check"
)

func TestHashMatchesWriter(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(check.Repository(t), "conformance/region/hash.json"))
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Seeds []struct {
			Seed   string
			Hashes []string
		}
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, seed := range vectors.Seeds {
		number, err := strconv.ParseUint(seed.Seed, 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		secrets := secretsOf(number)
		for i, expected := range seed.Hashes {
			key := make([]byte, i+1)
			for at := range key {
				key[at] = byte(31*len(key) + 17*at)
			}
			if want, err := strconv.ParseUint(expected, 16, 64); err != nil || secrets.hash(key) != want {
				t.Fatalf("hash with seed %s of %d bytes = %016x, want %s", seed.Seed, len(key), secrets.hash(key), expected)
			}
			checked++
		}
	}
	if checked < 4*250 {
		t.Fatalf("%d vectors, want at least %d", checked, 4*250)
	}
}

// Keys have at most 250 bytes, but a lookup of a longer key must not fail.
func TestHashOfAnyLength(t *testing.T) {
	secrets := secretsOf(7)
	seen := map[uint64]int{}
	for n := range 1000 {
		hash := secrets.hash(make([]byte, n))
		if other, ok := seen[hash]; ok {
			t.Fatalf("hash of %d zeros = hash of %d zeros, want different ones", n, other)
		}
		seen[hash] = n
	}
}

package reader_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"larder.example/larder/internal/testserver"
	"larder.example/larder/reader"
)

// testCase is the expected result for a key, as found by the Rust library that created the region.
type testCase struct {
	Key          string
	Found        bool
	Bytes        int
	FNV1a        string
	Flags        uint32
	CAS          uint64
	TTLSecs      int64 `json:"ttl_secs"`
	Stale        bool
	RecacheTaken bool `json:"won"`
}

func (c *testCase) key() []byte {
	key, err := hex.DecodeString(c.Key)
	if err != nil {
		panic(err)
	}
	return key
}

// scene is a region that the Rust library has created for the tests, and its expected contents.
type scene struct {
	name, path string
	cases      []testCase
}

var cases struct {
	once   sync.Once
	folder string
	err    error
}

func TestMain(m *testing.M) {
	flag.Parse()
	if _, isRequired, err := testserver.Find("larderd"); err != nil && !isRequired {
		// An example cannot skip itself.
		fmt.Println("skipping Example:", err)
		_ = flag.Set("test.skip", "^Example$")
	}
	code := m.Run()
	if cases.folder != "" {
		_ = os.RemoveAll(cases.folder)
	}
	os.Exit(code)
}

// scenes returns the scenes that the Rust library creates: by the program that REGION_CASES names,
// or by cargo.
func scenes(t testing.TB) []scene {
	t.Helper()
	cases.once.Do(makeCases)
	if cases.err != nil {
		t.Fatal(cases.err)
	}
	if cases.folder == "" {
		t.Skip("creating the regions requires the repository and cargo, or the built example region_cases in REGION_CASES")
	}
	paths, _ := filepath.Glob(filepath.Join(cases.folder, "*.region"))
	if len(paths) < 7 {
		t.Fatalf("scenes %q, want at least 7", paths)
	}
	var all []scene
	for _, path := range paths {
		text, err := os.ReadFile(strings.TrimSuffix(path, ".region") + ".json")
		if err != nil {
			t.Fatal(err)
		}
		one := scene{name: strings.TrimSuffix(filepath.Base(path), ".region"), path: path}
		if err := json.Unmarshal(text, &one.cases); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}

// makeCases writes the regions and their expected contents to a folder.
func makeCases() {
	program := []string{os.Getenv("REGION_CASES")}
	if program[0] == "" {
		if _, err := exec.LookPath("cargo"); err != nil {
			return
		}
		if _, err := os.Stat("../../Cargo.toml"); err != nil {
			// The module is not in its repository.
			return
		}
		program = strings.Fields("cargo run --quiet --release --locked -p larder --example region_cases --")
	}
	if cases.folder, cases.err = os.MkdirTemp("", "region-cases"); cases.err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, program[0], append(program[1:], cases.folder)...)
	if command.Dir = "../.."; len(program) == 1 {
		command.Dir = ""
	}
	if output, err := command.CombinedOutput(); err != nil {
		cases.err = fmt.Errorf("%v: %w: %s", program, err, output)
	}
}

// check returns an error if the result of a read differs from the expected one.
func (c *testCase) check(value []byte, info reader.Info, ok bool) error {
	if ok != c.Found {
		return fmt.Errorf("found %v, want %v", ok, c.Found)
	}
	if !ok {
		return nil
	}
	hash := fnv.New64a()
	_, _ = hash.Write(value)
	if found := fmt.Sprintf("%016x", hash.Sum64()); len(value) != c.Bytes || found != c.FNV1a {
		return fmt.Errorf("%d bytes with hash %s, want %d with %s", len(value), found, c.Bytes, c.FNV1a)
	}
	// The region may be some minutes old.
	ttl := int64(info.TTL / time.Second)
	if ttl > c.TTLSecs || ttl < c.TTLSecs-300 || (ttl == 0) != (c.TTLSecs == 0) {
		return fmt.Errorf("TTL %d s, want %d s", ttl, c.TTLSecs)
	}
	info.TTL = 0
	if want := (reader.Info{Flags: c.Flags, CAS: c.CAS, Stale: c.Stale, RecacheTaken: c.RecacheTaken}); info != want {
		return fmt.Errorf("info %+v, want %+v", info, want)
	}
	return nil
}

func TestGetMatchesRustLibrary(t *testing.T) {
	for _, scene := range scenes(t) {
		t.Run(scene.name, func(t *testing.T) {
			region, err := reader.Open(scene.path)
			if err != nil {
				t.Fatal(err)
			}
			defer region.Close()
			buffer := []byte("before")
			found := 0
			for _, c := range scene.cases {
				value, info, ok := region.Get(buffer, c.key())
				if !bytes.HasPrefix(value, []byte("before")) {
					t.Fatalf("Get(%q) changed the contents of dst", c.key())
				}
				if err := c.check(value[len("before"):], info, ok); err != nil {
					t.Errorf("Get(%q): %v", c.key(), err)
				}
				if ok {
					found++
				}
			}
			t.Logf("%d of %d keys found", found, len(scene.cases))
		})
	}
}

func TestGetManyMatchesGet(t *testing.T) {
	for _, scene := range scenes(t) {
		t.Run(scene.name, func(t *testing.T) {
			region, err := reader.Open(scene.path)
			if err != nil {
				t.Fatal(err)
			}
			defer region.Close()
			for _, count := range []int{0, 1, 15, 16, 17, len(scene.cases)} {
				keys := make([][]byte, min(count, len(scene.cases)))
				for i := range keys {
					keys[i] = scene.cases[i].key()
				}
				next := 0
				all := region.GetMany([]byte("before"), keys, func(i int, value []byte, info reader.Info) {
					for ; next < i; next++ {
						if scene.cases[next].Found {
							t.Errorf("GetMany did not find %q", keys[next])
						}
					}
					if err := scene.cases[i].check(value, info, true); err != nil {
						t.Errorf("GetMany of %q: %v", keys[i], err)
					}
					next = i + 1
				})
				if !bytes.HasPrefix(all, []byte("before")) {
					t.Fatal("GetMany changed the contents of dst")
				}
				for ; next < len(keys); next++ {
					if scene.cases[next].Found {
						t.Errorf("GetMany did not find %q", keys[next])
					}
				}
			}
		})
	}
}

func TestAllocations(t *testing.T) {
	for _, scene := range scenes(t) {
		region, err := reader.Open(scene.path)
		if err != nil {
			t.Fatal(err)
		}
		defer region.Close()
		keys := make([][]byte, min(500, len(scene.cases)))
		for i := range keys {
			keys[i] = scene.cases[i].key()
		}
		dst := make([]byte, 0, 1<<20)
		many := make([]byte, 0, 32<<20)
		allocations := testing.AllocsPerRun(3, func() {
			for _, key := range keys {
				region.Get(dst, key)
			}
			found := 0
			region.GetMany(many, keys, func(int, []byte, reader.Info) { found++ })
		})
		// Each of the two reads allocates for a value of more than 64 pieces.
		large := 0
		for _, c := range scene.cases[:len(keys)] {
			if c.Bytes > 64*(8<<10)-64 {
				large += 2
			}
		}
		if allocations > float64(large) {
			t.Errorf("%s: %v allocations, want at most %d", scene.name, allocations, large)
		}
	}
}

// Package scenes runs the test cases of conformance/api/cases.json on the caches of this module and
// of larder/shared. A test case is a scene: a list of operations on a new cache, with the result
// that each must have. The README of that folder documents the fields.
package scenes

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"larder.example/larder/internal/check"
)

// Cache is a cache under test. Conditional changes report whether their condition held.
type Cache interface {
	Get(key string) (value []byte, ttl time.Duration, err error)
	// GetMany returns nil for each key without an item.
	GetMany(keys []string) ([][]byte, error)
	Set(key string, value []byte, ttl time.Duration) error
	Add(key string, value []byte, ttl time.Duration) (bool, error)
	Replace(key string, value []byte, ttl time.Duration) (bool, error)
	Append(key string, part []byte) (bool, error)
	Prepend(key string, part []byte) (bool, error)
	// Token returns the token of an item.
	Token(key string) uint64
	CompareAndSwap(key string, value []byte, ttl time.Duration, token uint64) (uint64, error)
	Delete(key string) (bool, error)
	Touch(key string, ttl time.Duration) (bool, error)
	Incr(key string, delta uint64) (uint64, error)
	Decr(key string, delta uint64) (uint64, error)
	Clear() error
	Close() error
}

// Walker is a cache that lists its items.
type Walker interface {
	Keys(prefix string) []string
	RemovePrefix(prefix string) (int, error)
	Len() int
}

// Settings are the options of a cache that a scene, or a step of it, requires.
type Settings struct {
	// CAS is true if the scene requires tokens.
	CAS bool `json:"cas"`
	// Tier is the mode of a disk tier, "store" or "cache", and TierBytes its size; no tier if empty.
	Tier      string `json:"tier"`
	TierBytes int64  `json:"tier_bytes"`
}

// Player plays scenes on one kind of cache.
type Player struct {
	// Open opens a cache of 8 MiB in a folder, with a disk tier if the settings require one.
	Open func(t *testing.T, settings Settings, folder string) (Cache, error)
	// Errors are the errors by the names of the scenes.
	Errors map[string]error
	// HasTier is true if the cache can have a disk tier. Other caches do not play scenes with one.
	HasTier bool
	// Except are the names of scenes that do not apply to the cache.
	Except []string
}

// scene is a list of steps on a new cache.
type scene struct {
	Name  string `json:"name"`
	Steps []step `json:"steps"`
	// Extra is true for operations that these caches do not have.
	Extra bool `json:"extra"`
	Settings
}

// Play plays all scenes, each in a separate test.
func (p *Player) Play(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(check.Repository(t), "conformance/api/cases.json"))
	check.NoError(t, err)
	var scenes []scene
	check.NoError(t, json.Unmarshal(text, &scenes))
	played := len(p.Except)
	for _, scene := range scenes {
		if scene.Extra || scene.Tier != "" && !p.HasTier || slices.Contains(p.Except, scene.Name) {
			continue
		}
		played++
		t.Run(scene.Name, func(t *testing.T) { p.play(t, &scene) })
	}
	// Without this check, a file without scenes would pass.
	if played < 12 {
		t.Fatalf("%d scenes, want at least 12", played)
	}
}

func (p *Player) play(t *testing.T, s *scene) {
	folder := t.TempDir()
	cache, err := p.Open(t, s.Settings, folder)
	check.NoError(t, err)
	defer func() { _ = cache.Close() }()
	for _, step := range s.Steps {
		step.CAS = s.CAS
		if step.Tier == "" {
			step.Tier, step.TierBytes = s.Tier, s.TierBytes
		}
		switch step.Op {
		case "reopen":
			check.NoError(t, cache.Close())
			if next := p.reopen(t, &step, folder); next != nil {
				cache = next
			}
		case "open_another":
			if another := p.reopen(t, &step, folder); another != nil {
				_ = another.Close()
			}
		default:
			p.step(t, &step, cache)
		}
	}
}

// reopen opens a cache. If the step expects an error, it checks the error and returns nil.
func (p *Player) reopen(t *testing.T, s *step, folder string) Cache {
	t.Helper()
	cache, err := p.Open(t, s.Settings, folder)
	if got := p.name(outcome{done: true, err: err}, s.Op); got != s.Want {
		t.Fatalf("%+v: outcome %q, want %q", s, got, s.Want)
	}
	if err != nil && !strings.Contains(err.Error(), s.Why) {
		t.Errorf("%+v: the reason is %v", s, err)
	}
	if err != nil {
		return nil
	}
	return cache
}

// outcome contains the result of a step: an error, whether the condition of the step held (done),
// or a number.
type outcome struct {
	done   bool
	err    error
	number uint64
}

// name returns the name that the scenes use for an outcome.
func (p *Player) name(o outcome, op string) string {
	for name, target := range p.Errors {
		if errors.Is(o.err, target) {
			return name
		}
	}
	switch {
	case o.err != nil:
		return o.err.Error()
	case o.done:
		return "ok"
	case op == "add":
		return "exists"
	}
	return "missing"
}

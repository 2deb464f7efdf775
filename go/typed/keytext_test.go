package typed

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"larder.example/larder"
	"larder.example/larder/internal/check"
)

type (
	// level has a method String that returns the same text for several values.
	level int
	// name is a string with a method String.
	name string
	pair struct{ Company, Plan string }
	deep struct {
		pair  pair
		parts [2]any
	}
)

func (level) String() string { return "some level" }
func (name) String() string  { return "some name" }

// textOf returns the text of a key in a store.
func textOf[K comparable](t *testing.T, key K) string {
	t.Helper()
	text, err := New(larder.Store(new(mapStore)), Options[K, string]{}).key(key)
	check.NoError(t, err)
	return text
}

func TestKeyTexts(t *testing.T) {
	for found, want := range map[string]string{
		textOf(t, "acme corp"):                          "acme corp",
		textOf(t, 7):                                    "7",
		textOf(t, int8(-7)):                             "-7",
		textOf(t, uint64(math.MaxUint64)):               "18446744073709551615",
		textOf(t, true):                                 "true",
		textOf(t, float32(0.1)):                         "0.1",
		textOf(t, 1e21):                                 "1e+21",
		textOf(t, level(2)):                             "2",
		textOf(t, name("n")):                            "n",
		textOf(t, pair{"acme corp", "b"}):               `{"acme corp" "b"}`,
		textOf(t, [2]int{1, 2}):                         "[1 2]",
		textOf(t, netip.MustParseAddr("::1")):           "::1",
		textOf(t, time.Unix(0, 5).UTC()):                "1970-01-01T00:00:00.000000005Z",
		textOf[any](t, int64(1)):                        "int64(1)",
		textOf[any](t, "1"):                             `string("1")`,
		textOf[any](t, level(1)):                        "larder.example/larder/typed.level(1)",
		textOf[any](t, nil):                             "nil",
		textOf(t, deep{pair{"a", `"`}, [2]any{1, "1"}}): `{{"a" "\""} [int(1) string("1")]}`,
	} {
		check.Equal(t, "text of a key", found, want)
	}
}

// wantDistinct fails the test if two keys have the same text.
func wantDistinct[K comparable](t *testing.T, keys ...K) {
	t.Helper()
	texts := map[string]K{}
	for _, key := range keys {
		text := textOf(t, key)
		if other, isTaken := texts[text]; isTaken {
			t.Errorf("%#v and %#v have the text %q", other, key, text)
		}
		texts[text] = key
	}
}

func TestDifferentKeysHaveDifferentTexts(t *testing.T) {
	wantDistinct(t, pair{"acme corp", "b"}, pair{"acme", "corp b"}, pair{`acme" "corp`, "b"}, pair{"acme", `corp" "b`}, pair{})
	wantDistinct(t, [2]string{"a b", "c"}, [2]string{"a", "b c"}, [2]string{"", "a b c"}, [2]string{"a b c", ""})
	wantDistinct[any](t, nil, "nil", 1, int64(1), uint(1), 1.0, float32(1), true, "true", "1", level(1), level(2), name("1"),
		pair{"1", "1"}, [2]string{"1", "1"}, struct{ A, B string }{"1", "1"}, [1]any{1}, [1]any{"1"}, [1]any{int64(1)}, 'a', "97")
	// The method MarshalText of the embedded time ignores the name.
	type visit struct {
		time.Time
		Name string
	}
	wantDistinct(t, visit{time.Unix(1, 0).UTC(), "a"}, visit{time.Unix(1, 0).UTC(), "b"}, visit{time.Unix(2, 0).UTC(), "a"})
	wantDistinct(t, level(1), level(2), level(3))
	wantDistinct(t, name("a"), name("b"))
	wantDistinct(t, deep{parts: [2]any{"a", "b"}}, deep{parts: [2]any{"b", "a"}}, deep{pair: pair{"a", "b"}}, deep{})
}

func TestKeysOfStructsAreThoseOfTheirOwnValues(t *testing.T) {
	ctx, store := t.Context(), openCache(t).Store()
	plans := New(store, Options[pair, string]{})
	check.NoError(t, plans.Set(ctx, pair{"acme corp", "b"}, "first"))
	_, err := plans.Get(ctx, pair{"acme", "corp b"})
	check.ErrorIs(t, "Get of another key", err, larder.ErrNotFound)
}

func TestKeysWithoutTextAreRefused(t *testing.T) {
	refusal := func(open func()) (said any) {
		defer func() { said = recover() }()
		open()
		return nil
	}
	store := larder.Store(new(mapStore))
	for what, open := range map[string]func(){
		"*int":              func() { New(store, Options[*int, string]{}) },
		"*time.Time":        func() { New(store, Options[*time.Time, string]{}) },
		"chan int":          func() { New(store, Options[chan int, string]{}) },
		"struct of a *pair": func() { New(store, Options[struct{ p *pair }, string]{}) },
		"array of pointers": func() { New(store, Options[[2]*int, string]{}) },
	} {
		if said := fmt.Sprint(refusal(open)); !strings.Contains(said, "set Options.KeyText") {
			t.Errorf("New with keys of type %s: panic %v, want one that names Options.KeyText", what, said)
		}
	}
	New(store, Options[*int, string]{KeyText: func(*int) string { return "k" }})
	anything := New(store, Options[any, string]{})
	check.ErrorIs(t, "Set with a pointer", anything.Set(t.Context(), new(int), "v"), larder.ErrKey)
	_, err := anything.Get(t.Context(), [1]any{new(int)})
	check.ErrorIs(t, "Get with a pointer", err, larder.ErrKey)
	check.ErrorIs(t, "Set with a year without text", New(store, Options[time.Time, string]{}).Set(t.Context(),
		time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC), "v"), larder.ErrKey)
}

package typed

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"larder.example/larder"
	"larder.example/larder/internal/check"
)

func TestGetManyReturnsWhatIsThere(t *testing.T) {
	for name, open := range stores(t) {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			users := New(store, Options[int, user]{Prefix: "user:"})
			for id := range 5 {
				check.NoError(t, users.Set(t.Context(), id, user{Name: fmt.Sprint("user ", id)}))
			}
			check.NoError(t, users.Delete(t.Context(), 3))
			check.NoError(t, store.Set(t.Context(), "user:4", []byte("no JSON"), 0))

			found, err := users.GetMany(t.Context(), []int{4, 0, 3, 2, 9, 0})
			var undecodable *CodecError
			if !errors.As(err, &undecodable) || undecodable.Key != "user:4" {
				t.Errorf("GetMany: error %v, want a CodecError for user:4", err)
			}
			check.Equal(t, "values", fmt.Sprint(found), "map[0:{user 0 []} 2:{user 2 []}]")

			skipping := New(store, Options[int, user]{Prefix: "user:", SkipUndecodable: true})
			found, err = skipping.GetMany(t.Context(), []int{4, 0})
			check.NoError(t, err)
			check.Equal(t, "values without the undecodable one", fmt.Sprint(found), "map[0:{user 0 []}]")
			found, err = skipping.GetMany(t.Context(), nil)
			check.NoError(t, err)
			check.Equal(t, "values of no keys", len(found), 0)
		})
	}
}

func TestGetManyLendsNoMemoryOfTheStore(t *testing.T) {
	raw := New(openCache(t).Store(), Options[string, []byte]{Codec: Bytes[[]byte]()})
	check.NoError(t, raw.Set(t.Context(), "k", []byte("first")))
	found, err := raw.GetMany(t.Context(), []string{"k"})
	check.NoError(t, err)
	found["k"][0] = 'F'
	value, err := raw.Get(t.Context(), "k")
	check.NoError(t, err)
	check.Equal(t, "value after a change of the one that was returned", string(value), "first")
}

func TestTouchSetsTheTimeToLive(t *testing.T) {
	for name, open := range stores(t) {
		t.Run(name, func(t *testing.T) {
			numbers := New(open(t), Options[string, int]{})
			check.NoError(t, numbers.Set(t.Context(), "n", 7))
			isThere, err := numbers.Touch(t.Context(), "n", time.Hour)
			if name == "foreign" {
				check.ErrorIs(t, "Touch", err, errors.ErrUnsupported)
				return
			}
			check.NoError(t, err)
			check.Equal(t, "Touch found", isThere, true)
			isThere, err = numbers.Touch(t.Context(), "none", time.Hour)
			check.NoError(t, err)
			check.Equal(t, "Touch of a key without an item found", isThere, false)
			isThere, err = numbers.Touch(t.Context(), "n", -1)
			check.NoError(t, err)
			check.Equal(t, "Touch with a negative ttl found", isThere, true)
			_, err = numbers.Get(t.Context(), "n")
			check.ErrorIs(t, "Get after it", err, larder.ErrNotFound)
		})
	}
}

func TestUndecodableBytesCountAsNone(t *testing.T) {
	for name, open := range stores(t) {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			numbers := New(store, Options[string, int]{SkipUndecodable: true})
			check.NoError(t, store.Set(t.Context(), "n", []byte(`{"of": "an older version"}`), 0))
			_, err := numbers.Get(t.Context(), "n")
			check.ErrorIs(t, "Get", err, larder.ErrNotFound)
			loads := 0
			load := func(context.Context, string) (int, time.Duration, error) {
				loads++
				return 7, time.Hour, nil
			}
			for range 2 {
				number, err := numbers.GetOrLoad(t.Context(), "n", load)
				check.NoError(t, err)
				check.Equal(t, "GetOrLoad", number, 7)
			}
			check.Equal(t, "loads", loads, 1)
			number, err := numbers.Get(t.Context(), "n")
			check.NoError(t, err)
			check.Equal(t, "Get after the load", number, 7)
		})
	}
}

// A value that the codec encodes and does not decode is an error: loading it again does not help.
func TestAValueThatDoesNotSurviveItsCodecIsAnError(t *testing.T) {
	broken := New(openCache(t).Store(), Options[string, int]{SkipUndecodable: true, Codec: oneWay{}})
	loads := 0
	_, err := broken.GetOrLoad(t.Context(), "n", func(context.Context, string) (int, time.Duration, error) {
		loads++
		return 7, 0, nil
	})
	var undecodable *CodecError
	check.Equal(t, "GetOrLoad fails with a CodecError", errors.As(err, &undecodable), true)
	check.Equal(t, "loads", loads, 2)
}

type oneWay struct{}

func (oneWay) Encode(int) ([]byte, error) { return []byte("x"), nil }
func (oneWay) Decode([]byte) (int, error) { return 0, errors.New("not decodable") }

package typed

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"

	"larder.example/larder"
)

// Codec encodes and decodes values. Several goroutines may call its methods at the same time. A
// method must neither keep nor change the bytes that it receives or returns. A panic in a codec
// propagates to the caller of the cache's method, except in a load: there all callers receive a
// [*larder.PanicError].
type Codec[V any] interface {
	Encode(value V) ([]byte, error)
	Decode(encoded []byte) (V, error)
}

// CodecError is the error of a codec.
type CodecError struct {
	// Key is the key in the store.
	Key string
	// Err is the error that the codec has returned.
	Err error
	// IsDecode is true if the codec could not decode the bytes in the store, and false if it could
	// not encode a value.
	IsDecode bool
}

func (e *CodecError) Error() string {
	if e.IsDecode {
		return fmt.Sprintf("larder: cannot decode the value of %q, which another type or version may have stored: %v",
			e.Key, e.Err)
	}
	return fmt.Sprintf("larder: cannot encode the value of %q: %v", e.Key, e.Err)
}

// Unwrap returns the error of the codec.
func (e *CodecError) Unwrap() error { return e.Err }

func (c *Cache[K, V]) encode(key string, value V) ([]byte, error) {
	encoded, err := c.options.Codec.Encode(value)
	if err != nil {
		return nil, &CodecError{Key: key, Err: err}
	}
	return encoded, nil
}

func (c *Cache[K, V]) decode(key string, encoded []byte) (V, error) {
	value, err := c.options.Codec.Decode(encoded)
	if err != nil {
		var none V
		return none, &CodecError{Key: key, Err: err, IsDecode: true}
	}
	return value, nil
}

// JSON returns a codec that uses package encoding/json.
func JSON[V any]() Codec[V] { return jsonCodec[V]{} }

type jsonCodec[V any] struct{}

func (jsonCodec[V]) Encode(value V) ([]byte, error) { return json.Marshal(value) }

func (jsonCodec[V]) Decode(encoded []byte) (value V, err error) {
	err = json.Unmarshal(encoded, &value)
	return value, err
}

// Bytes returns a codec for values that are already bytes or text.
func Bytes[V ~[]byte | ~string]() Codec[V] { return bytesCodec[V]{} }

type bytesCodec[V ~[]byte | ~string] struct{}

func (bytesCodec[V]) Encode(value V) ([]byte, error)   { return []byte(value), nil }
func (bytesCodec[V]) Decode(encoded []byte) (V, error) { return V(encoded), nil }

// binaryPointer is the constraint of a pointer to V that has the two methods of package encoding.
type binaryPointer[V any] interface {
	*V
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}

// Binary returns a codec for types whose pointers have the methods MarshalBinary and
// UnmarshalBinary: Binary[time.Time](). For messages of Protocol Buffers, write a Codec that calls
// the functions Marshal and Unmarshal of that package.
func Binary[V any, P binaryPointer[V]]() Codec[V] { return binaryCodec[V, P]{} }

type binaryCodec[V any, P binaryPointer[V]] struct{}

func (binaryCodec[V, P]) Encode(value V) ([]byte, error) { return P(&value).MarshalBinary() }

func (binaryCodec[V, P]) Decode(encoded []byte) (value V, err error) {
	err = P(&value).UnmarshalBinary(encoded)
	return value, err
}

func isNotFound(err error) bool { return errors.Is(err, larder.ErrNotFound) }

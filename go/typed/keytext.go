package typed

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"

	"larder.example/larder"
)

// keyText returns the default of [Options.KeyText]. It panics if a key of the type cannot have a
// text that distinguishes it from all other keys. This is the case if the type contains a pointer,
// whose value differs in each process.
func keyText[K comparable]() func(K) (string, error) {
	kind := reflect.TypeFor[K]()
	if part := withoutText(kind); part != nil {
		panic(fmt.Sprintf("larder/typed: a key of type %v has no text, because of its %v: set Options.KeyText", kind, part))
	}
	if kind.Kind() == reflect.String && !isMarshaler(kind) {
		return func(key K) (string, error) { return reflect.ValueOf(key).String(), nil }
	}
	return func(key K) (string, error) {
		// For a key of an interface type the dynamic type matters: the text of its value begins with
		// the type.
		value := reflect.ValueOf(&key).Elem()
		text, err := appendKey(nil, value, false)
		if err != nil {
			return "", fmt.Errorf("%w: the text of %v: %w", larder.ErrKey, kind, err)
		}
		return string(text), nil
	}
}

var marshaler = reflect.TypeFor[encoding.TextMarshaler]()

// isMarshaler returns true for a type whose text is the result of MarshalText. It returns false for
// a pointer, because two pointers may have the same text, and for a struct whose method comes from
// an embedded field, because that method ignores the other fields.
func isMarshaler(kind reflect.Type) bool {
	switch kind.Kind() {
	case reflect.Interface, reflect.Pointer:
		return false
	case reflect.Struct:
		for at := range kind.NumField() {
			field := kind.Field(at)
			if field.Anonymous && (field.Type.Implements(marshaler) || reflect.PointerTo(field.Type).Implements(marshaler)) {
				return false
			}
		}
	}
	return kind.Implements(marshaler)
}

// withoutText returns a part of a type because of which its values have no text, or nil if there is
// no such part. Whether an interface has a text depends on its value, so withoutText accepts it.
func withoutText(kind reflect.Type) reflect.Type {
	if isMarshaler(kind) {
		return nil
	}
	switch kind.Kind() {
	case reflect.Pointer, reflect.UnsafePointer, reflect.Chan:
		return kind
	case reflect.Array:
		return withoutText(kind.Elem())
	case reflect.Struct:
		for at := range kind.NumField() {
			if part := withoutText(kind.Field(at).Type); part != nil {
				return part
			}
		}
	}
	return nil
}

// appendKey appends the text of a key or of a part of one. Text is quoted within others, and the
// value of an interface follows its type, so that different keys have different texts.
func appendKey(dst []byte, value reflect.Value, isPart bool) ([]byte, error) {
	kind := value.Type()
	if isMarshaler(kind) && value.CanInterface() {
		text, err := value.Interface().(encoding.TextMarshaler).MarshalText()
		if err != nil {
			return dst, err
		}
		return appendText(dst, string(text), isPart), nil
	}
	switch kind.Kind() {
	case reflect.Bool:
		return strconv.AppendBool(dst, value.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(dst, value.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return strconv.AppendUint(dst, value.Uint(), 10), nil
	case reflect.Float32:
		return fmt.Append(dst, float32(value.Float())), nil
	case reflect.Float64:
		return fmt.Append(dst, value.Float()), nil
	case reflect.Complex64:
		return fmt.Append(dst, complex64(value.Complex())), nil
	case reflect.Complex128:
		return fmt.Append(dst, value.Complex()), nil
	case reflect.String:
		return appendText(dst, value.String(), isPart), nil
	case reflect.Array:
		return appendParts(dst, "[]", value.Len(), value.Index)
	case reflect.Struct:
		return appendParts(dst, "{}", value.NumField(), value.Field)
	case reflect.Interface:
		return appendDynamic(dst, value)
	}
	return dst, fmt.Errorf("a %v has no text: set Options.KeyText", kind)
}

func appendText(dst []byte, text string, isPart bool) []byte {
	if isPart {
		return strconv.AppendQuote(dst, text)
	}
	return append(dst, text...)
}

// appendParts appends parts between brackets.
func appendParts(dst []byte, brackets string, count int, part func(int) reflect.Value) ([]byte, error) {
	dst = append(dst, brackets[0])
	for at := range count {
		if at > 0 {
			dst = append(dst, ' ')
		}
		var err error
		if dst, err = appendKey(dst, part(at), true); err != nil {
			return dst, err
		}
	}
	return append(dst, brackets[1]), nil
}

// appendDynamic appends the type and the value of an interface: 1 of type int and 1 of type int64
// are different keys.
func appendDynamic(dst []byte, value reflect.Value) ([]byte, error) {
	if value.IsNil() {
		return append(dst, "nil"...), nil
	}
	value = value.Elem()
	kind := value.Type()
	if part := withoutText(kind); part != nil {
		return dst, fmt.Errorf("a %v has no text: set Options.KeyText", part)
	}
	name := kind.String()
	if kind.PkgPath() != "" {
		// Several packages may have the same name.
		name = kind.PkgPath() + "." + kind.Name()
	}
	dst, err := appendKey(append(append(dst, name...), '('), value, true)
	return append(dst, ')'), err
}

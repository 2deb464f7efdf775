package client

// verb is what can be asked of a server.
type verb uint8

const (
	verbGet verb = iota
	verbGetAndTouch
	verbTouch
	verbSet
	verbAdd
	verbReplace
	verbAppend
	verbPrepend
	verbCompareAndSwap
	verbDelete
	verbIncrement
	verbDecrement
	verbFlush
	verbPing
)

func (v verb) stores() bool { return v >= verbSet && v <= verbCompareAndSwap }

// repeatable says whether it makes no difference if the server has done it already: only then is it asked again on
// another connection, where one that was idle turns out to be closed.
func (v verb) repeatable() bool {
	switch v {
	case verbGet, verbGetAndTouch, verbTouch, verbSet, verbFlush, verbPing:
		return true
	}
	return false
}

// operation is a request to one server, and what comes of it besides an error.
type operation struct {
	verb    verb
	key     string
	value   []byte
	flags   uint32
	exptime int32
	cas     uint64
	delta   uint64

	item   *Item
	number uint64
}

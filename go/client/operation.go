package client

// verb is the kind of a request.
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
	verbStats
)

func (v verb) stores() bool { return v >= verbSet && v <= verbCompareAndSwap }

// repeatable reports whether a request changes nothing. Only such a request may be sent again if it
// is unknown whether the server has executed it. If another client has made a change in between,
// the second execution of a change could overwrite it.
func (v verb) repeatable() bool { return v == verbGet || v == verbPing || v == verbStats }

// operation is a request to one server and its result.
type operation struct {
	verb    verb
	key     string
	value   []byte
	flags   uint32
	exptime int32
	cas     uint64
	delta   uint64
	// initial is the number that increment and decrement store if the key has no item and creates is
	// true.
	initial uint64
	creates bool

	item   *Item
	number uint64
	// wantsDetails requests details, or the new CasID in number.
	wantsDetails bool
	details      Details
	// stats receives the statistics of verbStats; key is their group.
	stats      map[string]string
	statsBytes int
}

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

// repeatable reports whether a request changes nothing. Only such a request is sent again after the
// server may have executed it: a second execution could overwrite a change of another client.
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
	// initial is the number of a key that increment and decrement create, if creates is true.
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

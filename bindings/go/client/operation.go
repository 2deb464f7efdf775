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

// repeatable says whether a request changes nothing: only then is it sent again where the server may have carried it out
// already. A change that is carried out a second time could undo what another client has changed in between.
func (v verb) repeatable() bool { return v == verbGet || v == verbPing }

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
	// wantsDetails has details filled too, or number with the new CasID.
	wantsDetails bool
	details      Details
}

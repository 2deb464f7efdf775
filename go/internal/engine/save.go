package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// The format of a saved cache:
//
//	magic 8 │ time 8 │ checksum of the time 4
//	block ...      length 4 │ number 4 │ checksum 4 │ records
//	last block     with a length of zero, and the number of items in place of records
//
// Numbers are little-endian. The checksum is CRC-32C over length, number and payload. A record:
//
//	key length 1 │ value length 4 │ flags 4 │ deadline 8 │ key │ value
//
// The time is the time of the save. Time and deadlines are milliseconds of the wall clock since
// 1970; a deadline of zero never passes. The time to live of a loaded item is its deadline minus
// the current time, or minus the time of the save if the clock now shows an earlier time: the clock
// may have been wrong during the save, or may be wrong now. A file that begins with LARDERG1 has no
// time.

// ErrDamaged is the error that Load returns for data that Save did not write, or that has changed
// since.
var ErrDamaged = errors.New("saved cache is damaged")

const (
	saveMagic       = "LARDERG2"
	saveMagicOld    = "LARDERG1"
	blockHeader     = 12
	savedHeader     = 1 + 4 + 4 + 8
	blockBytes      = 64 << 10
	blockBytesMax   = 1 << 31
	growBytesAtOnce = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type saver struct {
	to     io.Writer
	block  []byte
	number uint32
	items  uint64
}

// Save writes all items. Others may use the cache during the call. If they change an item, Save
// writes a state that the item had at some time during the call.
func (e *Engine) Save(to io.Writer) error {
	wall := e.config.Wall()
	if _, err := to.Write(saveHead(wall)); err != nil {
		return err
	}
	s := saver{to: to, block: make([]byte, blockHeader, blockBytes)}
	offset := wall - e.config.Now()
	var value []byte
	for key := range e.Keys("") {
		var item Item
		var ok bool
		if value, item, ok = e.Peek(value[:0], key); !ok {
			continue
		}
		if item.Marks()&Stale != 0 {
			// Skip stale items: the format cannot store the mark, and a reader must not take the value
			// for a fresh value.
			continue
		}
		if item.Deadline != 0 {
			item.Deadline += offset
		}
		if err := s.add(key, value, item); err != nil {
			return err
		}
	}
	if e.closed.Load() {
		return ErrClosed
	}
	return s.finish()
}

func saveHead(wall int64) []byte {
	head := binary.LittleEndian.AppendUint64([]byte(saveMagic), uint64(wall))
	return binary.LittleEndian.AppendUint32(head, crc32.Checksum(head, castagnoli))
}

// readHead returns the time of a saved cache, or the current time for a file without a time.
func (e *Engine) readHead(from io.Reader) (saved int64, err error) {
	var head [len(saveMagic) + 12]byte
	magic, rest := head[:len(saveMagic)], head[len(saveMagic):]
	if _, err := io.ReadFull(from, magic); err != nil {
		return 0, damage(err, "it does not begin as a saved cache does")
	}
	switch string(magic) {
	case saveMagicOld:
		return e.config.Wall(), nil
	case saveMagic:
	default:
		return 0, damage(nil, "it does not begin as a saved cache does")
	}
	if _, err := io.ReadFull(from, rest); err != nil {
		return 0, damage(err, "it ends too early")
	}
	if crc32.Checksum(head[:16], castagnoli) != binary.LittleEndian.Uint32(head[16:]) {
		return 0, damage(nil, "its time has a wrong checksum")
	}
	return int64(binary.LittleEndian.Uint64(rest)), nil
}

func (s *saver) add(key string, value []byte, item Item) error {
	if len(s.block) > blockHeader && len(s.block)+savedHeader+len(key)+len(value) > blockBytes {
		if err := s.flush(len(s.block) - blockHeader); err != nil {
			return err
		}
	}
	s.block = append(s.block, byte(len(key)))
	s.block = binary.LittleEndian.AppendUint32(s.block, uint32(len(value)))
	s.block = binary.LittleEndian.AppendUint32(s.block, item.Flags)
	s.block = binary.LittleEndian.AppendUint64(s.block, uint64(item.Deadline))
	s.block = append(append(s.block, key...), value...)
	s.items++
	return nil
}

// flush writes a block. A length of zero means that the payload is the number of items.
func (s *saver) flush(length int) error {
	binary.LittleEndian.PutUint32(s.block[0:], uint32(length))
	binary.LittleEndian.PutUint32(s.block[4:], s.number)
	binary.LittleEndian.PutUint32(s.block[8:], checksum(s.block[:8], s.block[blockHeader:]))
	_, err := s.to.Write(s.block)
	s.block, s.number = s.block[:blockHeader], s.number+1
	return err
}

func (s *saver) finish() error {
	if len(s.block) > blockHeader {
		if err := s.flush(len(s.block) - blockHeader); err != nil {
			return err
		}
	}
	s.block = binary.LittleEndian.AppendUint64(s.block, s.items)
	return s.flush(0)
}

func checksum(header, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(header, castagnoli), castagnoli, payload)
}

// Loaded counts the items of a saved cache.
type Loaded struct {
	// Stored is the number of items that were stored. Omitted is the number of items that were not
	// stored because they are too large for this cache, or because it has no memory for them. All
	// other items have expired.
	Stored, Omitted int
	// Key is the key of the first omitted item, Bytes is the sum of the lengths of its key and its
	// value, and Reason is the error of its store.
	Key    string
	Bytes  int
	Reason error

	// found counts all items, and saved is the time of the saved cache.
	found uint64
	saved int64
}

// Load reads the items that Save has written and adds them to the cache. It skips items that have
// expired since. If the data is damaged, it stores the items before the damage and returns
// ErrDamaged. It never reads past the end of the saved cache: it reads each header and each block
// with one read.
func (e *Engine) Load(from io.Reader) (loaded Loaded, err error) {
	if loaded.saved, err = e.readHead(from); err != nil {
		return loaded, err
	}
	var block []byte
	for number := uint32(0); ; number++ {
		var isLast bool
		if block, isLast, err = readBlock(from, block, number); err != nil {
			return loaded, err
		}
		if isLast {
			if binary.LittleEndian.Uint64(block) != loaded.found {
				return loaded, damage(nil, "items are missing")
			}
			return loaded, nil
		}
		if err := e.loadBlock(block, &loaded); err != nil {
			return loaded, err
		}
	}
}

func damage(err error, what string) error {
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	return fmt.Errorf("%w: %s", ErrDamaged, what)
}

// readBlock reads and checks a block. Its memory grows as data arrives, so that a damaged length
// does not allocate more memory than the size of the data.
func readBlock(from io.Reader, block []byte, number uint32) ([]byte, bool, error) {
	var header [blockHeader]byte
	if _, err := io.ReadFull(from, header[:]); err != nil {
		return nil, false, damage(err, "it ends too early")
	}
	length := int64(binary.LittleEndian.Uint32(header[0:]))
	isLast := length == 0
	if isLast {
		length = 8
	}
	if length > blockBytesMax || binary.LittleEndian.Uint32(header[4:]) != number {
		return nil, false, damage(nil, "a block has an invalid header")
	}
	block = block[:0]
	for int64(len(block)) < length {
		start := len(block)
		block = append(block, make([]byte, min(length-int64(start), growBytesAtOnce))...)
		if _, err := io.ReadFull(from, block[start:]); err != nil {
			return nil, false, damage(err, "it ends too early")
		}
	}
	if checksum(header[:8], block) != binary.LittleEndian.Uint32(header[8:]) {
		return nil, false, damage(nil, "a block has a wrong checksum")
	}
	return block, isLast, nil
}

// loadBlock stores the items of a block. If the clock is before the time of the saved cache, it
// assumes that no time has passed.
func (e *Engine) loadBlock(block []byte, loaded *Loaded) error {
	for len(block) > 0 {
		if len(block) < savedHeader {
			return damage(nil, "a record is incomplete")
		}
		keyBytes, valueBytes := int(block[0]), int64(binary.LittleEndian.Uint32(block[1:]))
		flags := binary.LittleEndian.Uint32(block[5:])
		deadline := int64(binary.LittleEndian.Uint64(block[9:]))
		block = block[savedHeader:]
		if int64(len(block)) < int64(keyBytes)+valueBytes {
			return damage(nil, "a record is incomplete")
		}
		key, value := string(block[:keyBytes]), block[keyBytes:int64(keyBytes)+valueBytes]
		block = block[int64(keyBytes)+valueBytes:]
		loaded.found++
		ttl := int64(0)
		if deadline != 0 {
			if ttl = deadline - max(loaded.saved, e.config.Wall()); ttl <= 0 {
				continue
			}
		}
		switch _, err := e.Set(key, value, flags, ttl); {
		case err == nil:
			loaded.Stored++
		case errors.Is(err, ErrClosed):
			return err
		default:
			if loaded.Omitted++; loaded.Omitted == 1 {
				loaded.Key, loaded.Bytes, loaded.Reason = key, len(key)+len(value), err
			}
		}
	}
	return nil
}

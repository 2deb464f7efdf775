package reader

// keysAtOnce is for how many keys the memory is asked at a time.
const keysPerBatch = 16

// getMany is GetMany; and says of each whether a note that it was read would tell its owner something.
func (v *view) getMany(dst []byte, keys [][]byte, found func(index int, value []byte, info Info, isHintDue bool)) []byte {
	var hashes [keysPerBatch]uint64
	for first := 0; first < len(keys); first += keysPerBatch {
		now, ok := v.now()
		if !ok || v.isFlushDue(now) {
			break
		}
		batch := keys[first:min(first+keysPerBatch, len(keys))]
		for i, key := range batch {
			hashes[i] = v.secrets.hash(key)
		}
		v.fetch(hashes[:len(batch)])
		for i, key := range batch {
			start := len(dst)
			value, info, ok, isHintDue := v.lookUp(dst, key, hashes[i], now)
			if dst = value; ok {
				found(first+i, value[start:len(value):len(value)], info, isHintDue)
			}
		}
	}
	return dst
}

// fetch loads what look-ups that follow will need: the groups of all keys, then the records that these name. None of the
// loads of a round depends on another, so that the processor waits for all of them together.
func (v *view) fetch(hashes []uint64) {
	var groups, records [keysPerBatch]uint64
	var sink uint64
	for i, hash := range hashes {
		first, _ := lines(hash)
		groups[i] = v.groupAt(v.layout.groupsAt, v.groupOf(hash)) + 8 + first*8
	}
	for _, at := range groups[:len(hashes)] {
		sink |= v.memory.word(at)
	}
	for i, hash := range hashes {
		records[i] = v.candidate(groups[i], hash)
	}
	for _, at := range records[:len(hashes)] {
		sink |= v.memory.word(at)
	}
	_ = sink
}

// candidate is where the record of a hash may be: named by the first slot of its preferred line that has its tag.
func (v *view) candidate(slotsAt, hash uint64) uint64 {
	tag := v.tagOf(hash)
	_, count := lines(hash)
	for i := range count {
		if slot := v.slot(slotsAt + i*8); slot.hasTag(tag) {
			return v.layout.segmentAt(slot.segment()) + slot.offset()
		}
	}
	return slotsAt
}

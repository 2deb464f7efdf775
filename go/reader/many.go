package reader

// keysPerBatch is the number of keys whose memory is loaded at the same time.
const keysPerBatch = 16

// getMany is like GetMany, and also reports for each item whether a hint would be useful.
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

// fetch loads the memory that the following lookups need: first a word of the group of each key,
// then the first word of the record that each key probably has. The loads of each of these two
// rounds do not depend on each other, so the processor overlaps their cache misses. fetch discards
// the loaded words.
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

// candidate returns the likely offset of a record: the offset in the first slot of the preferred
// line that has the tag of the hash.
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

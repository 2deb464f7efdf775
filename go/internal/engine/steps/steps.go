// Package steps names the points between the steps of readers and writers. With the build tag
// larder_steps, a test can stop a goroutine at such a point and let another goroutine continue.
// Without the tag the points cost nothing.
package steps

// Step is a point in a reader or a writer.
type Step string

// The points of a reader, in package shard's find.go.
const (
	LevelLoaded       Step = "reader has loaded the level"
	LinkFollowed      Step = "reader has followed a link"
	SlotLoaded        Step = "reader has loaded the slot"
	GenerationChecked Step = "reader has compared the generation"
	SegmentPinned     Step = "reader has pinned the segment"
	GenerationLoaded  Step = "reader has loaded the generation again"
)

// The points of a writer that splits a group, in package shard's grow.go.
const (
	GroupFilled     Step = "writer has filled the new group"
	LevelRaised     Step = "writer has raised the level"
	SlotsCleared    Step = "writer has cleared the moved slots"
	ChainCopied     Step = "writer has copied the chain to its first group"
	ChainCut        Step = "writer has replaced the link"
	LevelChanged    Step = "writer has changed the level again"
	OverflowCleared Step = "writer has cleared the overflow groups"
)

// The points of a writer that empties a segment, in package shard's evict.go and segments.go.
const (
	RecordMoved      Step = "writer has stored the new place of a record"
	GenerationRaised Step = "writer has raised the generation"
	PinsScanned      Step = "writer has looked at the pins"
)

// OfReader returns true for the points of a reader.
func (s Step) OfReader() bool { return s[0] == 'r' }

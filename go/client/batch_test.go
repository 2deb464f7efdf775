package client

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"larder.example/larder/internal/check"
	"larder.example/larder/wire"
)

// multiGet returns the items of a multi-get in the meta protocol with this response, and its error.
func multiGet(response io.Reader, keys []string, maxValueBytes int) (map[string]*Item, error) {
	cn := newConn(script{response}, serverAddr{"tcp", "there:1"}, maxValueBytes)
	cn.dialect = wire.Meta
	g := &group{keys: keys, wanted: len(keys)}
	err := cn.getMany(keys, g.newItem)
	items := map[string]*Item{}
	g.addTo(items)
	return items, err
}

// mixed returns responses with values and flags of many kinds, and the items that they contain.
func mixed(keys []string) (response []byte, want map[string]Item) {
	want = map[string]Item{}
	for i, key := range keys {
		item := Item{Key: key, Flags: uint32(i), CasID: uint64(1_000_000 + i)}
		size, flags := []int{0, 1, 100, chunkValueBytes, chunkValueBytes + 1, 5000}[i%6], ""
		item.Value = []byte(strings.Repeat(fmt.Sprint(i, "\r\nVA 3 c1 f0 O9\r\n"), size))[:size]
		switch i % 7 {
		case 0:
			// A miss has no response.
			continue
		case 1:
			// The number of another key.
			item.CasID = uint64(i + 1)
			flags = fmt.Sprintf("O%d f%d c%d", i, item.Flags, item.CasID)
		case 2:
			flags = fmt.Sprintf("c%d f%d O%d W", item.CasID, item.Flags, i)
		case 3:
			item.CasID = 1<<64 - 1
			fallthrough
		default:
			flags = fmt.Sprintf("c%d f%d O%d", item.CasID, item.Flags, i)
		}
		response = fmt.Appendf(response, "VA %d %s\r\n%s\r\n", size, flags, item.Value)
		want[key] = item
	}
	return append(response, "MN\r\n"...), want
}

func wantItems(t *testing.T, name string, items map[string]*Item, err error, want map[string]Item) {
	t.Helper()
	check.NoError(t, err)
	check.Equal(t, name+": number of items", len(items), len(want))
	for key, item := range want {
		got := items[key]
		if got == nil || !bytes.Equal(got.Value, item.Value) || got.Flags != item.Flags ||
			got.CasID != item.CasID || got.Key != key || cap(got.Value) != len(got.Value) && len(got.Value) <= chunkValueBytes {
			t.Fatalf("%s: the item of %q is %+v, want %+v", name, key, got, item)
		}
	}
}

func TestResponsesToAMultiGetArriveInParts(t *testing.T) {
	keys := testKeys(40)
	response, want := mixed(keys)
	for _, maxValueBytes := range []int{5000, 1 << 20} {
		items, err := multiGet(bytes.NewReader(response), keys, maxValueBytes)
		wantItems(t, "one part", items, err, want)
		items, err = multiGet(iotest.OneByteReader(bytes.NewReader(response)), keys, maxValueBytes)
		wantItems(t, "bytes", items, err, want)
		for at := 0; at < len(response); at += 13 {
			parts := io.MultiReader(bytes.NewReader(response[:at]), bytes.NewReader(response[at:]))
			items, err := multiGet(parts, keys, maxValueBytes)
			wantItems(t, fmt.Sprint("two parts, of ", at, " bytes and the rest"), items, err, want)
		}
	}
}

func TestSeveralValuesMayBeLongerThanMaxValueBytes(t *testing.T) {
	keys, want := testKeys(100), map[string]Item{}
	var response []byte
	for i, key := range keys {
		want[key] = Item{Key: key, Value: bytes.Repeat([]byte{byte(i)}, 100), CasID: 7}
		response = fmt.Appendf(response, "VA 100 c7 f0 O%d\r\n%s\r\n", i, want[key].Value)
	}
	items, err := multiGet(bytes.NewReader(append(response, "MN\r\n"...)), keys, 100)
	wantItems(t, "100 values of 100 bytes", items, err, want)
}

func TestInvalidResponsesToAMultiGet(t *testing.T) {
	const first = "VA 1 c1 f0 O1\r\na\r\n"
	for _, second := range []string{
		"VA 1 c1 f0 O1\r\nb\r\n", "VA 1 c1 f0 O0\r\nb\r\n", "VA 1 c1 f0 O3\r\nb\r\n", "VA 1 c1 f0\r\nb\r\n",
		"VA 1 c f0 O2\r\nb\r\n", "VA 1 c1 f0 O2\r\nbb\n", "VA 1 c99999999999999999999 f0 O2\r\nb\r\n", "HD\r\n",
	} {
		items, err := multiGet(strings.NewReader(first+second+"MN\r\n"), testKeys(3), 100)
		if err == nil {
			t.Errorf("the response %q is accepted: %v", second, items)
		}
		check.Equal(t, fmt.Sprintf("number of items before %q", second), len(items), 1)
	}
}

func TestRetriedMultiGetReturnsNoItemOfTheBrokenConnection(t *testing.T) {
	var connections atomic.Int32
	client, _ := newCountedClient(t, Options{Protocol: ProtocolMeta}, fakeServer(t, func(conn net.Conn) {
		isFirst := connections.Add(1) == 1
		lines := bufio.NewReader(conn)
		for {
			line, err := lines.ReadString('\n')
			switch {
			case err != nil:
				return
			case isFirst && strings.HasPrefix(line, "mg"):
				// The server ends; the next one has no items.
				io.WriteString(conn, "VA 1 c1 f0 O0\r\nv\r\n")
				return
			case line == "mn\r\n":
				io.WriteString(conn, "MN\r\n")
			}
		}
	}))
	check.NoError(t, client.Ping())
	items, err := client.GetMulti([]string{"a"})
	check.NoError(t, err)
	check.Equal(t, "items", len(items), 0)
	check.Equal(t, "connections", connections.Load(), 2)
}

package client

import (
	"fmt"
	"hash/crc32"
	"net"
	"strings"
	"testing"

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/testserver"
)

// placements are the servers of the keys key:0 to key:99, as indexes into the list, in libmemcached
// 1.1.4 (memcached_generate_hash, with MD5) and pymemcache 4.0.0 (RendezvousHash).
var placements = []struct {
	name    string
	hashing Hashing
	servers string
	weights []int
	places  string
}{
	{
		"unweighted, memcached's port", HashKetamaUnweighted,
		"10.0.1.1:11211 10.0.1.2:11211 10.0.1.3:11211 10.0.1.4:11211 cache.example:11211", nil,
		"4003412130124101121403400301400344001440411321201331040342404103434423320113341103214130000423111430",
	},
	{
		"unweighted, other ports", HashKetamaUnweighted,
		"10.0.1.1:11211 10.0.1.2:11212 10.0.1.3:22122 10.0.1.4:1 cache.example:11211", nil,
		"4024414210324313122431430204410343024430433203102302040143404104444403000320122010234340300433221420",
	},
	{
		"unweighted, unix sockets", HashKetamaUnweighted, "/run/a.sock /run/b.sock 10.0.1.1:11211", nil,
		"1221102121110100002222221022102101221112102220122220210110222020211221122102100022000102222022202112",
	},
	{
		"memcached's port", HashKetama,
		"10.0.1.1:11211 10.0.1.2:11211 10.0.1.3:11211 10.0.1.4:11211 cache.example:11211", nil,
		"3343312233013121120104311240413242422221314020124331041430130103443421303443321433212320130404421101",
	},
	{
		"other ports", HashKetama, "10.0.1.1:11211 10.0.1.2:11212 10.0.1.3:22122 10.0.1.4:1 cache.example:11211", nil,
		"0314333303123403020134302140304343224231214130112323231410110310431423301420103210213340030401221223",
	},
	{
		"unix sockets", HashKetama, "/run/a.sock /run/b.sock 10.0.1.1:11211", nil,
		"1001112022211120211112121122120200110101001222112012200211102121011002122020021002111012202121201120",
	},
	{
		"weights", HashKetama, "10.0.1.1:11211 10.0.1.2:11212 10.0.1.3:22122 10.0.1.4:1 cache.example:11211",
		[]int{600, 300, 200, 350, 1000},
		"0314333003103400024144302140300043444431414130444444030410144310431404301424404440244440030404421120",
	},
	{
		"very different weights", HashKetama,
		"10.0.1.1:11211 10.0.1.2:11211 10.0.1.3:11211 10.0.1.4:11211 cache.example:11211", []int{1, 1, 100, 1, 1},
		"2222222222222222222222222222222222222222222222222222222222222222222222322222222222242222222222222222",
	},
	{
		"rendezvous", HashRendezvous,
		"10.0.1.1:11211 10.0.1.2:11212 10.0.1.3:22122 /run/a.sock cache.example:11211", nil,
		"0041230313314444204313011330303213432331433002104203401212023232110132344200443104130042431334401031",
	},
}

func TestPickServerMatchesOtherClients(t *testing.T) {
	for _, test := range placements {
		t.Run(test.name, func(t *testing.T) {
			servers := strings.Fields(test.servers)
			list := &ServerList{Hashing: test.hashing}
			check.NoError(t, list.SetWeighted(servers, test.weights))
			var places strings.Builder
			for i := range test.places {
				addr, err := list.PickServer(fmt.Sprintf("key:%d", i))
				check.NoError(t, err)
				for place, server := range servers {
					if addr.String() == server {
						fmt.Fprint(&places, place)
					}
				}
			}
			check.Equal(t, "servers of the keys", places.String(), test.places)
		})
	}
}

func TestNewPicksServersAsGomemcache(t *testing.T) {
	servers := []string{"10.0.1.1:11211", "10.0.1.2:11211", "10.0.1.3:11211"}
	c := New(servers...)
	for _, key := range testKeys(100) {
		n, err := c.pick(key, 0)
		check.NoError(t, err)
		want := servers[crc32.ChecksumIEEE([]byte(key))%3]
		check.Equal(t, "server of "+key, n.addr.String(), want)
	}
}

func TestPickReturnsEachServerOnce(t *testing.T) {
	servers := strings.Fields(placements[0].servers)
	for _, hashing := range []Hashing{HashModulo, HashKetama, HashKetamaUnweighted, HashRendezvous} {
		list := &ServerList{Hashing: hashing}
		check.NoError(t, list.SetServers(servers...))
		for _, key := range testKeys(20) {
			seen := make(map[string]bool)
			for tried := range servers {
				addr, err := list.pick(key, tried)
				check.NoError(t, err)
				seen[addr.String()] = true
			}
			if len(seen) != len(servers) {
				t.Errorf("hashing %d: pick(%q) returned %v, want all of %v", hashing, key, seen, servers)
			}
			none, err := list.pick(key, len(servers))
			check.NoError(t, err)
			check.Equal(t, "pick after the last server", none, nil)
		}
	}
}

func TestRemovedServerMovesOnlyItsKeys(t *testing.T) {
	servers := strings.Fields(placements[0].servers)
	for _, hashing := range []Hashing{HashKetama, HashKetamaUnweighted, HashRendezvous} {
		before, after := &ServerList{Hashing: hashing}, &ServerList{Hashing: hashing}
		check.NoError(t, before.SetServers(servers...))
		check.NoError(t, after.SetServers(servers[:4]...))
		for _, key := range testKeys(1000) {
			was, _ := before.PickServer(key)
			is, _ := after.PickServer(key)
			if was.String() != servers[4] && was != is {
				t.Errorf("hashing %d: %s moved from %v to %v, want no move", hashing, key, was, is)
			}
			// The keys of a failed server move to the same servers as the keys of a removed server.
			if next, _ := before.pick(key, 1); was.String() == servers[4] && next != is {
				t.Errorf("hashing %d: %s moved to %v, want %v", hashing, key, is, next)
			}
		}
	}
}

func TestMurmur3(t *testing.T) {
	for text, want := range map[string]uint32{"": 0, "a": 0x3c2569b2, "hello": 0x248bfa47, "hello, world": 0x149bbb7f} {
		if got := murmur3([]byte(text)); got != want {
			t.Errorf("murmur3(%q) = %#x, want %#x", text, got, want)
		}
	}
}

func TestServerListCanChange(t *testing.T) {
	first, second := testserver.Start(t, "memcached"), testserver.Start(t, "memcached")
	list := new(ServerList)
	c := NewFromSelector(list)
	defer c.Close()
	_, err := c.Get("k")
	wantOutcome(t, err, ErrNoServers)
	check.NoError(t, list.SetServers(first))
	check.NoError(t, c.Set(&Item{Key: "k", Value: []byte("v")}))
	check.NoError(t, list.SetServers(second))
	_, err = c.Get("k")
	wantOutcome(t, err, ErrCacheMiss)
	if err := list.SetServers("nonsense"); err == nil {
		t.Error("SetServers(nonsense): no error, want one")
	}
	check.NoError(t, list.SetServers(first))
	wantValue(t, c, "k", "v")
}

// singleServer is a selector with one server, and without a server for the key "unassigned".
type singleServer struct{ net.Addr }

func (e singleServer) PickServer(key string) (net.Addr, error) {
	if key == "unassigned" {
		return nil, ErrNoServers
	}
	return e.Addr, nil
}
func (e singleServer) Each(f func(net.Addr) error) error { return f(e.Addr) }

func TestNewFromSelector(t *testing.T) {
	c := NewFromSelector(singleServer{&net.UnixAddr{Name: testserver.Start(t, "memcached"), Net: "unix"}})
	defer c.Close()
	check.NoError(t, c.Set(&Item{Key: "k", Value: []byte("v")}))
	wantValue(t, c, "k", "v")
	_, err := c.Get("unassigned")
	check.ErrorIs(t, "Get", err, ErrNoServers)
	check.NoError(t, c.Ping())
}

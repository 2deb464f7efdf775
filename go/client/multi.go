package client

import (
	"context"
	"errors"
	"slices"
)

// GetMulti returns the items that exist. It takes one write per server and sends to all servers in
// parallel. If some of them fail, it returns the items of the others and the joined errors.
func (c *Client) GetMulti(keys []string) (map[string]*Item, error) {
	return c.GetMultiContext(context.Background(), keys)
}

// GetMultiContext is like GetMulti, but takes a context.
func (c *Client) GetMultiContext(ctx context.Context, keys []string) (map[string]*Item, error) {
	items := make(map[string]*Item, len(keys))
	// failed are the errors of servers whose keys are tried on the next servers. They are returned if
	// no servers are left.
	var errs, failed []error
	for tried := 0; len(keys) > 0; tried++ {
		groups, err := c.group(keys, tried)
		if err != nil {
			return items, err
		}
		if groups == nil {
			break
		}
		failed, keys = nil, nil
		for _, g := range c.ask(ctx, groups) {
			g.addTo(items)
			switch {
			case c.triesNext(g.err):
				failed, keys = append(failed, g.err), append(keys, g.keys...)
			case g.err != nil:
				errs = append(errs, g.err)
			}
		}
	}
	return items, errors.Join(append(errs, failed...)...)
}

// group is the part of a request for one server, and its result.
type group struct {
	node *node
	keys []string
	// chunks contain the items. The last chunk may not be full. wanted is the number of items that do
	// not have a place in them yet.
	chunks [][]Item
	wanted int
	err    error
}

// addTo adds the items of the group to a map.
func (g *group) addTo(items map[string]*Item) {
	for _, chunk := range g.chunks {
		for at := range chunk {
			// An error may have left the last item unfilled.
			if item := &chunk[at]; item.Key != "" {
				items[item.Key] = item
			}
		}
	}
}

// group sorts keys by server. It returns nil if no servers are left to try.
func (c *Client) group(keys []string, tried int) ([]*group, error) {
	if list, ok := c.selector.(*ServerList); ok && tried == 0 && list.isSingle() {
		n, err := c.pick(keys[0], 0)
		return []*group{{node: n, keys: keys}}, err
	}
	var groups []*group
next:
	for _, key := range keys {
		n, err := c.pick(key, tried)
		switch {
		case err != nil:
			return nil, err
		case n == nil:
			return nil, nil
		}
		for _, g := range groups {
			if g.node == n {
				g.keys = append(g.keys, key)
				continue next
			}
		}
		groups = append(groups, &group{node: n, keys: []string{key}})
	}
	return groups, nil
}

// ask sends the requests of all groups in parallel and waits for all responses.
func (c *Client) ask(ctx context.Context, groups []*group) []*group {
	done := make(chan struct{}, len(groups))
	for _, g := range groups[1:] {
		go func() {
			g.ask(ctx, c)
			done <- struct{}{}
		}()
	}
	groups[0].ask(ctx, c)
	for range groups[1:] {
		<-done
	}
	return groups
}

// Items are allocated in chunks of this many. A program that retains an item also retains the Item
// structs of its chunk, but not their values.
const itemsPerChunk = 32

// newItem adds an item to the items of the group.
func (g *group) newItem() *Item {
	if last := len(g.chunks) - 1; last >= 0 {
		if chunk := g.chunks[last]; len(chunk) < cap(chunk) {
			g.chunks[last] = chunk[:len(chunk)+1]
			return &chunk[:len(chunk)+1][len(chunk)]
		}
	}
	chunk := make([]Item, 1, min(itemsPerChunk, max(g.wanted, 1)))
	g.chunks, g.wanted = append(g.chunks, chunk), g.wanted-cap(chunk)
	return &chunk[0]
}

// ask reads the items that are in the server's memory and requests the rest.
func (g *group) ask(ctx context.Context, c *Client) {
	g.wanted = len(g.keys)
	g.keys = g.node.local.readMany(ctx, c, g.keys, g.newItem)
	if len(g.keys) == 0 {
		return
	}
	local := len(g.chunks)
	if local > 0 {
		g.chunks[local-1] = slices.Clip(g.chunks[local-1])
	}
	g.err = g.node.use(ctx, c, true, func(cn *conn) error {
		// A retry requests the items of a broken connection again.
		g.chunks, g.wanted = g.chunks[:local], len(g.keys)
		return cn.getMany(g.keys, g.newItem)
	})
}

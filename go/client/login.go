package client

import "context"

type login struct{ user, password string }

// AuthPlain authenticates the client at all servers, with user and password in place of those in
// Options: by SASL PLAIN in the binary protocol, otherwise by memcached's login for text. It checks
// them with a Ping. New connections use them, too; connections with the old ones are closed.
//
// User and password are sent in clear text, so the servers should be local or have TLS.
func (c *Client) AuthPlain(ctx context.Context, user, password string) error {
	c.mu.Lock()
	c.login = &login{user, password}
	old := c.nodes
	// Servers that require a login do not share their memory, so the nodes change too.
	c.nodes = make(map[string]*node)
	c.mu.Unlock()
	for _, n := range old {
		n.leave()
	}
	return c.PingContext(ctx)
}

// currentLogin returns nil if the client does not authenticate.
func (c *Client) currentLogin() *login {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.login
}
